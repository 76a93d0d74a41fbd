"""Rules for ops on the handle of a variable that is split.

The handle counts as split, as its variable is. A write has no output: it is
made once for each shard.
"""

from estimator_mp.model_axis.decisions import (
  ByTurns,
  Composite,
  LookUp,
  OnPart,
  Operand,
  Owned,
  OwnShard,
  Partial,
  PartInputs,
  PartOutputs,
  PerPart,
  Reduction,
  Replicate,
  Shard,
  Shards,
  Table,
  Turned,
)
from estimator_mp.model_axis.rules import selections

import tensorflow as tf

TABLE = Table()


@TABLE.rule("ReadVariableOp")
def _read(op: tf.Operation, splits: Shards) -> PerPart | Composite | None:
  (split,) = splits
  if isinstance(split, ByTurns):
    return _read_by_turns(split)
  if split is not None and 0 in split.sizes:
    return _read_where_it_is(split)
  return PerPart((OwnShard(),), (split,)) if split is not None else None


def turns(split: ByTurns) -> list[tf.Tensor]:
  """Returns what rows of a table each shard has.

  Args:
    split: How the table is split.
  """
  num_shards = len(split.sizes)
  return [tf.range(i, split.size, num_shards) for i in range(num_shards)]


def _read_by_turns(split: ByTurns) -> Composite:
  """The whole table: the rows of all shards, each where it belongs."""

  def build(
    op: tf.Operation, inputs: PartInputs, on_part: OnPart
  ) -> PartOutputs:
    dtype = op.outputs[0].dtype
    parts = []
    for part, (handle,) in enumerate(inputs):
      with on_part(part):
        parts.append(tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype))
    with on_part(0):
      whole = tf.dynamic_stitch(turns(split), parts)
    whole.set_shape(op.outputs[0].shape)
    return [whole]

  return Composite((OwnShard(),), (Replicate(),), build)


def _read_where_it_is(split: Shard) -> Composite:
  """A table that one device has: others are not to work on nothing."""
  owner = split.sizes.index(split.size)

  def build(
    op: tf.Operation, inputs: PartInputs, on_part: OnPart
  ) -> PartOutputs:
    dtype = op.outputs[0].dtype
    (handle,) = inputs[owner]
    with on_part(owner):
      return [tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)]

  return Composite((OwnShard(),), (Replicate(),), build)


@TABLE.rule("VarIsInitializedOp")
def _is_initialized(op: tf.Operation, splits: Shards) -> PerPart:
  return PerPart((OwnShard(),), (Partial(Reduction.ALL),))


@TABLE.rule("VariableShape")
def _shape(op: tf.Operation, splits: Shards) -> Composite | None:
  (split,) = splits
  if split is None:
    return None
  axis, size = split.axis, split.size

  def build(
    op: tf.Operation, inputs: PartInputs, on_part: OnPart
  ) -> PartOutputs:
    with on_part(0):
      dtype = op.outputs[0].dtype
      shape = tf.raw_ops.VariableShape(input=inputs[0][0], out_type=dtype)
      elements = tf.unstack(shape, op.outputs[0].shape[0])
      elements[axis] = tf.constant(size, dtype)
      return [tf.stack(elements)]

  return Composite((OwnShard(),), (Replicate(),), build)


@TABLE.rule("ResourceGather")
def _gather(op: tf.Operation, splits: Shards) -> PerPart | LookUp | None:
  """Columns of rows; rows themselves are exchanged.

  Of a variable that is whole, parts look up what they have indices of.
  """
  handle, indices = splits
  rank, batch_dims = op.inputs[1].shape.rank, op.get_attr("batch_dims")
  if handle is None and indices is not None:
    if batch_dims < 0 or indices.axis < batch_dims:
      return None
    return PerPart((Replicate(), indices), (indices,))
  if handle is None or batch_dims:
    return None
  if not handle.axis:
    return LookUp(handle.rows)
  if indices is not None or rank is None:
    return None
  output = handle.at(handle.axis - 1 + rank)
  return PerPart((OwnShard(), Replicate()), (output,))


@TABLE.rule("ResourceGatherNd")
def _gather_nd(op: tf.Operation, splits: Shards) -> PerPart | None:
  handle, indices = splits
  if handle is not None or indices is None:
    return None
  return selections.of_vectors(op.inputs[1], indices)


@TABLE.rule(
  "AssignVariableOp",
  "AssignAddVariableOp",
  "AssignSubVariableOp",
  "DisableCopyOnRead",
  "ResourceApplyAdaMax",
  "ResourceApplyAdadelta",
  "ResourceApplyAdagrad",
  "ResourceApplyAdagradDA",
  "ResourceApplyAdagradV2",
  "ResourceApplyAdam",
  "ResourceApplyAdamWithAmsgrad",
  "ResourceApplyAddSign",
  "ResourceApplyCenteredRMSProp",
  "ResourceApplyFtrl",
  "ResourceApplyFtrlV2",
  "ResourceApplyGradientDescent",
  "ResourceApplyKerasMomentum",
  "ResourceApplyMomentum",
  "ResourceApplyPowerSign",
  "ResourceApplyProximalAdagrad",
  "ResourceApplyProximalGradientDescent",
  "ResourceApplyRMSProp",
)
def _write(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Entry by entry: a variable, its slots, and a value of the same shape."""
  split = splits[0]
  if split is None:
    return None
  operands: list[Operand] = []
  for tensor, own in zip(op.inputs, splits, strict=True):
    if tensor.dtype == tf.resource:
      if own is not None and own != split:
        return None
      operands.append(split if own is None else OwnShard())
    elif tensor.shape.rank == 0:
      operands.append(Replicate())
    elif isinstance(split, ByTurns):
      operands.append(Turned(split))
    else:
      operands.append(split)
  return PerPart(tuple(operands), ())


@TABLE.rule(
  "ResourceScatterAdd",
  "ResourceScatterDiv",
  "ResourceScatterMax",
  "ResourceScatterMin",
  "ResourceScatterMul",
  "ResourceScatterSub",
  "ResourceScatterUpdate",
  "ResourceSparseApplyAdadelta",
  "ResourceSparseApplyAdagrad",
  "ResourceSparseApplyAdagradV2",
  "ResourceSparseApplyCenteredRMSProp",
  "ResourceSparseApplyFtrl",
  "ResourceSparseApplyFtrlV2",
  "ResourceSparseApplyKerasMomentum",
  "ResourceSparseApplyMomentum",
  "ResourceSparseApplyProximalAdagrad",
  "ResourceSparseApplyProximalGradientDescent",
  "ResourceSparseApplyRMSProp",
)
def _write_rows(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Columns of some rows, or those rows that a shard has."""
  split = splits[0]
  if split is None:
    return None
  operands: list[Operand] = []
  names = [argument.name for argument in op.op_def.input_arg]
  indices = names.index("indices")
  rank_of_rows = op.inputs[indices].shape.rank
  for name, tensor, own in zip(names, op.inputs, splits, strict=True):
    if tensor.dtype == tf.resource:
      if own is not None and own != split:
        return None
      operands.append(split if own is None else OwnShard())
    elif tensor.shape.rank == 0 and name != "indices":
      operands.append(Replicate())
    elif not split.axis:
      operands.append(Owned(split.rows, indices))
    elif name == "indices":
      operands.append(Replicate())
    elif rank_of_rows is None:
      return None
    else:
      operands.append(split.at(split.axis - 1 + rank_of_rows))
  return PerPart(tuple(operands), ())
