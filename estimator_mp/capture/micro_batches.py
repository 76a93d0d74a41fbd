"""The batch: inputs with examples, and the starts of its slices.

A slice is a micro-batch of one replica. Slices are of equally many examples, in
their order; the first ones get one more where the number does not divide them.
If there are fewer examples than slices, the last example stands in for those
that are missing, and counts nothing: many ops cannot do with an empty batch.
Where each replica reads its own batch, its slices are those of that batch.

GPipe: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using
Pipeline Parallelism", 2019.
"""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from estimator_mp.capture import batch_size, nested_inputs, replica_batches
from estimator_mp.config.batch_options import BatchAxis
from estimator_mp.graph.batch_inputs import Input

import tensorflow as tf

# Where slices begin, and their sizes: int32 tensors [count].
Ranges = tuple[tf.Tensor, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Parts:
  """Where slices of a batch begin.

  Attributes:
    count: How many slices there are.
    ranges: Where they begin, and their sizes; None if all are of the same size,
      which the graph knows.
    size: The number of examples of the batch.
    pieces: The pieces that inputs are the concat of, by their names, if each
      replica reads its own batch: nothing is sent to be cut then.
  """

  count: int
  ranges: Ranges | None
  size: int | tf.Tensor
  pieces: Mapping[str, Sequence[tf.Tensor]] = dataclasses.field(
    default_factory=lambda: MappingProxyType({})
  )

  def cut(
    self, tensor: tf.Tensor, axis: int, per_example: int
  ) -> list[tf.Tensor]:
    """Returns the slices of a tensor.

    Args:
      tensor: A tensor with examples.
      axis: Their axis.
      per_example: The size of that axis for each example.
    """
    pieces = self.pieces.get(tensor.name)
    if pieces is not None:
      return self._cut_pieces(pieces, axis)
    if self.ranges is None:
      size = int(self.size) // self.count * per_example
      return even_slices(tensor, self.count, axis, size)
    starts, sizes = (numbers * per_example for numbers in self.ranges)
    return _slices(tensor, axis, (starts, sizes))

  def _cut_pieces(
    self, pieces: Sequence[tf.Tensor], axis: int
  ) -> list[tf.Tensor]:
    """Returns the slices of each replica's piece, where it is."""
    count = self.count // len(pieces)
    found: list[tf.Tensor] = []
    for number, piece in enumerate(pieces):
      with tf.compat.v1.device(piece.device):
        if self.ranges is None:
          size = int(self.size) // self.count
          found += even_slices(piece, count, axis, size)
          continue
        starts, sizes = (
          numbers[number * count : (number + 1) * count]
          for numbers in self.ranges
        )
        found += _slices(piece, axis, (starts - starts[0], sizes))
    return found

  def join(
    self, slices: Sequence[tf.Tensor], axis: int, per_example: int, rank: int
  ) -> tf.Tensor:
    """Returns the tensor that slices make, without rows of stand-ins.

    Args:
      slices: The tensor of each slice.
      axis: The axis of the examples.
      per_example: The size of that axis for each example.
      rank: The number of dimensions.
    """
    whole = tf.concat(slices, axis)
    if self.ranges is None:
      return whole
    sizes = [-1] * rank
    sizes[axis] = per_example * self.size
    return tf.slice(whole, [0] * len(sizes), tf.stack(sizes))


def inputs_with_examples(
  inputs: Any, batch_axis: Sequence[BatchAxis] = ()
) -> list[Input]:
  """Returns what has examples of features and labels, whole.

  Args:
    inputs: Features and labels, nested.
    batch_axis: The axes of the examples, by names such as "features/x"; the
      first expression that is found in a name counts. Axis 0 for others, and
      none for scalars.

  Raises:
    ValueError: If an axis is none of a tensor's.
  """
  return [
    Input(name, leaf, axis)
    for name, leaf in nested_inputs.leaves(inputs)
    if tf.is_tensor(leaf)
    and (axis := nested_inputs.axis_of(name, leaf, batch_axis)) is not None
  ]


def whole_inputs(
  inputs: Any, batch_axis: Sequence[BatchAxis] = ()
) -> list[Input]:
  """Returns what is known to have examples of inputs that nothing cuts.

  Args:
    inputs: As for `inputs_with_examples`; there may be anything among them.
    batch_axis: As for it.
  """
  found: list[Input] = []
  for name, leaf in nested_inputs.leaves(inputs):
    with contextlib.suppress(ValueError):  # It could not be cut.
      found += inputs_with_examples({name: leaf}, batch_axis)
  return found


def known_size(inputs: Sequence[Input]) -> int | None:
  """Returns how many examples inputs have; None if the graph does not know.

  Args:
    inputs: Inputs with examples.
  """
  sizes = {entry.size for entry in inputs}
  return sizes.pop() if len(sizes) == 1 else None


def parts_of_batch(
  inputs: Sequence[Input],
  count: int,
  host: str = "",
  num_replicas: int = 1,
) -> Parts:
  """Returns where slices of a batch begin.

  Sizes that the graph does not know are checked in each step.

  Args:
    inputs: Inputs with examples, at least one.
    count: How many slices there are to be.
    host: The device that compares sizes in each step.
    num_replicas: How many replicas the slices are for, those of each one after
      the other.

  Raises:
    ValueError: If inputs have different numbers of examples, or none, or if a
      replica that reads its own batch has fewer examples than slices.
  """
  with (
    tf.compat.v1.name_scope(None),
    tf.control_dependencies(None),
    tf.compat.v1.name_scope("estimator_mp/split"),
  ):
    of_replicas = replica_batches.find(inputs, num_replicas)
    if of_replicas is not None:
      return _parts_of_replicas(inputs, of_replicas, count, host)
    whole = batch_size.batch_size(inputs, host)
    if whole.checked is not None:
      return Parts(count, _ranges(whole.checked, count), whole.checked)
    assert whole.known is not None
    if whole.known % count == 0:
      return Parts(count, None, whole.known)
    return Parts(count, _ranges(tf.constant(whole.known), count), whole.known)


def _parts_of_replicas(
  inputs: Sequence[Input],
  batches: replica_batches.ReplicaBatches,
  count: int,
  host: str,
) -> Parts:
  """Returns where slices begin, those of each replica in its own batch."""
  of_replica = count // len(batches.hosts)
  dense = {
    entry.value.name: [batch[number].value for batch in batches.inputs]
    for number, entry in enumerate(inputs)
    if isinstance(entry.value, tf.Tensor)
  }
  known = batches.known_size
  if known is not None and known % of_replica == 0:
    return Parts(count, None, known * len(batches.hosts), dense)
  sizes = replica_batches.checked_sizes(batches, of_replica)
  with tf.compat.v1.device(host or None):
    firsts = tf.unstack(tf.cumsum(tf.stack(sizes), exclusive=True))
    ranges = [_ranges(size, of_replica) for size in sizes]
    starts = [
      first + of_one for first, (of_one, _) in zip(firsts, ranges, strict=True)
    ]
    joined = tf.concat(starts, 0), tf.concat([x for _, x in ranges], 0)
    return Parts(count, joined, tf.add_n(sizes), dense)


def _ranges(examples: tf.Tensor, count: int) -> Ranges:
  """Returns where slices begin, and their sizes: at least 1 each."""
  is_longer = tf.range(count) < examples % count
  sizes = examples // count + tf.cast(is_longer, tf.int32)
  starts = tf.minimum(tf.cumsum(sizes, exclusive=True), examples - 1)
  return starts, tf.maximum(sizes, 1)


def even_slices(
  value: tf.Tensor, count: int, axis: int, size: int
) -> list[tf.Tensor]:
  """Returns slices of one size.

  Each is an op of its own. With one `Split` for all, TensorFlow's arithmetic
  optimizer (measured with 2.21) lets slices wait for what others wait for: the
  micro-batches of a `dynamic_rnn` on two stages waited for ever.

  Args:
    value: The tensor that is sliced.
    count: How many slices there are.
    axis: Along which axis.
    size: How long each is along it.
  """
  begin, sizes = [0] * value.shape.rank, [-1] * value.shape.rank
  sizes[axis] = size
  found = []
  for number in range(count):
    begin[axis] = number * size
    found.append(tf.slice(value, begin, sizes))
  return found


def _slices(value: tf.Tensor, axis: int, ranges: Ranges) -> list[tf.Tensor]:
  """Returns slices of a tensor."""
  boxes = [
    _boxes(numbers, axis, value.shape.rank, other)
    for numbers, other in zip(ranges, (0, -1), strict=True)
  ]
  slices = [tf.slice(value, *box) for box in zip(*boxes, strict=True)]
  shape = value.shape.as_list()
  shape[axis] = None
  for found in slices:
    found.set_shape(shape)
  return slices


def _boxes(
  numbers: tf.Tensor, axis: int, rank: int, other: int
) -> list[tf.Tensor]:
  """Returns vectors for all dimensions: a number for one, another for all."""
  rest = tf.fill(tf.shape(numbers), other)
  columns = [numbers if i == axis else rest for i in range(rank)]
  return list(tf.unstack(tf.stack(columns, 1), int(numbers.shape[0])))
