"""Towers: sums and barriers for model_fns that place their own copies.

A model_fn that builds its model several times, under `tf.device`, has a list of
gradients for each device, which become one here. A gradient is a dense tensor,
an `IndexedSlices` (some rows of a larger tensor, as embedding lookups make), or
None where a loss does not depend on a variable. Sparse gradients stay sparse:
an embedding table's gradient that became dense would be as large as the table.
"""

from collections.abc import Sequence
from typing import Any

from estimator_mp import devices
from estimator_mp.collectives import sparse
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph.gradient import Gradient

import tensorflow as tf

METHODS = ("mean", "sum")


def check_method(method: str) -> None:
  """Raises if gradients are combined in no such way.

  Args:
    method: One of `METHODS`.

  Raises:
    ValueError: If it is none.
  """
  if method not in METHODS:
    raise ValueError(
      f"method={method!r} is unknown; use one of {', '.join(METHODS)}"
    )


def aggregate_gradients(
  per_device_gradients: Sequence[Sequence[Gradient | None]],
  method: str = "mean",
) -> list[Gradient | None]:
  """Combines the gradients of each variable over devices.

  Each result is computed on the device of the first gradient of its variable.
  A device whose loss does not depend on a variable (None) contributes zero:
  `mean` divides by the number of devices, not by the number of gradients, so
  that it is the gradient of the mean of the devices' losses.

  Synchronous data parallelism with averaged gradients is described by Chen et
  al. (2016, arXiv:1604.00981).

  Args:
    per_device_gradients: For every device the gradients of the same variables
      in the same order; a gradient of one variable has the same shape and
      dtype on each device.
    method: "mean" or "sum".

  Returns:
    One gradient per variable, with the shape and dtype of its parts: an
    `IndexedSlices` if all parts are (rows that several devices touched occur
    several times, which optimizers sum), dense if any part is, and None where
    no device has a gradient.

  Raises:
    ValueError: If there is no device, the devices have different numbers of
      gradients, `method` is unknown, or gradients of one variable differ in
      shape or dtype.
  """
  check_method(method)
  if not per_device_gradients:
    raise ValueError("per_device_gradients is empty; pass one list per device")
  counts = [len(gradients) for gradients in per_device_gradients]
  if len(set(counts)) > 1:
    raise ValueError(
      f"per_device_gradients has {counts} gradients per device; every device "
      "needs one entry per variable, None where there is no gradient"
    )
  scale = 1.0 / len(per_device_gradients) if method == "mean" else None
  with tf.compat.v1.name_scope("aggregate_gradients"):
    return [
      _aggregate(index, parts, scale)
      for index, parts in enumerate(zip(*per_device_gradients, strict=True))
    ]


def _aggregate(
  index: int, parts: Sequence[Gradient | None], scale: float | None
) -> Gradient | None:
  """Combines the gradients of one variable."""
  present = [part for part in parts if part is not None]
  if not present:
    return None
  gradient_lib.common_shape(index, present)
  first = present[0]
  with tf.compat.v1.colocate_with(getattr(first, "values", first)):
    if all(isinstance(part, tf.IndexedSlices) for part in present):
      total = sparse.concatenate(present)
    elif len(present) == 1:
      total = present[0]
    else:
      total = tf.add_n([sparse.dense(part) for part in present])
    return total if scale is None else tf.math.scalar_mul(scale, total)


def barrier(
  tensors: Any, device: str | None = None, name: str = "barrier"
) -> Any:
  """Passes tensors on once all of them are computed.

  One op without data waits for every tensor, by control dependencies; each
  result is its tensor, let through once that op has run. The tensors do not
  travel: a result stays on its tensor's device, and only signals go to the
  barrier's device and back. Gradients flow through as through an identity.

  This is the barrier of bulk-synchronous parallel programs (Valiant, 1990,
  doi:10.1145/79173.79181) inside one graph.

  Args:
    tensors: A nest (list, tuple, dict) of tensors of any shapes and dtypes,
      `IndexedSlices`, `SparseTensor`s and None.
    device: The device of the op that waits, such as "/cpu:0"; None for the
      default device.
    name: A name scope for the ops.

  Returns:
    The same nest, with tensors of the same values; None stays None.

  Raises:
    ValueError: If there is no tensor to wait for, or `device` is no device.
  """
  parts = tf.nest.flatten(tensors, expand_composites=True)
  waits_for = [tf.convert_to_tensor(part) for part in parts if part is not None]
  if not waits_for:
    raise ValueError(
      f"barrier {name!r} got no tensor to wait for; pass at least one"
    )
  place = None if device is None else devices.canonical_device(device)
  with tf.compat.v1.name_scope(name):
    with (
      tf.compat.v1.device(None),
      tf.compat.v1.device(place),
      tf.control_dependencies(waits_for),
    ):
      everything_computed = tf.no_op(name="all_computed")
    with tf.control_dependencies([everything_computed]):
      passed = [part if part is None else _let_through(part) for part in parts]
  return tf.nest.pack_sequence_as(tensors, passed, expand_composites=True)


def _let_through(tensor: tf.Tensor) -> tf.Tensor:
  """Returns an identity of a tensor on the tensor's own device."""
  tensor = tf.convert_to_tensor(tensor)
  with tf.compat.v1.colocate_with(tensor):
    return tf.identity(tensor)
