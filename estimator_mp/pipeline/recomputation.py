"""Recomputation: activations that are computed once more, as data.

Instead of all activations of a stage, only those that it reads from other
stages are kept until the backward pass, which begins by computing the others
again: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016;
per micro-batch and stage as in GPipe (Huang et al., 2019) and torchgpipe (Kim
et al., 2020).

A random op is not run again, as it would give other numbers: dropout's mask is
kept, as booleans. Neither is an op with a state, nor a v1 loop.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from compat.private import graph_reads, op_registry
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import traversal
from estimator_mp.pipeline import cells

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Policy:
  """Where activations are computed again at all.

  Attributes:
    stages: The stages that do so.
    kept_micro_batches: The micro-batches whose activations are kept anyway.
  """

  stages: frozenset[int] = frozenset()
  kept_micro_batches: frozenset[int] = frozenset()


def make_policy(recompute: str, schedule: schedule_lib.Schedule) -> Policy:
  """Returns where activations are computed again.

  Args:
    recompute: "never", "always" or "except_last", which leaves out backward
      passes that follow their forward pass at once: in GPipe those of a round's
      last micro-batch, else those of the last stage.
    schedule: The order of cells.
  """
  if recompute == "never":
    return Policy()
  stages = range(schedule.num_stages)
  if recompute == "always":
    return Policy(frozenset(stages))
  if schedule.name != "gpipe":
    return Policy(frozenset(stages[:-1]))
  of_round = schedule.num_micro_batches // schedule.num_rounds
  last = range(of_round - 1, schedule.num_micro_batches, of_round)
  return Policy(frozenset(stages), frozenset(last))


@dataclasses.dataclass(frozen=True)
class Read:
  """A backward op that is to read a recomputed tensor.

  Attributes:
    op: The op.
    index: Which of its inputs.
    tensor: The tensor that it reads there as long as activations are kept.
    stage: The stage for which that tensor is computed again.
  """

  op: tf.Operation
  index: int
  tensor: tf.Tensor
  stage: int


@dataclasses.dataclass(frozen=True)
class Recomputation:
  """The ops that the first micro-batch recomputes.

  Attributes:
    again: The ops that are run again for each stage, in the order of the graph.
    reads: The inputs of backward ops that are to read their results.
  """

  again: Mapping[int, Sequence[tf.Operation]]
  reads: Sequence[Read]


def plan_recomputation(
  ops: Sequence[tf.Operation],
  passes: Mapping[tf.Operation, cells.Pass],
  stages: Collection[int],
  differs: Callable[[tf.Tensor], bool],
  excluded: Collection[tf.Operation] = (),
) -> Recomputation:
  """Returns the ops that are run again for the backward passes of some stages.

  Args:
    ops: The slice, in the order of the graph.
    passes: The passes that its ops are part of.
    stages: The stages that keep no activations.
    differs: Says whether a tensor differs between micro-batches.
    excluded: Further ops that are not run again.
  """
  once = _run_once(ops, differs) | {*excluded}
  reads = [
    Read(op, index, tensor, passes[op].stage)
    for op in ops
    if op in passes
    and passes[op].phase is Phase.BACKWARD
    and passes[op].stage in stages
    for index, tensor in enumerate(op.inputs)
    if passes.get(tensor.op) == (passes[op].stage, Phase.FORWARD)
    and tensor.op not in once
  ]

  def before(op: tf.Operation) -> list[tf.Operation]:
    return [
      x
      for x in traversal.inputs(op)
      if passes.get(x) == passes[op] and x not in once
    ]

  again = set(traversal.walk([read.tensor.op for read in reads], before))
  by_stage: dict[int, list[tf.Operation]] = {
    stage: [] for stage in sorted({read.stage for read in reads})
  }
  for op in ops:
    if op in again:
      by_stage[passes[op].stage].append(op)
  return Recomputation(by_stage, reads)


def _run_once(
  ops: Sequence[tf.Operation], differs: Callable[[tf.Tensor], bool]
) -> set[tf.Operation]:
  """Returns the ops that are not run again."""
  once: set[tf.Operation] = set()
  random: set[tf.Operation] = set()
  for op in ops:
    has_seed = any(
      a.name == "seed2" for a in op_registry.definition_of(op).attr
    )
    has_state = (
      has_seed or op_registry.definition_of(op).is_stateful or not op.outputs
    )
    if has_state or graph_reads.outermost_loop(op) is not None:
      once.add(op)
      if has_seed and op_registry.definition_of(op).is_stateful:
        random.add(op)
    # An op that reads random numbers alone, until these are a mask.
    elif any(t.op in random and t.dtype != tf.bool for t in op.inputs) and all(
      t.op in random or not differs(t) or t.dtype.is_integer for t in op.inputs
    ):
      once.add(op)
      random.add(op)
  return once
