"""Frames: the loops that ops are in, as TensorFlow's executor sees them.

An `Enter` takes a tensor into a frame, and an `Exit` out of it. Between them a
`Merge` begins each round, with the tensor that entered or with the one that a
`NextIteration` brings back. All of that can be seen in the graph itself, in
that of a `tf.while_loop` of TensorFlow 1 and in that of an inlined `While`.
"""

import dataclasses
from collections.abc import Iterable, Sequence

from estimator_mp.graph import op_types, traversal

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Frame:
  """A loop.

  Attributes:
    name: The name of its frame.
    parent: The frame that its `Enter`s read from; None outside of loops.
    iterations: How many rounds may run at once.
  """

  name: str
  parent: "Frame | None"
  iterations: int

  @property
  def outermost(self) -> "Frame":
    """The loop that is in no other one."""
    return self if self.parent is None else self.parent.outermost

  def is_in(self, other: "Frame") -> bool:
    """Whether this is another loop, or in it.

    Args:
      other: The other loop.
    """
    if self == other:
      return True
    return self.parent is not None and self.parent.is_in(other)


def is_begin_of_round(op: tf.Operation) -> bool:
  """Whether each round of a loop begins with an op.

  Args:
    op: The op. A `Merge` may be the end of a branch, too.
  """
  return op.type in op_types.MERGES and any(
    x.op.type in op_types.NEXT_ITERATIONS for x in op.inputs
  )


def sources_before(op: tf.Operation) -> list[tf.Operation]:
  """Returns the sources of an op, without those back from a loop's end.

  Args:
    op: The op.
  """
  before = traversal.sources(op)
  if op.type in op_types.MERGES:
    before = [x for x in before if x.type not in op_types.NEXT_ITERATIONS]
  return before


class Frames:
  """The frames of the ops of a graph."""

  def __init__(self, ops: Iterable[tf.Operation]):
    """Finds them.

    Args:
      ops: The ops.
    """
    self._output_frames: dict[tf.Operation, Frame | None] = {}
    every = list(ops)
    if any(op.type in op_types.ENTERS for op in every):
      before = list(traversal.walk(every, sources_before))
      for op in traversal.in_order(before, sources_before):
        self._output_frames[op] = self._infer(op)

  def output_frame(self, op: tf.Operation) -> Frame | None:
    """Returns the frame that the outputs of an op are in.

    Args:
      op: The op.
    """
    return self._output_frames.get(op)

  def input_frame(self, op: tf.Operation) -> Frame | None:
    """Returns the frame that the inputs of an op are in.

    Args:
      op: The op.
    """
    if op.type in (*op_types.ENTERS, *op_types.EXITS):
      return self.output_frame(op.inputs[0].op)
    return self.output_frame(op)

  def loop(self, op: tf.Operation) -> Frame | None:
    """Returns the outermost loop that an op is part of; None if of none.

    Args:
      op: The op. The `Enter`s and `Exit`s of a loop are part of it.
    """
    if not self._output_frames:  # As in most graphs.
      return None
    frame = self.output_frame(op) or self.input_frame(op)
    return None if frame is None else frame.outermost

  def _infer(self, op: tf.Operation) -> Frame | None:
    first = next(iter(sources_before(op)), None)
    frame = None if first is None else self._output_frames[first]
    if op.type in op_types.ENTERS:
      name = op.get_attr("frame_name").decode()
      return Frame(name, frame, op.get_attr("parallel_iterations"))
    if op.type in op_types.EXITS:
      assert frame is not None
      return frame.parent
    return frame


def in_order(ops: Sequence[tf.Operation], frames: Frames) -> list[tf.Operation]:
  """Returns ops so that each comes after those that it reads or waits for.

  Back edges of loops do not count, and all ops of a loop are together.

  Args:
    ops: Some ops in the order of the graph.
    frames: Their loops.
  """
  loops: dict[Frame, list[tf.Operation]] = {}
  for op in ops:
    if (loop := frames.loop(op)) is not None:
      loops.setdefault(loop, []).append(op)
  if not loops:
    return traversal.in_order(ops)
  # A loop as a whole comes after all that it reads.
  outside = {
    loop: [
      x for op in members for x in sources_before(op) if frames.loop(x) != loop
    ]
    for loop, members in loops.items()
  }

  def sources(op: tf.Operation) -> list[tf.Operation]:
    loop = frames.loop(op)
    before = [] if loop is None else outside[loop]
    return [*before, *sources_before(op)]

  together: dict[Frame | tf.Operation, list[tf.Operation]] = {}
  for op in traversal.in_order(ops, sources):
    together.setdefault(frames.loop(op) or op, []).append(op)
  return [op for members in together.values() for op in members]
