"""Joining: what model_fn computes of the examples of all slices.

    slice 0   tower -> part  \
    slice 1   tower -> part   concat -> whole -> what model_fn computes once
    slice 2   tower -> part  /

`whole` is made when model_fn asks for it, of the first slice's part again and
again, so that it has its shape. The other slices' parts take their places when
there are clones. No gradient goes through the concat: a request for one behind
it becomes two (`capture.requests`), and the second one begins in each slice
with its rows of the gradient with respect to `whole`.
"""

import dataclasses
from collections.abc import Iterable, Iterator

from compat.private import graph_edits, graph_reads
from estimator_mp.capture.micro_batches import MicroBatches
from estimator_mp.graph import clones as clones_lib
from estimator_mp.pipeline import example_axes
from estimator_mp.pipeline.example_axes import Kind

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Joined:
  """A tensor of the first slice, and that of the whole batch.

  Attributes:
    source: What model_fn joined.
    part: The same, where the rest of the graph reads it whole.
    concat: The op that lays the slices' parts one after another.
    whole: What model_fn goes on with.
    ops: The ops from `concat` to `whole`, which are no part of a slice.
  """

  source: tf.Tensor
  part: tf.Tensor
  concat: tf.Operation
  whole: tf.Tensor
  ops: tuple[tf.Operation, ...]


def join(source: tf.Tensor, batches: MicroBatches) -> Joined:
  """Makes the tensor of the whole batch; others' parts are still missing.

  Args:
    source: A tensor of the first slice.
    batches: The slices of the batch.

  Raises:
    ValueError: If the tensor has no dimension, or is inside of a function or a
      loop.
  """
  first = tf.nest.flatten(batches.cut[0].slices[0], expand_composites=True)[0]
  graph = first.graph
  if source.graph is not graph or graph_reads.outermost_loop(source.op):
    raise ValueError(
      f"whole_batch got {source.name}, which is inside of a function or a "
      "loop; call whole_batch outside of it"
    )
  if not source.shape.rank:
    raise ValueError(
      f"whole_batch got {source.name} of shape {source.shape}; give it tensors "
      "with a row for each example"
    )
  with (
    tf.compat.v1.name_scope(None),
    tf.compat.v1.name_scope("estimator_mp/join"),
    tf.control_dependencies(None),
  ):
    # No rule of the model axis lets it pass in parts, so nobody looks for the
    # parts of what is behind it.
    part = tf.compat.v1.placeholder_with_default(source, source.shape)
    num_ops = len(graph.get_operations())
    joined = tf.concat([part] * len(batches.inputs), 0)
    concat = joined.op
    if batches.whole.known is None:  # Slices may have stand-ins for examples.
      shape = joined.shape
      size = tf.cast(batches.whole.checked, tf.int32)
      rest = [-1] * (len(shape) - 1)
      joined = tf.slice(joined, [0] * len(shape), tf.stack([size, *rest]))
      joined.set_shape([None, *shape[1:]])
    whole = tf.stop_gradient(joined)
  ops = tuple(graph.get_operations()[num_ops:])
  return Joined(source, part, concat, whole, ops)


def check(entry: Joined, axes: example_axes.ExampleAxes) -> None:
  """Raises if the rows of a tensor are no examples.

  Args:
    entry: What model_fn joined.
    axes: Where tensors have their examples.

  Raises:
    ValueError: If they are not, or nobody knows.
  """
  layout = axes.of(entry.part.op.inputs[0])
  if (layout.kind, layout.axis, layout.per_example) != (Kind.ROWS, 0, 1):
    raise ValueError(
      f"whole_batch got {entry.source.name} of shape {entry.source.shape}, "
      "whose rows are not the examples of the batch in their order; give it "
      "tensors with a row for each example"
    )


def fill(entry: Joined, clones: clones_lib.Clones) -> None:
  """Puts the other slices' parts into their places.

  Args:
    entry: What model_fn joined.
    clones: What stands for the first slice's part in other slices.
  """
  for index, part in enumerate(clones.of(entry.part), 1):
    graph_edits.replace_input(entry.concat, index, part)


@dataclasses.dataclass(frozen=True)
class Shares:
  """What the chain rule goes on with in each slice.

  Attributes:
    tensors: The rows of a gradient that belong to each slice.
    ops: The ops that cut them out.
  """

  tensors: list[tf.Tensor]
  ops: tuple[tf.Operation, ...]


def share(
  entry: Joined,
  gradient: tf.Tensor | tf.IndexedSlices,
  clones: clones_lib.Clones,
  batches: MicroBatches,
) -> Shares:
  """Cuts the gradient with respect to what was joined.

  Args:
    entry: What model_fn joined.
    gradient: That with respect to its `whole`.
    clones: What stands for the first slice's part in other slices.
    batches: The slices of the batch.
  """
  graph = tf.compat.v1.get_default_graph()
  num_ops = len(graph.get_operations())
  parts = [entry.part, *clones.of(entry.part)]
  with (
    tf.compat.v1.name_scope(None),
    tf.compat.v1.name_scope("estimator_mp/share"),
    tf.control_dependencies(None),
    tf.compat.v1.device(entry.whole.device),
  ):
    dense = tf.convert_to_tensor(gradient)
    if batches.whole.known is not None:
      found = list(tf.split(dense, len(parts), 0))
    else:
      found = list(_cut(dense, parts))
  return Shares(found, tuple(graph.get_operations()[num_ops:]))


def _cut(dense: tf.Tensor, parts: Iterable[tf.Tensor]) -> Iterator[tf.Tensor]:
  """Yields the rows of slices whose sizes only the session knows."""
  last = tf.shape(dense)[0] - 1
  start = tf.constant(0)
  rest = len(dense.shape) - 1
  for part in parts:
    size = tf.shape(part)[0]
    # A stand-in for examples that a slice does not have is the last example.
    begin = tf.stack([tf.minimum(start, last), *[0] * rest])
    piece = tf.slice(dense, begin, tf.stack([size, *[-1] * rest]))
    piece.set_shape(part.shape)
    yield piece
    start += size
