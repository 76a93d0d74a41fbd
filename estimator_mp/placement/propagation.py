"""Propagation: from the stages of some ops to the stages of all.

Explicit marks, rules, the automatic cut and gradients each say where some ops
belong. The others follow the tensors they read and feed. Two kinds of ops
follow differently:

- A forward op follows the latest of its inputs: an op that combines an early
  activation with a late one belongs to the later layer.
- An op made after gradients were asked for (an update, a norm) follows the
  largest of its inputs: it works beside the gradient or variable it reads, and
  the scalars come to it.
"""

import enum
from collections.abc import Callable, Mapping, Sequence

from estimator_mp.graph import colocation, shapes, traversal

import tensorflow as tf

_StageOf = Callable[[tf.Operation], int | None]


class Follows(enum.Enum):
  """The input that an op without a stage follows."""

  LATEST_INPUT = "latest"
  LARGEST_INPUT = "largest"


def propagate(
  ops: Sequence[tf.Operation],
  groups: colocation.ColocationGroups,
  stages: Mapping[tf.Operation, int],
  follows: Follows,
) -> dict[tf.Operation, int]:
  """Gives ops without a stage the stage of their inputs, or of their readers.

  Args:
    ops: Ops in the order in which they were made, all of them in `groups`.
    groups: Ops that share a device, and so a stage.
    stages: The stages that are known, also of ops that are not in `ops`.
    follows: The input that an op follows. An op without an input that has a
      stage follows its earliest consumer.

  Returns:
    A stage for each of `ops` that is connected to one that has a stage.
  """
  known = {groups.of(op): stage for op, stage in stages.items() if op in groups}
  readers = {
    op: [x for x in traversal.consumers(op) if x in groups] for op in ops
  }

  def of_inputs(op: tf.Operation) -> int | None:
    return _stage_of_inputs(op, groups, known, follows)

  def of_consumers(op: tf.Operation) -> int | None:
    of_readers = map(groups.of, readers[op])
    return min((known[x] for x in of_readers if x in known), default=None)

  def visit(question: tuple[_StageOf, tf.Operation]) -> bool:
    stage_of, op = question
    stage = None if groups.of(op) in known else stage_of(op)
    if stage is not None:
      known[groups.of(op)] = stage
    return stage is not None

  traversal.repeat_until_stable(
    visit,
    [(of_inputs, op) for op in ops]
    + [(of_consumers, op) for op in reversed(ops)],
  )
  return {op: known[groups.of(op)] for op in ops if groups.of(op) in known}


def _stage_of_inputs(
  op: tf.Operation,
  groups: colocation.ColocationGroups,
  known: Mapping[tf.Operation, int],
  follows: Follows,
) -> int | None:
  """Returns the stage of the input that an op follows; None if none has one."""
  inputs = [
    (shapes.tensor_bytes(tensor), known[groups.of(tensor.op)])
    for tensor in op.inputs
    if tensor.op in groups and groups.of(tensor.op) in known
  ]
  if not inputs:
    return None
  if follows is Follows.LATEST_INPUT:
    return max(stage for _, stage in inputs)
  largest = max(size for size, _ in inputs)
  return min(stage for size, stage in inputs if size == largest)
