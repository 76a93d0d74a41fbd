"""Cells of ops: the passes through stages that an op is part of, as data.

A schedule says when a micro-batch passes a stage. Here the graph gives the ops
of that pass, and those of them that it begins and ends with. All micro-batches
are alike, so these are the first one's ops.
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
from typing import NamedTuple, TypeAlias

from compat.private import graph_reads
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import control_flow, op_types, traversal
from estimator_mp.graph.control_edges import OF_THE_GRAPH, ControlEdges

import tensorflow as tf

LoopOf: TypeAlias = Callable[[tf.Operation], Hashable | None]


class Pass(NamedTuple):
  """The stage and the phase that cells of all micro-batches have in common.

  Attributes:
    stage: The stage that is passed.
    phase: The phase of the pass.
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
  gradients: Sequence[Collection[tf.Operation]] = (),
  waits: ControlEdges = OF_THE_GRAPH,
  loop_of: LoopOf = graph_reads.outermost_loop,
) -> dict[tf.Operation, Pass]:
  """Returns the pass that each op of a slice is part of.

  Mostly that is one through the op's own stage. But an op whose result an
  earlier stage reads has to run before (a gather from a weight that lives on a
  later stage, say), and so has one that the backward pass of a later stage
  reads. An op on a later stage that reads the backward pass of an earlier one
  (the gradient of that gather) comes as late as that. So forward stages never
  fall along an edge of the graph, and backward stages never rise.

  Where a schedule splits the backward pass, as zero-bubble pipelines do (Qi et
  al., 2023, arXiv:2401.10241), WEIGHT has the ops that no other pass reads and
  that lead to the gradient of one variable alone. So the first stage, whose
  gradients no other stage reads, has a BACKWARD pass, too.

  Args:
    ops: The slice, in the order of the graph.
    backward: Those of it that are made for gradients.
    stages: The stages where ops are placed; an op without one is in no pass.
    gradients: The ops that make the gradient of each variable, if the backward
      pass is split; none if it is not.
    waits: The control dependencies of ops.
    loop_of: Returns the outermost loop that an op is in; None if it is in none.
  """
  inside = set(ops)
  # A v1 loop begins and ends as a whole, and so it is in one pass.
  whole: dict[tf.Operation, Hashable] = {op: loop_of(op) or op for op in ops}
  edges = [
    (whole[source], whole[op])
    for op in reversed(ops)
    for source in waits.sources(op)
    if source in inside and whole[source] is not whole[op]
  ]
  measured = _measured(ops, backward, stages, waits)
  going_back = _going_back(whole, edges, backward) - measured
  last_stage = max(stages.values(), default=0)
  stage_of: dict[Hashable, int] = {}
  for op in ops:
    of_op = whole[op]
    pick, none = (max, -1) if of_op in going_back else (min, last_stage + 1)
    stage_of[of_op] = pick(stage_of.get(of_op, none), stages.get(op, none))
  forward = [edge for edge in edges if not going_back.intersection(edge)]
  backward_edges = [edge for edge in edges if going_back.issuperset(edge)]
  late = _late(backward_edges, stage_of)
  after = [edge[::-1] for edge in backward_edges if late.issuperset(edge)]
  before = [edge for edge in backward_edges if edge[0] not in late]
  _settle(stage_of, forward, min)
  _settle(stage_of, after[::-1], _earlier_stage)
  _settle(stage_of, before, max)
  phases = dict.fromkeys(going_back, Phase.BACKWARD)
  made_of = [
    going_back.intersection(whole[op] for op in ends if op in inside)
    for ends in gradients
  ]
  for of_op in _of_one_gradient(backward_edges, stage_of, made_of):
    phases[of_op] = Phase.WEIGHT
  return {
    op: Pass(stage_of[whole[op]], phases.get(whole[op], Phase.FORWARD))
    for op in ops
    if 0 <= stage_of[whole[op]] <= last_stage
  }


def _of_one_gradient(
  edges: Sequence[tuple[Hashable, Hashable]],
  stage_of: Mapping[Hashable, int],
  gradients: Sequence[Collection[Hashable]],
) -> list[Hashable]:
  """Returns the ops that lead to one gradient only, and on its stage only.

  Args:
    edges: The reads between backward ops: pairs of source and reader, the last
      readers first.
    stage_of: The stages in whose backward passes they are.
    gradients: The last ops of each gradient.
  """
  several = -1
  # Of each op the only gradient that it leads to, or `several`.
  only: dict[Hashable, int] = {}
  for number, ends in enumerate(gradients):
    for end in ends:
      only[end] = several if end in only else number
  if not only:
    return []
  sources = {source for source, _ in edges}
  for _, reader in edges:
    if reader not in sources:
      only.setdefault(reader, several)  # It leads to something else.

  def visit(edge: tuple[Hashable, Hashable]) -> bool:
    source, reader = edge
    before, after = only.get(source), only.get(reader)
    if after is None:
      return False
    if stage_of[source] != stage_of[reader] or before not in (None, after):
      after = several
    only[source] = after
    return after != before

  traversal.repeat_until_stable(visit, edges)
  return [of_op for of_op, number in only.items() if number != several]


def _going_back(
  whole: Mapping[tf.Operation, Hashable],
  edges: Iterable[tuple[Hashable, Hashable]],
  backward: Collection[tf.Operation],
) -> set[Hashable]:
  """Returns the ops of the backward phase: none that the forward one reads.

  The gradient of a loop adds ops that the loop itself reads.
  """
  going = {of_op for op, of_op in whole.items() if op in backward}
  going -= {of_op for op, of_op in whole.items() if op not in backward}
  while moved := {s for s, of_op in edges if s in going and of_op not in going}:
    going -= moved
  return going


def _measured(
  ops: Iterable[tf.Operation],
  backward: Collection[tf.Operation],
  stages: Mapping[tf.Operation, int],
  waits: ControlEdges,
) -> set[tf.Operation]:
  """Returns the ops that measure tensors of the forward pass, on their stage.

  Gradients ask for many sizes. In a backward pass, activations would be held
  for them.
  """
  return {
    op
    for op in ops
    if op.type in op_types.MEASURES
    and all(
      source not in backward and stages.get(source) == stages.get(op)
      for source in waits.sources(op)
    )
  }


def _late(
  edges: Sequence[tuple[Hashable, Hashable]], stage_of: Mapping[Hashable, int]
) -> set[Hashable]:
  """Returns the ops that cannot run before a backward pass is at their stage.

  These are the ops that depend on the backward pass of a later stage.

  Args:
    edges: The reads between backward ops: pairs of source and reader, the last
      readers first.
    stage_of: The stages where they are placed; -1 for nowhere.
  """
  highest = dict(stage_of)
  _settle(highest, [edge[::-1] for edge in reversed(edges)], max)
  readers: dict[Hashable, list[Hashable]] = {}
  for source, reader in edges:
    readers.setdefault(source, []).append(reader)
  received = [
    reader
    for source, reader in edges
    if highest[source] > stage_of[reader] >= 0
  ]
  return set(traversal.walk(received, lambda of_op: readers.get(of_op, ())))


def _settle(
  stage_of: dict[Hashable, int],
  edges: Sequence[tuple[Hashable, Hashable]],
  pick: Callable[[int, int], int],
) -> None:
  """Changes stages until the first of each edge agrees with the second.

  Args:
    stage_of: The stages, which change.
    edges: Pairs of ops.
    pick: Returns the stage that the first one of an edge is to have, of its own
      and the other's.
  """

  def visit(edge: tuple[Hashable, Hashable]) -> bool:
    changing, other = edge
    stage = stage_of[changing]
    stage_of[changing] = pick(stage, stage_of[other])
    return stage_of[changing] != stage

  traversal.repeat_until_stable(visit, edges)


def _earlier_stage(one: int, other: int) -> int:
  """Returns the earlier of two stages, where -1 stands for none."""
  return min(one, other) if min(one, other) >= 0 else max(one, other)


def gates(
  op: tf.Operation,
  of_gradients: Collection[tf.Operation],
  stages: Mapping[tf.Operation, int],
  waits: ControlEdges = OF_THE_GRAPH,
) -> list[tf.Operation]:
  """Returns the ops that let a gradient wait for all gradients of a model's op.

  Optimizers of TensorFlow 1 make such gates (`gate_gradients=GATE_OP`).

  Args:
    op: The op that hands on a gradient.
    of_gradients: Ops that were made for gradients: no gate waits for others.
    stages: The stages where ops are placed: no gate is between them.
    waits: The control dependencies of ops.
  """
  if op.type != "Identity" or graph_reads.outermost_loop(op) is not None:
    return []
  source = op.inputs[0].op
  return [
    gate
    for gate in waits.of(op)
    if gate.type == "NoOp"
    and source in waits.of(gate)
    and all(
      x in of_gradients and x in stages and stages[x] == stages.get(source)
      for x in waits.of(gate)
    )
  ]


def ends_of_passes(
  schedule: schedule_lib.Schedule,
  passes: Mapping[tf.Operation, Pass],
  stages: Mapping[tf.Operation, int],
  loop_of: LoopOf = graph_reads.outermost_loop,
) -> dict[Pass, Ends]:
  """Returns the ops that each pass begins and ends with.

  An op in a branch that may not run ends nothing, as nothing may wait for it.

  Args:
    schedule: The schedule, which says which stages share a device.
    passes: The passes of ops, in the order of the graph.
    stages: The stages where ops are placed. An op of a pass through another
      device's stage is not ordered with the ops of its own device.
    loop_of: As for `passes_of_ops`.
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
    in_loop = loop_of(op) is not None
    if op not in has_before and (not in_loop or op.type in op_types.ENTERS):
      first[of_op].append(op)
    if op in has_after or op in in_branches:
      continue
    if not in_loop or op.type in op_types.EXITS:
      last[of_op].append(op)
  return {x: Ends(tuple(first[x]), tuple(last[x])) for x in first}
