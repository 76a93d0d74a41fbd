"""Cells of ops: which pass through which stage an op is part of, as data.

A schedule says when a micro-batch passes a stage. Here the graph says what that
pass is: its ops, and those of them that it begins and ends with. All
micro-batches are alike, so it is said of the first one's ops.
"""

import dataclasses
from collections.abc import (
  Callable,
  Collection,
  Hashable,
  Iterable,
  Mapping,
  Sequence,
)
from typing import NamedTuple

from compat.private import graph_reads
from estimator_mp.config import schedule as schedule_lib
from estimator_mp.config.schedule import Phase
from estimator_mp.graph import control_flow, op_types, traversal

import tensorflow as tf


class Pass(NamedTuple):
  """What the cells of all micro-batches have in common.

  Attributes:
    stage: The stage that is passed.
    phase: In which phase.
  """

  stage: int
  phase: Phase


@dataclasses.dataclass(frozen=True)
class Ends:
  """The ops that a pass begins and ends with, on the device of its stage.

  Attributes:
    first: Those that read nothing of the pass itself.
    last: Those that nothing else of the pass reads.
  """

  first: tuple[tf.Operation, ...]
  last: tuple[tf.Operation, ...]


def passes_of_ops(
  ops: Sequence[tf.Operation],
  backward: Collection[tf.Operation],
  stages: Mapping[tf.Operation, int],
) -> dict[tf.Operation, Pass]:
  """Returns the pass that each op of a slice is part of.

  Mostly that is one through the op's own stage. But what an earlier stage reads
  has to be there before (a gather from a weight that lives on a later stage,
  say), and what the backward pass of a later stage reads as well. So forward
  stages never fall along an edge of the graph, and backward stages never rise.

  Args:
    ops: The slice, in the order of the graph.
    backward: Those of it that are made for gradients.
    stages: The stages where ops are placed; an op without one is in no pass.
  """
  inside = set(ops)
  # A v1 loop begins and ends as a whole, and so it is in one pass.
  whole: dict[tf.Operation, Hashable] = {
    op: graph_reads.outermost_loop(op) or op for op in ops
  }
  edges = [
    (whole[source], whole[op])
    for op in reversed(ops)
    for source in traversal.sources(op)
    if source in inside and whole[source] is not whole[op]
  ]
  going_back = _going_back(whole, edges, backward)
  last_stage = max(stages.values(), default=0)
  stage_of: dict[Hashable, int] = {}
  for op in ops:
    of_op = whole[op]
    pick, none = (max, -1) if of_op in going_back else (min, last_stage + 1)
    stage_of[of_op] = pick(stage_of.get(of_op, none), stages.get(op, none))
  same_phase = [
    (source, reader, max if reader in going_back else min)
    for source, reader in edges
    if (source in going_back) == (reader in going_back)
  ]

  def visit(edge: tuple[Hashable, Hashable, Callable[[int, int], int]]) -> bool:
    source, reader, pick = edge
    before = stage_of[source]
    stage_of[source] = pick(before, stage_of[reader])
    return stage_of[source] != before

  traversal.repeat_until_stable(visit, same_phase)
  return {
    op: Pass(
      stage_of[whole[op]],
      Phase.BACKWARD if whole[op] in going_back else Phase.FORWARD,
    )
    for op in ops
    if 0 <= stage_of[whole[op]] <= last_stage
  }


def _going_back(
  whole: Mapping[tf.Operation, Hashable],
  edges: Iterable[tuple[Hashable, Hashable]],
  backward: Collection[tf.Operation],
) -> set[Hashable]:
  """Returns what the backward phase runs: nothing that the forward one reads.

  The gradient of a loop adds ops that the loop itself reads.
  """
  found = {of_op for op, of_op in whole.items() if op in backward}
  found -= {of_op for op, of_op in whole.items() if op not in backward}
  while moved := {s for s, of_op in edges if s in found and of_op not in found}:
    found -= moved
  return found


def ends_of_passes(
  schedule: schedule_lib.Schedule,
  passes: Mapping[tf.Operation, Pass],
  stages: Mapping[tf.Operation, int],
) -> dict[Pass, Ends]:
  """Returns what each pass begins and ends with.

  What is in a branch that may not run ends nothing, as nothing may wait for it.

  Args:
    schedule: The schedule, which says which stages share a device.
    passes: The passes of ops, in the order of the graph.
    stages: The stages where ops are placed. An op of a pass through another
      device's stage is not ordered with what its own device does.
  """
  here = {
    op: of_op
    for op, of_op in passes.items()
    if op in stages
    and schedule.device_of(stages[op]) == schedule.device_of(of_op.stage)
  }
  graph = next((op.graph for op in here), None)
  in_branches = control_flow.ops_in_branches(
    graph.get_operations() if graph else []
  )
  has_before: set[tf.Operation] = set()
  has_after: set[tf.Operation] = set()
  for op, of_op in here.items():
    for source in traversal.sources(op):
      if here.get(source) == of_op:
        has_before.add(op)
        has_after.add(source)
  first: dict[Pass, list[tf.Operation]] = {x: [] for x in here.values()}
  last: dict[Pass, list[tf.Operation]] = {x: [] for x in here.values()}
  for op, of_op in here.items():
    in_loop = graph_reads.outermost_loop(op) is not None
    if op not in has_before and (not in_loop or op.type in op_types.ENTERS):
      first[of_op].append(op)
    if op in has_after or op in in_branches:
      continue
    if not in_loop or op.type in op_types.EXITS:
      last[of_op].append(op)
  return {x: Ends(tuple(first[x]), tuple(last[x])) for x in first}
