"""Lookups of tables whose rows are on several devices.

A lookup stays one op while the batch is cut into slices: it reads the handle of
the first shard, and stands for rows of all. In the end each one is replaced by
an exchange of distinct rows (`collectives.exchange`):

    ids -> by owner -> unique -> rows of each shard -> a row for each id

Lookups of one table that can be made at the same time share an exchange.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from compat.private import graph_edits
from estimator_mp.collectives import exchange
from estimator_mp.collectives.exchange import RowOwners
from estimator_mp.graph import control_flow, placed_ops, traversal, variables

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Table:
  """A table whose rows are split.

  Attributes:
    variable: That of all rows, which is never run.
    shards: The variables that have rows.
    rows: Which ones each has.
  """

  variable: tf.Operation
  shards: tuple[tf.Operation, ...]
  rows: RowOwners


class Lookups:
  """The lookups of one graph's split tables.

  Attributes:
    groups: Lookups of one table, none of which depends on another one.
  """

  def __init__(self) -> None:
    """Starts with none."""
    self.groups: list[list[tf.Operation]] = []
    self._tables: dict[tf.Operation, Table] = {}  # By their first shards.

  def __contains__(self, op: tf.Operation) -> bool:
    """Whether an op stands for an exchange of rows."""
    return op.type == "ResourceGather" and (
      variables.variable_of(op.inputs[0]) in self._tables
    )

  def defer(
    self,
    ops: Sequence[tf.Operation],
    variable: tf.Operation,
    shards: Sequence[tf.Operation],
    rows: RowOwners,
    step: Collection[tf.Operation] = (),
  ) -> None:
    """Lets lookups of a table stand for those of its shards.

    Args:
      ops: The lookups, in the order of the graph.
      variable: The table.
      shards: The variables of its shards.
      rows: Which rows each shard has; some may have none.
      step: The ops of a step. Other lookups may need tensors that no step has,
        and are exchanged one by one.
    """
    sizes = tuple(filter(None, rows.sizes))
    owners = [x for x, size in zip(shards, rows.sizes, strict=True) if size]
    rows = dataclasses.replace(rows, sizes=sizes)
    self._tables[owners[0]] = Table(variable, tuple(owners), rows)
    for op in ops:
      graph_edits.replace_input(op, 0, owners[0].outputs[0])
    self.groups += _independent([op for op in ops if op in step])
    self.groups += [[op] for op in ops if op not in step]

  def shards_with(self, variable: tf.Operation) -> Sequence[tf.Operation]:
    """Returns the shards that are looked up with one; none if it is not.

    Args:
      variable: The op of a variable.
    """
    table = self._tables.get(variable)
    return () if table is None else table.shards

  def mirror(self, copy_of: Callable[[tf.Tensor], tf.Tensor]) -> None:
    """Enters the tables of a replica.

    Args:
      copy_of: Returns the replica's copy of a tensor.
    """

    def copy(variable: tf.Operation) -> tf.Operation:
      return copy_of(variable.outputs[0]).op

    self._tables |= {
      copy(first): dataclasses.replace(
        table, shards=tuple(map(copy, table.shards))
      )
      for first, table in self._tables.items()
    }

  def exchange(
    self,
    groups: Iterable[Sequence[tf.Operation]],
    device_of: Callable[[tf.Operation], str] = lambda op: str(op.device),
  ) -> dict[str, tf.Tensor]:
    """Replaces lookups by exchanges.

    Args:
      groups: Lookups of one table, on one device, that are made together.
      device_of: Returns the device on which a lookup's rows are wanted.

    Returns:
      The rows of exchanges, by the names of the lookups' outputs. All other ops
      read them, and wait for them.
    """
    exchanged: dict[tf.Operation, tf.Tensor] = {}
    for ops in groups:
      exchanged |= zip(ops, self._exchange(ops, device_of(ops[0])), strict=True)
    for op, rows in exchanged.items():
      for reader in [*op.outputs[0].consumers()]:
        for index, tensor in enumerate(reader.inputs):
          if tensor is op.outputs[0]:
            graph_edits.replace_input(reader, index, rows)
      self.detach(op)
    self._wait(exchanged)
    return {op.outputs[0].name: rows for op, rows in exchanged.items()}

  def detach(self, op: tf.Operation) -> None:
    """Detaches a lookup that nothing reads: it may not be fetched or fed.

    Args:
      op: The lookup.
    """
    op.graph.prevent_fetching(op)
    op.graph.prevent_feeding(op.outputs[0])
    table = self._tables[variables.variable_of(op.inputs[0])]
    graph_edits.replace_input(op, 0, table.variable.outputs[0])
    graph_edits.set_device(op, table.variable.device)

  def _exchange(
    self, ops: Sequence[tf.Operation], device: str
  ) -> list[tf.Tensor]:
    """Returns the rows of lookups, on a device."""
    first = ops[0]
    table = self._tables[variables.variable_of(first.inputs[0])]
    ids = [op.inputs[1] for op in ops]
    waits = dict.fromkeys(x for op in ops for x in traversal.control_inputs(op))
    dtype = first.outputs[0].dtype
    with (
      first.graph.as_default(),
      placed_ops.apart_from_caller(f"look_up/{first.name}"),
      tf.control_dependencies([*waits]),
    ):
      joined = exchange.joined_ids(ids, device)
      route = exchange.route(joined, table.rows, device)
      distinct = exchange.distinct_rows(
        route,
        [_gather(x.outputs[0], dtype) for x in table.shards],
        [x.device for x in table.shards],
        device,
      )
      orders = exchange.cut_like(route.order, ids, device)
      outputs = [exchange.rows_of(order, distinct, device) for order in orders]
    for rows, op in zip(outputs, ops, strict=True):
      rows.set_shape(op.outputs[0].shape)
    return outputs

  def _wait(self, exchanged: Mapping[tf.Operation, tf.Tensor]) -> None:
    """Lets ops wait for exchanges that waited for lookups."""
    if not exchanged:
      return
    graph = next(iter(exchanged)).graph
    for op in graph.get_operations():
      waits = op.control_inputs
      if any(x in exchanged for x in waits):
        graph_edits.set_control_inputs(
          op, [exchanged[x].op if x in exchanged else x for x in waits]
        )


def _independent(ops: Sequence[tf.Operation]) -> list[list[tf.Operation]]:
  """Returns groups of lookups, none of which depends on another of its group.

  A lookup in a branch is a group of its own: no other branch is taken with it.
  """
  if len(ops) < 2:
    return [list(ops)] if ops else []
  every = ops[0].graph.get_operations()
  inside = control_flow.ops_in_branches(every)
  alone = [[op] for op in ops if op in inside]
  groups: list[tuple[list[tf.Operation], set[tf.Operation]]] = []
  for op in ops:
    if op in inside:
      continue
    for members, behind in groups:
      same = {*members[0].control_inputs} == {*op.control_inputs}
      if same and op not in behind:
        break
    else:
      members, behind = [], set()
      groups.append((members, behind))
    members.append(op)
    behind.update(traversal.descendants([op], every))
  return [*alone, *(members for members, _ in groups)]


def _gather(handle: tf.Tensor, dtype: tf.DType) -> exchange.Gather:
  return lambda ids: tf.raw_ops.ResourceGather(
    resource=handle, indices=ids, dtype=dtype
  )
