"""Shards: makes a variable for each shard of a variable that is split.

A variable that is split keeps its Python object and its handle, which nobody
runs any more: a phantom. Its shards are variables of their own, which a
checkpoint holds as slices of the one under the plain name.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from compat.private import graph_edits
from estimator_mp.graph import colocation, device_assignment, placed_ops
from estimator_mp.graph.definitions import Definitions, op_name
from estimator_mp.propagate.splits import CyclicSplit, VariableSplit

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import variable_pb2


class Shards:
  """The shards of one graph's variables.

  Attributes:
    splits: How variables are split.
    handles: The variables of the shards of each.
  """

  def __init__(
    self,
    splits: Mapping[tf.Operation, VariableSplit],
    devices_of: Callable[[tf.Operation], Sequence[str]],
  ):
    """Makes the handles of shards, in the graph of their variables.

    Args:
      splits: How variables are split, by their ops.
      devices_of: Returns the devices of a variable's shards.
    """
    self.splits = splits
    self._writes: Mapping[tf.Operation, Sequence[tf.Operation]] = {}
    self._reads: Mapping[str, Sequence[tf.Tensor]] = {}
    self.handles = _handles(splits, devices_of)
    for variable, shards in self.handles.items():
      self._place(variable, shards, devices_of(variable))

  def _place(
    self,
    variable: tf.Operation,
    shards: Sequence[tf.Operation],
    devices: Sequence[str],
  ) -> None:
    """Puts shards on their devices, beside those that they are to be beside."""
    names = colocation.colocated_with(variable)
    others = [variable.graph.get_operation_by_name(name) for name in names]
    known = [self.handles[x] for x in others if x in self.handles]
    for number, (shard, device) in enumerate(zip(shards, devices, strict=True)):
      graph_edits.set_device(
        shard, device_assignment.device_function(device)(shard)
      )
      beside = [of_one[number].name for of_one in known]
      graph_edits.set_colocation(shard, [x for x in beside if x != shard.name])

  def replace_in_collections(
    self,
    writes: Mapping[tf.Operation, Sequence[tf.Operation]],
    wholes: Mapping[str, tf.Tensor],
  ) -> None:
    """Lets the graph's collections have shards in place of variables.

    Args:
      writes: The writes of all shards, by that of the variable.
      wholes: The stand-ins for tensors, by their names.
    """
    self._writes = writes
    graph = tf.compat.v1.get_default_graph()
    collections = [
      graph.get_collection_ref(name) for name in graph.get_all_collection_keys()
    ]
    self._read([x for entries in collections for x in entries])
    shards: dict[str, list[tf.Variable]] = {}
    for entries in collections:
      replaced: list[Any] = []
      for entry in entries:
        if isinstance(entry, tf.Variable):
          replaced += self._shards_of(entry, shards)
        elif isinstance(entry, tf.Tensor):
          replaced.append(wholes.get(entry.name, entry))
        else:
          replaced.append(entry)
      entries[:] = replaced

  def _shards_of(
    self, variable: Any, shards: dict[str, list[tf.Variable]]
  ) -> list[tf.Variable]:
    """Returns the shards of a variable, or itself if it is not split."""
    split = self._split_of(variable)
    if split is None:
      return [variable]
    if isinstance(split, CyclicSplit):
      self._let_load(variable, split)
      return [variable]
    handle = variable.handle
    if handle.name not in shards:
      self._let_load(variable, split)
      shards[handle.name] = []
      local = tf.compat.v1.GraphKeys.LOCAL_VARIABLES
      for shard, size in zip(
        self._make_variables(variable, split), split.sizes, strict=True
      ):
        if size:
          shards[handle.name].append(shard)
        else:  # That is in no checkpoint.
          tf.compat.v1.add_to_collection(local, shard)
    return shards[handle.name]

  def _split_of(self, entry: Any) -> VariableSplit | None:
    """Returns the split of a variable; None for no variable, or a whole one."""
    handle = getattr(entry, "handle", None)
    if handle is None or not isinstance(entry, tf.Variable):
      return None
    return self.splits.get(handle.op)

  def _let_load(self, variable: Any, split: VariableSplit) -> None:
    """Lets `variable.load` write all shards: the variable's own is never run.

    Args:
      variable: A variable that is split; model_fn may have kept it.
      split: How it is split.
    """
    writes = self._writes.get(variable.initializer)
    if writes is not None:
      variable.load = functools.partial(
        _load, variable.handle.op.name, variable.shape, split, writes
      )

  def _make_variables(
    self, variable: Any, split: VariableSplit
  ) -> list[tf.Variable]:
    """Returns Python's objects for the shards of a variable."""
    handles = [x.outputs[0] for x in self.handles[variable.handle.op]]
    first = variable.initializer
    writes = [*self._writes.get(first, [first] * len(handles))]
    reads = self._reads[variable.handle.name]
    full_shape = variable.shape.as_list()
    shards = []
    for i, handle in enumerate(handles):
      offset = [0] * len(full_shape)
      shape = list(full_shape)
      offset[split.dim], shape[split.dim] = split.offsets[i], split.sizes[i]
      if not split.sizes[i]:
        writes[i] = self._write_nothing(variable, handle, shape)
      described = variable_pb2.VariableDef(
        variable_name=handle.name,
        initial_value_name=writes[i].inputs[1].name,
        initializer_name=writes[i].name,
        snapshot_name=reads[i].name,
        is_resource=True,
        trainable=variable.trainable,
        synchronization=variable.synchronization.value,
        aggregation=variable.aggregation.value,
        save_slice_info_def=_slice_of(variable, offset, shape),
      )
      shards.append(type(variable).from_proto(described))
    return shards

  def _write_nothing(
    self, variable: Any, handle: tf.Tensor, shape: Sequence[int]
  ) -> tf.Operation:
    """Returns a first write of a shard without rows, alone."""
    with (
      placed_ops.apart_from_caller(f"split/{variable.handle.op.name}"),
      tf.compat.v1.device(handle.device),
    ):
      return tf.raw_ops.AssignVariableOp(
        resource=handle, value=tf.zeros(shape, variable.dtype.base_dtype)
      )

  def _read(self, entries: Iterable[Any]) -> None:
    """Makes reads of shards, for callers that need their values.

    All are added at once: an import looks at the whole graph.

    Args:
      entries: Those of collections, variables among them.
    """
    variables: dict[str, Any] = {}
    for x in entries:
      split = self._split_of(x)
      if split is not None and not isinstance(split, CyclicSplit):
        variables.setdefault(x.handle.name, x)
    if not variables:
      return
    reads = Definitions(next(iter(variables.values())).graph)
    names: dict[str, list[str]] = {}
    for name, variable in variables.items():
      dtype = variable.dtype.base_dtype
      # `assign_sub` returns a variable, too, whose op is the write.
      of_variable = variable.handle.op
      with placed_ops.apart_from_caller(f"split/{of_variable.name}") as scope:
        for handle in self.handles[of_variable]:
          with reads.on(handle.device):
            read = reads.add(
              "ReadVariableOp",
              f"{scope}ReadVariableOp",
              [handle.outputs[0].name],
              dtype=dtype,
            )
          names.setdefault(name, []).append(op_name(read))
    ops = reads.import_into_graph()
    self._reads = {
      name: [ops[read].outputs[0] for read in of_one]
      for name, of_one in names.items()
    }


def write_instead(op: tf.Operation, writes: Sequence[tf.Operation]) -> None:
  """Lets the first write of a variable be that of all of its shards.

  Args:
    op: The write, which a program may run by itself.
    writes: Those of the shards.
  """
  first, *others = writes
  handle, value = first.inputs
  with placed_ops.apart_from_caller("write"), tf.compat.v1.device(first.device):
    part = tf.raw_ops.PlaceholderWithDefault(input=value, shape=None)
  graph_edits.replace_input(op, 0, handle)
  graph_edits.replace_input(op, 1, part)  # Of any shape, as the whole has.
  op.graph.prevent_feeding(part)  # `Variable.load` feeds all shards instead.
  graph_edits.set_control_inputs(op, [*first.control_inputs, *others])
  graph_edits.set_colocation(op, [])
  graph_edits.set_device(op, first.device)


def _handles(
  splits: Mapping[tf.Operation, VariableSplit],
  devices_of: Callable[[tf.Operation], Sequence[str]],
) -> dict[tf.Operation, list[tf.Operation]]:
  """Returns new variables for the shards of others."""
  if not splits:
    return {}
  definitions = Definitions(next(iter(splits)).graph)
  names: dict[tf.Operation, list[str]] = {}
  for variable, split in splits.items():
    node = variable.node_def
    shape = tf.TensorShape(node.attr["shape"].shape).as_list()
    shared_name = node.attr["shared_name"].s.decode() or variable.name
    for part, size in enumerate(split.sizes):
      shape[split.dim] = size
      handle = definitions.copy(
        variable,
        f"{variable.name}/part_{part}",
        [],
        attributes={
          "shape": tf.TensorShape(shape),
          "shared_name": f"{shared_name}/part_{part}",
        },
      )
      names.setdefault(variable, []).append(op_name(handle))
  ops = definitions.import_into_graph()
  return {op: [ops[name] for name in of_one] for op, of_one in names.items()}


def _load(
  name: str,
  shape: tf.TensorShape,
  split: VariableSplit,
  writes: Sequence[tf.Operation],
  value: Any,
  session: tf.compat.v1.Session | None = None,
) -> None:
  """Writes a variable that is split.

  Args:
    name: The variable's name.
    shape: Its shape.
    split: How it is split; by turns, row r is in shard r % N.
    writes: The first write of each shard.
    value: Its new value.
    session: The session; the default one if that is None.

  Raises:
    ValueError: If there is no session, or the value has another shape.
  """
  session = session or tf.compat.v1.get_default_session()
  if session is None:
    raise ValueError(
      f"{name}.load(value) has no session; pass it as the second argument, or "
      "call it in `with session.as_default()`"
    )
  whole = np.asarray(value)
  if not shape.is_compatible_with(whole.shape):
    raise ValueError(
      f"{name}.load(value) got the shape {list(whole.shape)}; pass "
      f"{shape.as_list()}"
    )
  if isinstance(split, CyclicSplit):
    parts = [whole[i :: len(writes)] for i in range(len(writes))]
  else:
    parts = np.split(whole, split.offsets[1:], split.dim)
  values = [write.inputs[1] for write in writes]
  session.run([*writes], dict(zip(values, parts, strict=True)))


def _slice_of(
  variable: Any, offset: Sequence[int], shape: Sequence[int]
) -> variable_pb2.SaveSliceInfoDef:
  """Returns which slice of a variable a checkpoint has of a shard.

  Args:
    variable: The variable; of one that model_fn itself has partitioned, the
      checkpoint has a slice already.
    offset: Where the shard begins in it.
    shape: The shape of the shard.
  """
  described = variable.to_proto()
  info = described.save_slice_info_def
  if not described.HasField("save_slice_info_def"):
    info.full_name = variable.op.name
    info.full_shape.extend(variable.shape.as_list())
    info.var_offset.extend([0] * len(shape))
  return variable_pb2.SaveSliceInfoDef(
    full_name=info.full_name,
    full_shape=info.full_shape,
    var_offset=[
      begin + more for begin, more in zip(info.var_offset, offset, strict=True)
    ],
    var_shape=shape,
  )
