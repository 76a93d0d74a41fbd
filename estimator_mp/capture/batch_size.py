"""The size of a batch: all inputs have to have as many examples.

Static sizes are compared when the graph is built. The others are compared in
each step, by a few numbers on the host, and the step fails where inputs differ.
"""

import collections
import dataclasses
import re
from collections.abc import Sequence

from estimator_mp.graph.batch_inputs import COMPOSITES, Input

import tensorflow as tf

_DIFFERENCE = (
  "{usual} has {size} examples but {other} has {other_size}, so the batch "
  "cannot be cut; give the axis of the examples of {other}, or None if it has "
  'none: batch_axis=[("^{other}$", None)]'
)
_NO_EXAMPLES = (
  "the batch has no examples, so it cannot be cut; let input_fn leave out such "
  "batches"
)


@dataclasses.dataclass(frozen=True)
class BatchSize:
  """The number of examples of a batch.

  Attributes:
    known: The number, if the graph knows it, and otherwise None.
    checked: The number in each step, for which it has been compared; None if
      there was nothing to compare.
  """

  known: int | None
  checked: tf.Tensor | None = None


def batch_size(inputs: Sequence[Input], host: str = "") -> BatchSize:
  """Returns the size of a batch, and checks it in each step if need be.

  Args:
    inputs: Inputs with examples, at least one.
    host: The device that compares sizes in each step.

  Raises:
    ValueError: If inputs have different numbers of examples, or none.
  """
  known = [entry for entry in inputs if entry.size is not None]
  if not known:
    return BatchSize(None, _checked(inputs, host))
  sizes = [entry.size for entry in known]
  votes = collections.Counter(sizes)
  usual = max(known, key=lambda entry: (votes[entry.size], entry.likelihood))
  for other in known:
    if other.size != usual.size:
      text = _DIFFERENCE.format(
        usual=usual.name,
        size=usual.size,
        other=other.name,
        other_size=other.size,
      )
      raise ValueError(text)
  if not usual.size:
    raise ValueError(_NO_EXAMPLES)
  if len(known) == len(inputs):
    return BatchSize(usual.size)
  return BatchSize(usual.size, _checked(inputs, host))


def message_of_check(message: str) -> str | None:
  """Returns the text of a failed check; None for the message of another error.

  Args:
    message: That of an error of a step, which may have many lines.
  """
  match = re.search(r"assertion failed: \[(.+ cannot be cut; .+)\]", message)
  return None if match is None else match[1].replace('\\"', '"')


def _checked(inputs: Sequence[Input], host: str) -> tf.Tensor:
  """Returns the number of examples of a step, which has been compared."""
  # Shapes stay where their tensors are: only numbers come to the host.
  shapes = {
    entry.name: tf.shape(entry.value)
    for entry in inputs
    if entry.size is None and not isinstance(entry.value, COMPOSITES)
  }
  with tf.compat.v1.device(host or None), tf.compat.v1.name_scope("check"):
    sizes = tf.stack([_size(entry, shapes.get(entry.name)) for entry in inputs])
    usual, other = _usual_and_other(inputs, sizes)
    size, other_size = tf.gather(sizes, usual), tf.gather(sizes, other)
    is_same = tf.equal(size, other_size)
    names = tf.constant([entry.name for entry in inputs])
    difference = _formatted(
      _DIFFERENCE,
      usual=tf.gather(names, usual),
      size=tf.strings.as_string(size),
      other=tf.gather(names, other),
      other_size=tf.strings.as_string(other_size),
    )
    text = tf.gather([difference, _NO_EXAMPLES], tf.cast(is_same, tf.int32))
    check = tf.raw_ops.Assert(
      condition=tf.logical_and(is_same, size > 0), data=[text]
    )
    with tf.control_dependencies([check]):
      return tf.identity(size)


def _size(entry: Input, shape: tf.Tensor | None) -> int | tf.Tensor:
  if entry.size is not None:
    return entry.size
  if shape is not None:
    return shape[entry.axis]
  is_ragged = isinstance(entry.value, tf.RaggedTensor)
  size = entry.value.nrows() if is_ragged else entry.value.dense_shape[0]
  return tf.cast(size, tf.int32)


def _usual_and_other(
  inputs: Sequence[Input], sizes: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns which input has the size of most, and which has another if any.

  Of two sizes of equally many inputs, the likelier one is usual.
  """
  count = len(inputs)
  is_equal = tf.equal(sizes, tf.expand_dims(sizes, 1))
  votes = tf.reduce_sum(tf.cast(is_equal, tf.int32), 1)
  # No ties for argmax, which promises nothing of them.
  first = [count - i for i in range(count)]
  order = sorted(range(count), key=lambda i: (inputs[i].likelihood, first[i]))
  usual = tf.argmax(count * votes + [order.index(i) for i in range(count)])
  differs = tf.cast(tf.not_equal(sizes, tf.gather(sizes, usual)), tf.int32)
  return usual, tf.argmax(differs * first)


def _formatted(template: str, **values: tf.Tensor) -> tf.Tensor:
  """Returns a text with tensors in it."""
  parts: list[str | tf.Tensor] = [*re.split(r"\{(\w+)\}", template)]
  parts[1::2] = [values[str(name)] for name in parts[1::2]]
  return tf.strings.join(parts)
