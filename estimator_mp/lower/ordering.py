"""Ordering: the order of cells, as control dependencies.

- A write waits for reads of its variable that the program made before.
- Gradients that pass through an op together stop waiting for each other.
- Devices run their cells in the order of a schedule.
- Devices do their parts of collectives in one order, that of all.
- XLA compiles the ops of a cell together, and none of two cells.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from compat.private import graph_edits, graph_reads
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.config.schedules.schedule import Cell
from estimator_mp.graph import traversal
from estimator_mp.pipeline import cells
from estimator_mp.planning import collective_order

import tensorflow as tf

_NO_ENDS = cells.Ends((), ())
_TUPLE = "/tuple/group_deps"


def read_before_writing(
  reads: Mapping[tf.Operation, Sequence[tf.Operation]],
) -> None:
  """Makes writes of variables wait for reads.

  Args:
    reads: Those that each write has to wait for; see `unordered_reads.find`.
  """
  for write, before in reads.items():
    graph_edits.add_control_inputs(write, before)


def take_tuples_apart(
  ops: Sequence[tf.Operation], of_step: Collection[tf.Operation]
) -> None:
  """Makes gradients not wait for those of other operands, or variables.

  `tf.tuple` has them do so, for the order of computation alone, and an
  optimizer of Keras passes all of them through one op. It would let slices of
  the batch, and stages, wait for each other.

  Args:
    ops: The ops of a graph, each after those that it reads.
    of_step: Those that the step runs. Nothing but their tuples orders the
      others, as the updates that AdaNet's hooks run.
  """
  operands: dict[tf.Operation, set[tf.Operation]] = {}
  for op in ops:
    for gate in op.control_inputs:
      if _TUPLE in gate.name:
        operands.setdefault(gate, set()).update(traversal.inputs(op))
  taken = [op for op in ops if op in of_step]
  for op in taken:
    gates = [x for x in op.control_inputs if x in operands]
    if gates:
      # All wait for what a gate waits for besides operands.
      waits = [x for x in op.control_inputs if x not in operands]
      for gate in gates:
        waits += [x for x in gate.control_inputs if x not in operands[gate]]
      graph_edits.set_control_inputs(op, waits)
  differentiated = {graph_reads.differentiated(op) for op in ops}
  for op in taken:
    # One with a gradient of its own is where that finds its stage.
    if op.type == "IdentityN" and op not in differentiated:
      for given, passed in zip(op.inputs, op.outputs, strict=True):
        for reader in filter(of_step.__contains__, passed.consumers()):
          for index, read in enumerate(reader.inputs):
            if read is passed:
              graph_edits.replace_input(reader, index, given)
          # TensorFlow has them wait for the op instead of what it waits for.
          graph_edits.add_control_inputs(reader, op.control_inputs)


def order_cells(
  schedule: schedule_lib.Schedule,
  ends: Mapping[cells.Pass, cells.Ends],
  op_of: Callable[[int, tf.Operation], tf.Operation | None],
  sums: Mapping[Cell, Sequence[tf.Operation]],
  sums_elsewhere: Mapping[Cell, Sequence[tf.Operation]],
) -> None:
  """Makes each device run its cells in the order of a schedule.

  A cell's first ops wait until the last ops of the cell before it, on the same
  device, are done. An op waits for its inputs from other cells anyway.

  Args:
    schedule: The schedule.
    ends: The ops of the first micro-batch that each pass begins and ends with.
    op_of: Returns the op of a micro-batch that stands for one of the first;
      None if that micro-batch does without.
    sums: Ops that add the gradients that a cell makes to those of others. They
      are the end of that cell: whatever TensorFlow's optimizer would make of a
      chain of sums, no gradient waits for a later one. That their terms wait
      for the cell before is not enough: the optimizer merges sums with others
      unless they wait for something themselves.
    sums_elsewhere: Such ops that are on another device than the cell, as those
      of a table on the last stage that the first one looks up. No cell waits
      for them: they follow the cell.
  """
  with (
    tf.compat.v1.name_scope(None),
    tf.control_dependencies(None),
    tf.compat.v1.name_scope("estimator_mp/schedule"),
  ):
    for row in schedule.rows:
      end: tf.Operation | None = None
      for cell in row:
        of_pass = ends.get(cells.Pass(cell.stage, cell.phase), _NO_ENDS)
        of_cell = sums.get(cell, ())
        first, last = (
          [
            *dict.fromkeys(
              op for x in ops if (op := op_of(cell.micro_batch, x))
            ),
            *of_cell,
          ]
          for ops in (of_pass.first, of_pass.last)
        )
        if not (first or last):
          continue
        if end is not None:
          for op in first:
            graph_edits.add_control_inputs(op, [end])
          last.append(end)
        end = _all_done(last, cell)
        for op in sums_elsewhere.get(cell, ()):
          graph_edits.add_control_inputs(op, [end])


def _all_done(ops: Sequence[tf.Operation], cell: Cell) -> tf.Operation:
  """Returns an op that waits for the end of a cell."""
  device = next((op.device for op in ops if op.device), "")
  with tf.compat.v1.device(device), tf.control_dependencies(ops):
    name = f"stage_{cell.stage}/{cell.phase.name.lower()}_{cell.micro_batch}"
    return tf.no_op(name)


def order_collectives(collectives: Sequence[Sequence[tf.Operation]]) -> None:
  """Makes each device do its parts of collectives in their order.

  A step that runs a collective then also runs those before it on its devices.
  Call it when all are made, and before a session runs the graph.

  Args:
    collectives: The ops of each collective, one per device; see
      `collective_order`.

  Raises:
    ValueError: If they cannot be run in this order.
  """
  waits = collective_order.waits_of_collectives(collectives)
  for op, before in waits.items():
    if before not in op.control_inputs:
      graph_edits.add_control_inputs(op, [before])


def keep_cells_apart(
  graph: tf.Graph, cells_of_replicas: Sequence[Mapping[str, Cell]]
) -> None:
  """Lets XLA's auto-clustering compile no two cells as one op.

  It may do so wherever that closes no circle, and the waits of the second cell
  would then hold up stages that wait for the first one.

  Args:
    graph: The graph; no session has run it yet.
    cells_of_replicas: For each replica the cells of ops, by their names.
  """
  scopes = {
    name: f"replica_{replica}/{cell}"
    for replica, of_replica in enumerate(cells_of_replicas)
    for name, cell in of_replica.items()
  }
  for op in graph.get_operations():
    graph_edits.set_compilation_scope(op, scopes.get(op.name, "no_cell"))
