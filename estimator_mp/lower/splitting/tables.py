"""Tables: variables that are split by rows, and are looked up.

No device has the table, nor does anything that is as large: rows are exchanged
for their numbers. So is the way back. The gradient that model_fn gets has rows
of the plain table, as without shards, and an update of some rows becomes one of
each shard's own.
"""

import dataclasses
from collections.abc import Callable, Sequence

from estimator_mp.collectives import exchange
from estimator_mp.collectives.exchange import ByOwner, Route, RowOwners
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import op_types
from estimator_mp.model_axis.decisions import LookUp, Owned

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class _Lookups:
  """Lookups of one table that shared an exchange.

  Attributes:
    ids: Their ids, in the shape of each.
    rows: The rows that they return.
    joined: All ids, of shape [n].
    device: Where the rows are wanted.
  """

  ids: list[tf.Tensor]
  rows: list[tf.Tensor]
  joined: tf.Tensor
  device: str


class Tables:
  """The lookups and sparse updates of one graph's split tables."""

  def __init__(self, whole: Callable[[tf.Tensor], tf.Tensor]):
    """Starts without a lookup.

    Args:
      whole: Returns what holds a whole tensor of the model.
    """
    self._whole = whole
    self._lookups: dict[str, list[_Lookups]] = {}
    # By the names of ids.
    self._routes: dict[tuple[str, RowOwners, str], Route] = {}
    self._parted: dict[tuple[str, RowOwners, str], ByOwner] = {}
    # The same, and the names of values.
    self._entries: dict[tuple[str, RowOwners, str, str], list[tf.Tensor]] = {}
    self._of_gradients: dict[str, RowOwners] = {}
    self._distinct: dict[tuple[str, RowOwners], Route] = {}
    self._same_ids: dict[str, tf.Tensor] = {}

  def look_up(
    self,
    ops: Sequence[tf.Operation],
    decision: LookUp,
    handles: Sequence[tf.Tensor],
    device: str,
  ) -> list[tf.Tensor]:
    """Returns what stands for the outputs of lookups, by one exchange.

    Args:
      ops: Lookups of one table.
      decision: How its rows are owned.
      handles: The handles of its shards.
      device: Where the rows are wanted.
    """
    dtype = ops[0].outputs[0].dtype
    handle = ops[0].inputs[0]
    ids = [self._whole(op.inputs[1]) for op in ops]
    joined = exchange.joined_ids(ids, device)
    rows, owners = _owners(decision.rows)
    route = self._route(joined, rows, device)
    distinct = exchange.distinct_rows(
      route,
      [_gather(handles[i], dtype) for i in owners],
      [handles[i].device for i in owners],
      device,
    )
    if op_types.is_variable(handle.op):
      with tf.compat.v1.device(device):
        distinct = tf.stop_gradient(distinct)  # That is asked of the rows.
    orders = exchange.cut_like(route.order, ids, device)
    found = [exchange.rows_of(order, distinct, device) for order in orders]
    for tensor, op in zip(found, ops, strict=True):
      tensor.set_shape(op.outputs[0].shape)
    if op_types.is_variable(handle.op):
      self._lookups.setdefault(handle.name, []).append(
        _Lookups(ids, found, joined, device)
      )
    return found

  def owned(
    self,
    op: tf.Operation,
    index: int,
    operand: Owned,
    devices: Sequence[str],
  ) -> list[tf.Tensor]:
    """Returns what each shard reads in place of an input of a sparse update.

    Args:
      op: The update.
      index: Which input it is.
      operand: Which rows it is for.
      devices: The devices of the shards.
    """
    rows, owners = _owners(operand.rows)
    found = self._owned(
      op, index, operand.indices, rows, [devices[i] for i in owners], devices[0]
    )
    entry = [] if index == operand.indices else _entry_of(op, index)
    return _with_empty(found, owners, devices, [0, *entry])

  def _owned(
    self,
    op: tf.Operation,
    index: int,
    indices: int,
    rows: RowOwners,
    devices: Sequence[str],
    device: str,
  ) -> list[tf.Tensor]:
    """Returns what each shard that has rows reads in place of an input."""
    ids = self._whole(op.inputs[indices])
    values = self._whole(op.inputs[index])
    route = self._distinct.get((ids.name, rows))
    if route is not None:
      if index == indices:
        return list(route.local_ids)
      return exchange.entries_of_distinct(route, values, devices, device)
    key = ids.name, rows, device
    if key not in self._parted:
      joined = exchange.joined_ids([ids], device)
      self._parted[key] = exchange.by_owner(joined, rows, device)
    if index == indices:
      return exchange.local_ids(self._parted[key], rows, devices)
    if ids.shape.rank != 1:
      with tf.compat.v1.device(device):
        row = _shape_of(op.inputs[0].op)[1:]
        values = tf.reshape(values, [-1, *row])
    sent = (*key, op.inputs[index].name)
    if sent not in self._entries:
      self._entries[sent] = exchange.entries(
        self._parted[key], values, devices, device
      )
    return self._entries[sent]

  def sources(self, name: str) -> list[tf.Tensor]:
    """Returns what was looked up in a table.

    Args:
      name: The name of its handle, which is never run.
    """
    found = self._lookups.get(name, [])
    return [rows for lookups in found for rows in lookups.rows]

  def gradient(
    self,
    handle: tf.Tensor,
    gradients: Sequence[tf.Tensor | tf.IndexedSlices | None],
  ) -> tf.IndexedSlices | None:
    """Returns the gradient with respect to a table, as without shards.

    Args:
      handle: Its handle, which is never run.
      gradients: Those with respect to each of `sources`.
    """
    shape = _shape_of(handle.op)
    left = list(gradients)
    values: list[tf.Tensor] = []
    asked: list[tf.Tensor] = []
    groups = self._lookups[handle.name]
    for lookups in groups:
      own = [left.pop(0) for _ in lookups.rows]
      with tf.compat.v1.device(lookups.device):
        for gradient, ids in zip(own, lookups.ids, strict=True):
          if gradient is not None:
            dense = tf.convert_to_tensor(gradient)
            values.append(tf.reshape(dense, [-1, *shape[1:]]))
            asked.append(ids)
    if not values:
      return None
    # Not the ids of the lookups themselves, even if they are the same: where
    # micro-batches join both, TensorFlow 2.21's Grappler makes a cycle.
    indices = exchange.joined_ids(asked, groups[0].device)
    if len(groups) == 1 and len(asked) == len(groups[0].ids):
      self._same_ids[indices.name] = groups[0].joined
    with tf.compat.v1.device(groups[0].device):
      return tf.IndexedSlices(
        values[0] if len(values) == 1 else tf.concat(values, axis=0),
        indices,
        tf.constant(shape, tf.int32),
      )

  def add_gradient(self, gradient: tf.IndexedSlices, rows: RowOwners) -> None:
    """Enters a gradient that model_fn gets.

    Args:
      gradient: The gradient of a table.
      rows: How the table is owned.
    """
    self._of_gradients[gradient.indices.name], _ = _owners(rows)

  def to_shards(
    self,
    gradient: tf.IndexedSlices,
    rows: RowOwners,
    dense: Sequence[gradient_lib.Gradient | None],
    devices: Sequence[str],
  ) -> list[gradient_lib.Gradient]:
    """Returns gradients of shards, for a table that is read whole, too.

    Args:
      gradient: That of what was looked up.
      rows: How the table is owned.
      dense: Those of the shards' other readers.
      devices: The devices of the shards.
    """
    rows, owners = _owners(rows)
    own_devices = [devices[i] for i in owners]
    parted = exchange.by_owner(gradient.indices, rows, devices[0])
    parts = exchange.entries(parted, gradient.values, own_devices, devices[0])
    ids = exchange.local_ids(parted, rows, own_devices)
    found = [
      exchange.dense(part, own, size, device)
      for part, own, size, device in zip(
        parts, ids, rows.sizes, own_devices, strict=True
      )
    ]
    shape = [0, *gradient.values.shape[1:]]
    totals: list[gradient_lib.Gradient] = []
    for total, other, device in zip(
      _with_empty(found, owners, devices, shape), dense, devices, strict=True
    ):
      with tf.compat.v1.device(device):
        totals.append(total if other is None else tf.add(other, total))
    return totals

  def finds_distinct_ids(self, op: tf.Operation) -> bool:
    """Whether an op finds the distinct ids of a table's gradient.

    An optimizer sums the repeated rows of a gradient and updates each row once,
    in whatever order. In the order of owners, each shard's are a slice.

    Args:
      op: An op.

    Returns:
      False, too, if anything depends on the order of the ids.
    """
    return (
      op.type == "Unique"
      and op.get_attr("out_idx") == tf.int32
      and _source(op.inputs[0]).name in self._of_gradients
      and _is_order_free(op)
    )

  def sorted_by_owner(self, op: tf.Operation, device: str) -> list[tf.Tensor]:
    """Returns what stands for the outputs of an op that finds distinct ids.

    Args:
      op: One that `finds_distinct_ids`.
      device: Where it is.

    Returns:
      The distinct ids, and the number of each id among them.
    """
    ids = _source(op.inputs[0])
    rows = self._of_gradients[ids.name]
    route = self._route(self._same_ids.get(ids.name, ids), rows, device)
    with tf.compat.v1.device(device):
      distinct = route.distinct_ids
    self._distinct[distinct.name, rows] = route
    return [distinct, route.order]

  def _route(self, ids: tf.Tensor, rows: RowOwners, device: str) -> Route:
    key = ids.name, rows, device
    if key not in self._routes:
      self._routes[key] = exchange.route(ids, rows, device)
    return self._routes[key]


def _owners(rows: RowOwners) -> tuple[RowOwners, list[int]]:
  """Returns how rows are owned by those shards that have any, and which do.

  A table that is on one device has one shard with all rows.
  """
  owners = [i for i, size in enumerate(rows.sizes) if size]
  return dataclasses.replace(
    rows, sizes=tuple(filter(None, rows.sizes))
  ), owners


def _with_empty(
  tensors: Sequence[tf.Tensor],
  owners: Sequence[int],
  devices: Sequence[str],
  shape: Sequence[int],
) -> list[tf.Tensor]:
  """Returns a tensor for each shard: one of a shape for those without rows."""
  found = dict(zip(owners, tensors, strict=True))
  for shard, device in enumerate(devices):
    if shard not in found:
      with tf.compat.v1.device(device):
        found[shard] = tf.zeros(shape, tensors[0].dtype)
  return [found[shard] for shard in range(len(devices))]


def _source(tensor: tf.Tensor) -> tf.Tensor:
  """Returns what identities pass on."""
  while tensor.op.type == "Identity":
    tensor = tensor.op.inputs[0]
  return tensor


def _gather(handle: tf.Tensor, dtype: tf.DType) -> exchange.Gather:
  """Returns what gathers rows of one shard."""
  return lambda ids: tf.raw_ops.ResourceGather(
    resource=handle, indices=ids, dtype=dtype
  )


def _entry_of(op: tf.Operation, index: int) -> list[int]:
  """Returns the shape of what an op reads for one row."""
  if op_types.is_handle(op.inputs[0]):
    return _shape_of(op.inputs[0].op)[1:]
  return list(op.inputs[index].shape.as_list()[1:])


def _shape_of(variable: tf.Operation) -> list[int]:
  """Returns the shape of a table."""
  return list(tf.TensorShape(variable.get_attr("shape")).as_list())


def _is_order_free(unique: tf.Operation) -> bool:
  """Whether distinct ids are read in ways that do not depend on their order."""
  distinct, numbers = unique.outputs
  return all(
    op.type in ("Shape", "Size", "ResourceGather") or op_types.is_row_write(op)
    for op in distinct.consumers()
  ) and all(op.type == "UnsortedSegmentSum" for op in numbers.consumers())
