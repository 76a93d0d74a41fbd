"""Ordering: a schedule, as control dependencies between cells.

A cell's first ops wait until the last ops of the cell before it, on the same
device, are done. What an op reads of other cells it waits for anyway.
"""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from compat import private_graph
from estimator_mp.graph import branches
from estimator_mp.pipeline import schedule as schedule_lib
from estimator_mp.pipeline.schedule import Cell, Phase

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class _Ends:
  """The ops that a cell begins and ends with, in the first micro-batch."""

  first: list[tf.Operation]
  last: list[tf.Operation]


def cells_of_ops(
  ops: Sequence[tf.Operation],
  backward: set[tf.Operation],
  stages: Mapping[tf.Operation, int],
) -> dict[tf.Operation, tuple[int, Phase]]:
  """Returns the stage and phase of the cell that each op of a slice is in.

  Mostly that is the op's own stage. But what an earlier stage reads has to be
  there before (a gather from a weight that lives on a later stage, say), and
  what the backward pass of a later stage reads as well. So forward stages
  never fall along an edge of the graph, and backward stages never rise.

  Args:
    ops: The slice, in the order of the graph.
    backward: Those of it that are made for gradients.
    stages: The stages where ops are placed; an op without one is in no cell.
  """
  inside = set(ops)
  # A v1 loop begins and ends as a whole, and so it is in one cell.
  units: dict[tf.Operation, Hashable] = {
    op: private_graph.outermost_loop(op) or op for op in ops
  }
  edges = [
    (units[source], units[op])
    for op in reversed(ops)
    for source in _sources(op)
    if source in inside and units[source] is not units[op]
  ]
  # The gradient of a loop adds ops that the loop itself reads.
  going_back = {units[op] for op in ops if op in backward}
  going_back -= {units[op] for op in ops if op not in backward}
  while moved := {
    s for s, unit in edges if s in going_back and unit not in going_back
  }:
    going_back -= moved
  last_stage = max(stages.values(), default=0)
  cell: dict[Hashable, int] = {}
  for op in ops:
    unit = units[op]
    pick, none = (max, -1) if unit in going_back else (min, last_stage + 1)
    cell[unit] = pick(cell.get(unit, none), stages.get(op, none))
  same_phase = [
    (source, unit, max if unit in going_back else min)
    for source, unit in edges
    if (source in going_back) == (unit in going_back)
  ]
  changed = True
  while changed:
    changed = False
    for source, unit, pick in same_phase:
      stage = pick(cell[source], cell[unit])
      changed = changed or stage != cell[source]
      cell[source] = stage
  return {
    op: (
      cell[units[op]],
      Phase.BACKWARD if units[op] in going_back else Phase.FORWARD,
    )
    for op in ops
    if 0 <= cell[units[op]] <= last_stage
  }


def order_cells(
  schedule: schedule_lib.Schedule,
  cells: Mapping[tf.Operation, tuple[int, Phase]],
  stages: Mapping[tf.Operation, int],
  op_of: Callable[[int, tf.Operation], tf.Operation | None],
  sums: Mapping[tuple[int, int], Sequence[tf.Operation]],
) -> None:
  """Makes each device run its cells in the order of a schedule.

  Args:
    schedule: The schedule.
    cells: The ops of the first micro-batch, by stage and phase.
    stages: The stages where they are placed.
    op_of: Returns the op of a micro-batch that stands for one of the first;
      None if that micro-batch does without.
    sums: Ops that add the gradients of a stage and micro-batch, given as a
      pair, to those of others. They are the end of its backward cell: whatever
      TensorFlow's optimizer would make of a chain of sums, no gradient waits
      for a later one.
  """
  ends = _ends(schedule, cells, stages)
  with (
    tf.compat.v1.name_scope(None),
    tf.control_dependencies(None),
    tf.compat.v1.name_scope("estimator_mp/schedule"),
  ):
    for row in schedule.rows:
      done: tf.Operation | None = None
      for cell in row:
        of_cell = ends.get((cell.stage, cell.phase))
        if of_cell is None:
          continue
        first, last = (
          [op for op in (op_of(cell.micro_batch, x) for x in ops) if op]
          for ops in (of_cell.first, of_cell.last)
        )
        if cell.phase is Phase.BACKWARD:
          own_sums = sums.get((cell.stage, cell.micro_batch), ())
          first += own_sums
          last += own_sums
        if done is not None:
          for op in first:
            private_graph.add_control_inputs(op, [done])
          last.append(done)
        done = _join(last, cell)


def _join(ops: Sequence[tf.Operation], cell: Cell) -> tf.Operation:
  """Returns an op that waits for the end of a cell."""
  device = next((op.device for op in ops if op.device), "")
  with tf.compat.v1.device(device), tf.control_dependencies(ops):
    name = f"stage_{cell.stage}/{cell.phase.name.lower()}_{cell.micro_batch}"
    return tf.no_op(name)


def _ends(
  schedule: schedule_lib.Schedule,
  cells: Mapping[tf.Operation, tuple[int, Phase]],
  stages: Mapping[tf.Operation, int],
) -> dict[tuple[int, Phase], _Ends]:
  """Returns the ends of each cell."""
  # An op that runs on another device is not ordered with this one's.
  here = {
    op: cell
    for op, cell in cells.items()
    if op in stages
    and schedule.device_of(stages[op]) == schedule.device_of(cell[0])
  }
  graph = next((op.graph for op in here), None)
  in_branches = branches.ops_in_branches(
    graph.get_operations() if graph else []
  )
  has_before: set[tf.Operation] = set()
  has_after: set[tf.Operation] = set()
  for op, cell in here.items():
    for source in _sources(op):
      if here.get(source) == cell:
        has_before.add(op)
        has_after.add(source)
  ends: dict[tuple[int, Phase], _Ends] = {}
  for op, cell in here.items():
    of_cell = ends.setdefault(cell, _Ends([], []))
    in_loop = private_graph.outermost_loop(op) is not None
    if op not in has_before and (
      not in_loop or op.type in ("Enter", "RefEnter")
    ):
      of_cell.first.append(op)
    if op in has_after or op in in_branches:
      continue
    if not in_loop or op.type in ("Exit", "RefExit"):
      of_cell.last.append(op)
  return ends


def _sources(op: tf.Operation) -> Iterable[tf.Operation]:
  """Yields what an op reads from or waits for."""
  for tensor in op.inputs:
    yield tensor.op
  yield from op.control_inputs
