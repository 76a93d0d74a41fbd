"""Places: indices of rows that each example has several of, one after another.

    places = tf.range(batch)[:, None] * length + positions
    rows = tf.reshape(net, [batch * length, width])
    tf.gather(rows, tf.reshape(places, [-1]))

So BERT takes the words that it has masked. Each example's places are in its own
rows, if its positions are less than `length`: then parts of the examples take
them from parts of the rows. That they are is checked when a step runs.
"""

from collections.abc import Sequence

from estimator_mp.rules.table import Shapes
from estimator_mp.sizes.polynomials import Size

import numpy as np
import tensorflow as tf

# Ops that make the entries of their first input, in another shape or type.
_SAME_ENTRIES = frozenset(
  ["BroadcastTo", "Cast", "ExpandDims", "Identity", "Reshape", "Squeeze"]
)
_SUMS = frozenset(["Add", "AddV2"])


def begin_with_examples(indices: tf.Tensor, rows: Size, shapes: Shapes) -> bool:
  """Whether indices are sums of multiples of examples' numbers and of others.

  Args:
    indices: Indices of rows.
    rows: How many rows there are.
    shapes: The sizes of tensors.
  """
  todo = [indices]
  while todo:
    tensor = todo.pop()
    op = tensor.op
    if op.type in _SAME_ENTRIES:
      todo.append(op.inputs[0])
    elif op.type in _SUMS:
      todo += op.inputs
    elif op.type == "Sub":
      todo.append(op.inputs[0])
    elif op.type == "Range":
      start, limit, step = (_number(x, shapes) for x in op.inputs)
      if start == 0 and limit == rows and step not in (None, 1):
        return True
    elif op.type == "Mul" and _are_multiples(op.inputs, rows, shapes):
      return True
  return False


def _are_multiples(
  factors: Sequence[tf.Tensor], rows: Size, shapes: Shapes
) -> bool:
  """Whether a product is that of all examples' numbers and of a width."""
  for numbers, width in (factors, reversed(factors)):
    op = numbers.op
    while op.type in _SAME_ENTRIES:
      op = op.inputs[0].op
    if op.type != "Range":
      continue
    start, limit, step = (_number(x, shapes) for x in op.inputs)
    times = _number(width, shapes)
    if (start, step) == (0, 1) and limit is not None and times is not None:
      return times != 1 and limit * times == rows
  return False


def _number(tensor: tf.Tensor, shapes: Shapes) -> Size | None:
  value = shapes.value(tensor)
  if value is None or value.size != 1:
    return None
  size: Size = np.ravel(value)[0]
  return size
