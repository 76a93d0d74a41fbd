"""The splitter: shards of variables, and gradients with respect to them.

A variable that is split keeps its Python object and its handle, which nobody
runs any more: a phantom. Its shards are variables of their own, which a
checkpoint holds as slices of the one under the plain name.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

from compat.private import graph_edits
from estimator_mp.graph import op_types, traversal
from estimator_mp.lower.splitting import outputs, part_ops
from estimator_mp.model_axis.decisions import ByTurns, Split
from estimator_mp.model_axis.rules.table import TABLE
from estimator_mp.model_axis.rules.variables import turns
from estimator_mp.model_axis.split_plan import SplitPlan
from estimator_mp.plan import split_planner

import tensorflow as tf
from tensorflow.core.framework import variable_pb2


@dataclasses.dataclass(frozen=True)
class Sources:
  """With respect to what gradients are asked, shards in place of variables.

  Attributes:
    tensors: What is asked for.
    groups: For each source that model_fn asked for, the numbers of those of
      `tensors` that stand for it.
    splits: How each source is split; None for those that are not.
    wholes: The sources that model_fn asked for.
    lookups: How many of each group are rows that were looked up in a table,
      which come first; its shards follow.
  """

  tensors: list[Any]
  groups: list[list[int]]
  splits: list[Split | None]
  wholes: list[Any]
  lookups: list[int]

  def add(
    self, tensors: Sequence[Any], split: Split | None, num_lookups: int = 0
  ) -> None:
    """Adds what stands for one more source.

    Args:
      tensors: What is asked for.
      split: How the source is split.
      num_lookups: How many of the tensors are rows that were looked up.
    """
    start = len(self.tensors)
    self.tensors.extend(tensors)
    self.groups.append(list(range(start, len(self.tensors))))
    self.splits.append(split)
    self.lookups.append(num_lookups)

  @classmethod
  def of(cls, sources: list[Any]) -> "Sources":
    """Returns sources none of which is split.

    Args:
      sources: What model_fn asks for; it is this list that is asked for.
    """
    count = len(sources)
    groups = [[i] for i in range(count)]
    return cls(sources, groups, [None] * count, sources, [0] * count)


class Unsplit:
  """What stands for a `Splitter` on a mesh that splits no variable."""

  summary: SplitPlan | None = None

  def split(
    self,
    new: Sequence[tf.Operation],
    targets: Collection[tf.Operation] | None = None,
  ) -> Sequence[tf.Operation]:
    """Leaves ops as they are."""
    return ()

  def whole(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor."""
    return tensor

  def expand(self, sources: list[Any]) -> Sources:
    """Returns the sources."""
    return Sources.of(sources)

  def read_wholes(self, gradients: Sequence[tf.Operation]) -> bool:
    """Leaves ops as they are."""
    return False

  def without_lookups(
    self, sources: Sources, gradients: Sequence[Any]
  ) -> tuple[Sources, list[Any]]:
    """Returns both."""
    return sources, list(gradients)

  def contract(self, sources: Sources, gradients: Sequence[Any]) -> list[Any]:
    """Returns the gradients."""
    return list(gradients)

  def split_late(self) -> None:
    """Splits nothing."""

  def finish(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tf.estimator.EstimatorSpec:
    """Returns the spec."""
    return spec


class Splitter:
  """Splits the variables of one graph, and what is computed from them."""

  def __init__(
    self,
    planner: split_planner.SplitPlanner,
    devices_of: Callable[[tf.Operation], Sequence[str]],
    made: Callable[[tf.Operation, tf.Operation], None],
  ):
    """Starts with nothing split.

    Args:
      planner: Decides what is.
      devices_of: Returns the devices of the parts of an op of the model.
      made: Hears of each op that is made, and for which op of the model.
    """
    self._planner = planner
    self._devices_of = devices_of
    self._num_seen = 0  # Ops, when model_fn had returned.
    self._parts = part_ops.PartOps(TABLE, devices_of, made)

  @property
  def summary(self) -> SplitPlan:
    """What is split, and what that sends."""
    return self._planner.summary

  def split(
    self,
    new: Sequence[tf.Operation],
    targets: Collection[tf.Operation] | None = None,
  ) -> list[tf.Operation]:
    """Splits what is to be split of the ops that were made.

    Args:
      new: The ops that were made since the last time, in their order.
      targets: The ops whose gradients are asked for; None if none are.

    Returns:
      The variables that are split from now on, and their shards.

    Raises:
      ValueError: If a rule of the user's does not suit a variable, or something
        would be gathered that must not be.
    """
    found = self._planner.plan(new, targets)
    made = list(found.variables)
    for variable in found.variables:
      split = self._planner.splits[variable.name]
      made += self._make_shards(variable, split)
    self._parts.apply(found.ops, found.inferred)
    return made

  def _make_shards(
    self, variable: tf.Operation, split: Split
  ) -> list[tf.Operation]:
    """Makes the handles of a variable's shards, and returns their ops."""
    dtype = tf.dtypes.as_dtype(variable.get_attr("dtype"))
    shape = tf.TensorShape(variable.get_attr("shape")).as_list()
    shared_name = variable.get_attr("shared_name").decode() or variable.name
    handles = []
    devices = self._devices_of(variable)
    with self._parts.making(variable):
      for i, (size, device) in enumerate(
        zip(split.sizes, devices, strict=True)
      ):
        shape[split.axis] = size
        with tf.compat.v1.name_scope(None), tf.compat.v1.device(device):
          handle = tf.raw_ops.VarHandleOp(
            dtype=dtype,
            shape=shape,
            container=variable.get_attr("container").decode(),
            shared_name=f"{shared_name}/part_{i}",
            name=f"{variable.name}/part_{i}",
          )
        self._parts.colocate(handle.op, variable, i)
        handles.append(handle)
    self._parts.add(variable.outputs[0], split, handles)
    return [handle.op for handle in handles]

  def whole(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns what holds a whole tensor of the model.

    Args:
      tensor: A tensor that model_fn made.
    """
    return self._parts.whole(tensor)

  def expand(self, sources: list[Any]) -> Sources:
    """Returns shards in place of variables, and parts in place of tensors.

    Args:
      sources: With respect to what model_fn asks for gradients.
    """
    found = Sources([], [], [], list(sources), [])
    for source in sources:
      tensor = getattr(source, "handle", source)
      name = getattr(tensor, "name", "")
      parts = self._parts.parts.get(name)
      standing = [source] if parts is None else parts
      if parts is None and name in self._parts.wholes:
        standing = [self._parts.wholes[name]]
      rows = self._parts.tables.sources(name)
      found.add([*rows, *standing], self._parts.splits.get(name), len(rows))
    is_other = [id(x) for x in found.tensors] != [id(x) for x in sources]
    return found if is_other else Sources.of(sources)

  def read_wholes(self, gradients: Sequence[tf.Operation]) -> bool:
    """Lets ops of gradients find what is split, as far as they look for it.

    Args:
      gradients: The ops that a request has made.

    Returns:
      Whether other ops were made for them.

    Raises:
      ValueError: If one works on a variable that is split, but to read it.
    """
    return self._parts.read_wholes(gradients)

  def without_lookups(
    self, sources: Sources, gradients: Sequence[Any]
  ) -> tuple[Sources, list[Any]]:
    """Returns gradients of tables in place of those of what was looked up.

    Args:
      sources: What `expand` returned.
      gradients: One for each of its tensors.

    Returns:
      Sources in which a table that is only looked up is whole, and gradients
      with respect to their tensors.
    """
    found = Sources([], [], [], sources.wholes, [])
    kept: list[Any] = []
    for source, group, split, count in zip(
      sources.wholes,
      sources.groups,
      sources.splits,
      sources.lookups,
      strict=True,
    ):
      tensors = [sources.tensors[i] for i in group[count:]]
      own = [gradients[i] for i in group[count:]]
      rows: Any = None
      if count and split is not None:
        handle = getattr(source, "handle", source)
        tables = self._parts.tables
        with self._parts.making(handle.op):
          rows = tables.gradient(handle, [gradients[i] for i in group[:count]])
          if rows is not None and any(x is not None for x in own):
            devices = self._devices_of(handle.op)
            own = tables.to_shards(rows, split.rows, own, devices)
            rows = None
      if rows is None:
        found.add(tensors, split)
        kept += own
      else:
        found.add([source], split, count)
        kept.append(rows)
    return found, kept

  def contract(self, sources: Sources, gradients: Sequence[Any]) -> list[Any]:
    """Returns the gradients that model_fn gets: concats of those of shards.

    Args:
      sources: What `without_lookups` returned.
      gradients: One for each of its tensors: a tensor, `IndexedSlices` or None.
    """
    found: list[Any] = []
    for source, group, split, count in zip(
      sources.wholes,
      sources.groups,
      sources.splits,
      sources.lookups,
      strict=True,
    ):
      if split is None:
        found.append(gradients[group[0]])
      elif count:
        found.append(gradients[group[0]])
        self._parts.tables.add_gradient(found[-1], split.rows)
      else:
        own = [gradients[i] for i in group]
        found.append(self._joined(source, split, own))
    return found

  def _joined(self, source: Any, split: Split, gradients: Sequence[Any]) -> Any:
    """Returns the gradient of a split source from those of its parts."""
    found = next((x for x in gradients if x is not None), None)
    if found is None:
      return None
    tensor = getattr(source, "handle", source)
    devices = self._devices_of(tensor.op)
    with self._parts.making(tensor.op):
      if isinstance(found, tf.IndexedSlices) and split.axis == 0:
        with tf.compat.v1.device(devices[0]):
          return _joined_rows(source.shape.as_list(), split, gradients)
      values = []
      for part, gradient, device in zip(
        self._parts.parts[tensor.name], gradients, devices, strict=True
      ):
        with tf.compat.v1.device(device):
          own = _zeros(part, found) if gradient is None else gradient
        values.append(getattr(own, "values", own))
      with tf.compat.v1.device(devices[0]):
        if isinstance(split, ByTurns):
          return tf.dynamic_stitch(turns(split), values)
        whole = tf.concat(values, split.axis, name="gradient")
    self._parts.add(whole, split, values)
    self._planner.add(whole, split)
    if not isinstance(found, tf.IndexedSlices):
      return whole
    shape = tf.constant(source.shape.as_list(), tf.int32)
    return tf.IndexedSlices(whole, found.indices, shape)

  def finish(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tf.estimator.EstimatorSpec:
    """Lets the graph's collections have shards in place of variables.

    Args:
      spec: What model_fn returned.

    Returns:
      The spec, with whole tensors in place of those that are split.

    Raises:
      ValueError: If a rule of the user's has met no variable in training; other
        graphs may lack some.
    """
    self._planner.leave_the_rest()
    if spec.mode == tf.estimator.ModeKeys.TRAIN:
      self._planner.check()
    self._replace_in_collections()
    graph = tf.compat.v1.get_default_graph()
    self._num_seen = len(graph.get_operations())
    graph_edits.before_finalization(graph, lambda: self._split_late(graph))
    return outputs.with_wholes(spec, self.whole)

  def _split_late(self, graph: tf.Graph) -> None:
    """Splits what hooks and Savers have made when model_fn had returned."""
    late = graph.get_operations()[self._num_seen :]
    with graph.as_default():
      self.split([op for op in late if not op_types.is_variable(op)])
      for op in graph.get_operations():
        if op.outputs and not op.outputs[0].consumers():
          self._parts.let_be_fetched(op)

  def split_late(self) -> None:
    """Lets what is made after model_fn has returned find shards by turns.

    A slice of a checkpoint holds consecutive rows, so a Saver knows nothing of
    such shards: it reads and writes the table itself, as whoever asks whether
    it is initialized. These ops are split before a session is made.
    """
    by_turns = [
      name
      for name, split in self._parts.splits.items()
      if isinstance(split, ByTurns)
    ]
    if not by_turns:
      return
    graph = tf.compat.v1.get_default_graph()
    count = len(graph.get_operations())

    def split_readers() -> None:
      new = graph.get_operations()[count:]
      readers = {
        reader
        for name in by_turns
        for reader in graph.get_tensor_by_name(name).consumers()
      }
      found = [
        op
        for op in new
        if op in readers or not readers.isdisjoint(traversal.sources(op))
      ]
      with graph.as_default():
        self.split(found)

    graph_edits.before_finalization(graph, split_readers)

  def _replace_in_collections(self) -> None:
    graph = tf.compat.v1.get_default_graph()
    made: dict[str, list[tf.Variable]] = {}
    for name in graph.get_all_collection_keys():
      entries = graph.get_collection_ref(name)
      found: list[Any] = []
      for entry in entries:
        if isinstance(entry, tf.Variable):
          found += self._shards_of(entry, made)
        elif isinstance(entry, tf.Tensor):
          found.append(self._parts.wholes.get(entry.name, entry))
        else:
          found.append(entry)
      entries[:] = found

  def _shards_of(
    self, variable: Any, made: dict[str, list[tf.Variable]]
  ) -> list[tf.Variable]:
    """Returns the shards of a variable, or itself if it is not split."""
    handle = getattr(variable, "handle", None)
    split = self._parts.splits.get(getattr(handle, "name", ""))
    if handle is None or split is None or isinstance(split, ByTurns):
      return [variable]
    if handle.name not in made:
      made[handle.name] = []
      local = tf.compat.v1.GraphKeys.LOCAL_VARIABLES
      for shard, size in zip(
        self._make_variables(variable, split), split.sizes, strict=True
      ):
        if size:
          made[handle.name].append(shard)
        else:  # That is in no checkpoint.
          tf.compat.v1.add_to_collection(local, shard)
    return made[handle.name]

  def _make_variables(self, variable: Any, split: Split) -> list[tf.Variable]:
    """Returns Python's objects for the shards of a variable."""
    handles = self._parts.parts[variable.handle.name]
    first = variable.initializer
    writes = [*self._parts.writes.get(first, [first] * len(handles))]
    reads = self._reads(variable, handles)
    full_shape = variable.shape.as_list()
    shards = []
    for i, handle in enumerate(handles):
      offset = [0] * len(full_shape)
      shape = list(full_shape)
      offset[split.axis], shape[split.axis] = split.offsets[i], split.sizes[i]
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
    with self._parts.making(variable.op), tf.compat.v1.device(handle.device):
      return tf.raw_ops.AssignVariableOp(
        resource=handle, value=tf.zeros(shape, variable.dtype.base_dtype)
      )

  def _reads(
    self, variable: Any, handles: Sequence[tf.Tensor]
  ) -> list[tf.Tensor]:
    """Returns reads of shards, for whoever asks for their values."""
    dtype = variable.dtype.base_dtype
    reads = []
    with self._parts.making(variable.op):
      for handle in handles:
        with tf.compat.v1.device(handle.device):
          reads.append(tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype))
    return reads


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
  own = described.save_slice_info_def
  if not described.HasField("save_slice_info_def"):
    own.full_name = variable.op.name
    own.full_shape.extend(variable.shape.as_list())
    own.var_offset.extend([0] * len(shape))
  return variable_pb2.SaveSliceInfoDef(
    full_name=own.full_name,
    full_shape=own.full_shape,
    var_offset=[
      begin + more for begin, more in zip(own.var_offset, offset, strict=True)
    ],
    var_shape=shape,
  )


def _joined_rows(
  shape: Sequence[int],
  split: Split,
  gradients: Sequence[tf.IndexedSlices | None],
) -> tf.IndexedSlices:
  """Returns the gradient of some rows of parts, which are rows of the whole.

  Args:
    shape: That of the whole.
    split: How its rows are split.
    gradients: Those of parts; None for one that nothing depends on.
  """
  found = [x for x in gradients if x is not None]
  indices = [
    split.rows.whole(gradient.indices, shard)
    for shard, gradient in enumerate(gradients)
    if gradient is not None
  ]
  return tf.IndexedSlices(
    tf.concat([gradient.values for gradient in found], 0, name="gradient"),
    tf.concat(indices, 0),
    tf.constant(shape, tf.int32),
  )


def _zeros(part: tf.Tensor, other: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
  """Returns the gradient of a part that nothing depends on.

  Args:
    part: The part, or the handle of a shard.
    other: The gradient of another part.

  Returns:
    Zeros of the part's shape; where the other has some rows only, as many.
  """
  if part.dtype != tf.resource:
    return tf.zeros_like(part)
  shape = tf.TensorShape(part.op.get_attr("shape")).as_list()
  if isinstance(other, tf.IndexedSlices):
    num_rows = tf.shape(other.indices)
    return tf.zeros(tf.concat([num_rows, shape[1:]], 0), other.dtype)
  return tf.zeros(shape, other.dtype)
