"""Compression: sums of gradients that send less than the gradients.

Two lossy ways, both off unless they are asked for. `compressed` sends each
gradient in half precision, `top_k` sends its largest entries only. The rest is
kept in a residual, and added to the next step's gradient (error feedback), so
that it is late, not lost:

    corrected = gradient + residual
    sent      = compress(corrected)
    residual  = corrected - sent

After any number of steps the sum of all sent values differs from the sum of the
gradients by the last residuals only. Seide et al. ("1-Bit Stochastic Gradient
Descent and its Application to Data-Parallel Distributed Training of Speech
DNNs", Interspeech 2014) found that, Karimireddy et al. (2019, arXiv:1901.09847)
prove that SGD then converges as without compression.

Each replica has a residual for each tensor that it reduces: a local variable
on the replica's device, with the shape and dtype of the tensor, so that
residuals take as much memory as the gradients. Local variables are not in
checkpoints: a run that is resumed starts with residuals of 0, and those of the
last step before are lost.

A gradient that is infinite or NaN is sent as it is, for checks that look for
it, and leaves its residual as it was.
"""

import functools
import math
from collections.abc import Sequence

from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import placed_ops
from estimator_mp.graph.gradient import Reduce

import tensorflow as tf


def compressed(reduce: Reduce | None, mode: str) -> Reduce:
  """Returns a function that sums gradients and sends them in half precision.

  Each replica converts its gradient before it is sent. Where they are added
  depends on `reduce`:

  - None: each device gets the others' tensors in half precision, converts them
    back, and adds in the gradient's dtype. The residuals hold all that is not
    sent yet, to the rounding of this dtype.
  - A function: it adds in half precision, as every algorithm does that sends
    sums on, such as a ring. That rounds up to n - 1 times more, and no residual
    knows of it.

  No sum overflows that would not overflow in the gradient's dtype. A replica
  sends at most the largest number of half precision (65504 for float16),
  divided by n, rounded up to a power of 2, if sums are in half precision too;
  the excess stays in the residual for the next steps. A loss scale that
  makes gradients as large as that all the time lets residuals grow.

  float16 has 10 bits of mantissa and no number between 0 and 6e-8; bfloat16 has
  7 bits and the range of float32. Tensors that would not get smaller,
  float16 ones and integers among them, are reduced as they are.

  Args:
    reduce: Sums tensors of the half-precision dtype, or None.
    mode: "float16" or "bfloat16".

  Returns:
    A function from n tensors of equal shapes and dtypes, and their n devices,
    to their sums on these devices, bitwise equal if those of `reduce` are. It
    raises a ValueError for a tensor whose shape the graph does not know.
  """
  wire_dtype = tf.dtypes.as_dtype(mode)
  reduce_exactly = _sum_on_each if reduce is None else reduce

  def reduce_compressed(
    tensors: Sequence[tf.Tensor], devices: Sequence[str]
  ) -> list[tf.Tensor]:
    dtype = tensors[0].dtype
    if not dtype.is_floating or dtype.size <= wire_dtype.size:
      return reduce_exactly(tensors, devices)
    limit = float(wire_dtype.max)
    if reduce is not None:
      # Divided by a power of 2 it has no rounding that could add up to more.
      limit /= 2 ** (len(devices) - 1).bit_length()
    shape = _known_shape(tensors)
    with tf.compat.v1.name_scope(f"compressed_{mode}"):
      residuals = _residuals(shape, dtype, devices)
      sent = placed_ops.on_each(
        devices,
        functools.partial(_halved, wire_dtype, limit),
        tensors,
        residuals,
      )
      if reduce is None:
        return _sum_on_each(sent, devices, dtype)
      return placed_ops.on_each(
        devices, lambda total: tf.cast(total, dtype), reduce(sent, devices)
      )

  return reduce_compressed


def top_k(fraction: float) -> Reduce:
  """Returns a function that sums the largest entries of gradients.

  Each replica sends the values and indices of its entries of largest
  magnitude, and every device adds up those of all. That is Aji and
  Heafield's gradient dropping (2017, arXiv:1704.05021). Deep gradient
  compression (Lin et al., 2018, arXiv:1712.01887) adds corrections of momentum,
  local clipping and a warm-up, which are not done here.

  An index has 4 bytes, so a float32 entry takes twice as many as in a dense
  sum, and each of n devices gets the entries of all: a ring sends less where
  the fraction is 1/n or more.

  Integers are summed as they are: a late value is wrong for them.

  Args:
    fraction: How many of the entries are sent, above 0 and at most 1; always
      at least one entry of each tensor. Of a bucket of gradients it is the
      fraction of the bucket, not of each gradient.

  Returns:
    A function from n tensors of equal shapes and dtypes, and their n devices,
    to their sums on these devices, added in the same order on each. It raises
    a ValueError for a tensor whose shape the graph does not know.
  """

  def reduce_top_k(
    tensors: Sequence[tf.Tensor], devices: Sequence[str]
  ) -> list[tf.Tensor]:
    dtype = tensors[0].dtype
    if not dtype.is_floating:
      return _sum_on_each(tensors, devices)
    shape = _known_shape(tensors)
    size = shape.num_elements()
    count = min(size, max(1, round(fraction * size)))
    with tf.compat.v1.name_scope("top_k"):
      residuals = _residuals(tf.TensorShape([size]), dtype, devices)
      sent = placed_ops.on_each(
        devices, functools.partial(_largest, count), tensors, residuals
      )

      def add() -> tf.Tensor:
        # One replica after the other: its indices are all different, so that
        # the order of additions, and the sum, is the same on each device.
        total = tf.zeros([size], dtype)
        for indices, values in sent:
          total = tf.tensor_scatter_nd_add(total, _rows(indices), values)
        return tf.reshape(total, shape.as_list())

      return placed_ops.on_each(devices, add)

  return reduce_top_k


def _known_shape(tensors: Sequence[tf.Tensor]) -> tf.TensorShape:
  """Returns the shape of tensors, which a residual needs."""
  shape = gradient_lib.common_shape(0, tensors)
  if not shape.is_fully_defined():
    raise ValueError(
      f"{tensors[0].name} has the shape {shape}, but a residual needs a known "
      "one; set the gradient's shape to that of its variable, or do not "
      "compress it"
    )
  return shape


def _residuals(
  shape: tf.TensorShape, dtype: tf.DType, devices: Sequence[str]
) -> list[tf.Variable]:
  """Returns a new residual of 0 on each device."""

  def make(replica: int) -> tf.Variable:
    return tf.compat.v1.Variable(
      tf.zeros(shape, dtype),  # On the device, whoever places other ops.
      trainable=False,
      collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
      name=f"replica_{replica}",
      dtype=dtype,
      use_resource=True,
    )

  # An absolute scope, and no get_variable: the variable scopes and custom
  # getters around would change the variable, and its name.
  with (
    tf.compat.v1.name_scope("estimator_mp/residual/"),
    tf.compat.v1.name_scope("sum"),
  ):
    return placed_ops.on_each(devices, make, range(len(devices)))


def _halved(
  wire_dtype: tf.DType,
  limit: float,
  gradient: tf.Tensor,
  residual: tf.Variable,
) -> tf.Tensor:
  """Returns a gradient in half precision; the residual keeps the rest."""
  unsent = residual.read_value()
  corrected = gradient + unsent
  is_finite = tf.math.is_finite(corrected)
  limited = tf.clip_by_value(corrected, -limit, limit)
  sent = tf.cast(tf.where(is_finite, limited, corrected), wire_dtype)
  left = corrected - tf.cast(sent, corrected.dtype)
  update = residual.assign(tf.where(is_finite, left, unsent), read_value=False)
  with tf.control_dependencies([update]):
    return tf.identity(sent)


def _largest(
  count: int, gradient: tf.Tensor, residual: tf.Variable
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns int32 indices [count] and values; the residual keeps the rest."""
  unsent = residual.read_value()
  corrected = tf.reshape(gradient, [-1]) + unsent
  is_finite = tf.math.is_finite(corrected)
  # Entries that are not finite come first, so that none is overlooked.
  magnitudes = tf.where(
    is_finite,
    tf.abs(corrected),
    tf.fill(tf.shape(corrected), tf.constant(math.inf, corrected.dtype)),
  )
  _, indices = tf.math.top_k(magnitudes, count, sorted=False)
  values = tf.gather(corrected, indices)
  left = tf.tensor_scatter_nd_update(
    corrected, _rows(indices), tf.zeros([count], corrected.dtype)
  )
  update = residual.assign(tf.where(is_finite, left, unsent), read_value=False)
  with tf.control_dependencies([update]):
    return indices, tf.identity(values)


def _rows(indices: tf.Tensor) -> tf.Tensor:
  """Returns int32 indices as int64 [count, 1], as scattering needs them.

  The receiver calls it, so that 4 bytes of each index are sent. A GPU works on
  int32 in host memory for most ops, on int64 in its own.
  """
  return tf.reshape(tf.cast(indices, tf.int64), [-1, 1])


def _sum_on_each(
  tensors: Sequence[tf.Tensor],
  devices: Sequence[str],
  dtype: tf.DType | None = None,
) -> list[tf.Tensor]:
  """Returns sums, made on each device of all tensors, in the same order."""

  def add() -> tf.Tensor:
    return tf.add_n([tf.cast(x, dtype or x.dtype) for x in tensors])

  return placed_ops.on_each(devices, add)
