"""Cancelling: how much of a gradient is rounding of the terms that it sums.

The gradient of a bias is the sum of those of all entries that it is added to.
Before a batch normalization these cancel out: what is left is rounding, which
differs between two orders of the sum, and of which Adam makes steps of full
size all the same.
"""

import tensorflow as tf

# Rounding of a sum, in units of the rounding of its terms: these have some of
# their own already, as they come from cancelling sums, too.
_UNITS = 64
# Half of the distance from 1 to the next number.
_UNIT = {
  tf.bfloat16: 2.0**-8,
  tf.float16: 2.0**-11,
  tf.float32: 2.0**-24,
  tf.float64: 2.0**-53,
}
_PASSED = frozenset(["Cast", "Identity", "Reshape", "Squeeze"])


def rounding(gradient: tf.Tensor) -> tf.Tensor | None:
  """Returns the largest rounding that an entry of a gradient may have.

  Args:
    gradient: A dense gradient, as tf.gradients makes it.

  Returns:
    A scalar; None if it is no sum of entries of a tensor.
  """
  op = gradient.op
  if op.type in _PASSED:
    return rounding(op.inputs[0])
  if op.type == "AddN":
    parts = [rounding(x) for x in op.inputs]
    known = [x for x in parts if x is not None]
    return tf.add_n(known) if len(known) == len(parts) else None
  terms = op.inputs[0] if op.inputs else None
  if terms is None or terms.dtype not in _UNIT or terms.shape.rank is None:
    return None
  sizes = tf.cast(tf.abs(terms), tf.float64)
  if op.type == "BiasAddGrad":
    is_first = op.get_attr("data_format") == b"NCHW"
    sums = tf.reduce_sum(sizes, _all_but(terms, 1 if is_first else -1))
  elif op.type == "Sum":
    sums = tf.reduce_sum(sizes, op.inputs[1])
  else:
    return None
  return _UNITS * _UNIT[terms.dtype] * tf.reduce_max(sums)


def _all_but(tensor: tf.Tensor, axis: int) -> list[int]:
  axes = list(range(tensor.shape.rank))
  del axes[axis]
  return axes
