"""Places: indices of rows that are counted over the whole batch.

BERT's code (Devlin et al., 2018, arXiv:1810.04805) gathers the words that were
masked from the rows of all examples:

    offsets = tf.reshape(tf.range(0, batch) * length, [-1, 1])
    tf.gather(tf.reshape(net, [batch * length, width]),
              tf.reshape(where + offsets, [-1]))

There each example takes rows of its own, so a slice of the batch can, too, if
it counts from the first of its rows on. Each step checks that.
"""

from collections.abc import Callable

from estimator_mp.graph import op_types, shapes

import numpy as np
import tensorflow as tf

_SAME_ORDER = op_types.VIEWS | {"Cast"}
_ADDS = frozenset(["Add", "AddV2"])


def terms_of(
  indices: tf.Tensor,
  sized: Callable[[tf.Tensor], tf.Tensor | None],
  num_examples: int,
  rows: int,
) -> tuple[tf.Tensor, tf.Tensor] | None:
  """Returns what rows of each example are taken, and where these begin.

  Args:
    indices: Which rows are taken.
    sized: Returns the same tensor with the shape that it has for a batch of a
      known size; None if there is none.
    num_examples: How many examples that has.
    rows: How many rows each example has in what is gathered from.

  Returns:
    The tensor of the rows that are taken of each example, and the vector that
    it is added to, `range(num_examples) * rows`; None if indices are anything
    else.
  """
  total = _behind_views(indices)
  if total.op.type not in _ADDS or rows < 2:
    return None
  for operand, taken in (total.op.inputs, reversed(total.op.inputs)):
    known, offsets = sized(operand), _behind_views(operand)
    value = sized(offsets)
    if known is None or value is None or known.shape.rank != total.shape.rank:
      continue
    if known.shape.as_list() != [num_examples, *[1] * (known.shape.rank - 1)]:
      continue
    expected = np.arange(num_examples) * rows
    if np.array_equal(shapes.constant(value), expected):
      return taken, offsets
  return None


def _behind_views(tensor: tf.Tensor) -> tf.Tensor:
  while tensor.op.type in _SAME_ORDER:
    tensor = tensor.op.inputs[0]
  return tensor
