"""Copies: ops without a rule work on whole copies of split variables."""

from collections.abc import Sequence

from compat.private import graph_edits
from estimator_mp.graph import op_types
from estimator_mp.lower.splitting import operands as operands_lib
from estimator_mp.lower.splitting import part_maker
from estimator_mp.model_axis.decisions import (
  ByTurns,
  OnCopies,
  OwnShard,
  Shard,
)
from estimator_mp.model_axis.rules import variables

import tensorflow as tf


def work_on_copies(
  op: tf.Operation,
  decision: OnCopies,
  tensors: operands_lib.Operands,
  device: str,
) -> tuple[list[tf.Tensor], tf.Operation]:
  """Makes an op once more, on copies of variables, and writes their shards.

  The copies have the values that the variables have when the op would be
  executed: after all that it reads and waits for.

  Args:
    op: An op of the model that works on variables that are split.
    decision: Which of its inputs are their handles.
    tensors: The split tensors, and their parts.
    device: Where the op is executed.

  Returns:
    The tensors that stand for the op's outputs, and an op that waits for all
    writes.
  """
  waits = tensors.maker.waits(op)
  is_split = [operand == OwnShard() for operand in decision.operands]
  inputs = [
    x if own else tensors.whole(x)
    for x, own in zip(op.inputs, is_split, strict=True)
  ]
  before = _waiting_for(inputs, device)
  copies: dict[str, tf.Tensor] = {}
  with tf.control_dependencies([*waits, *before]):
    for tensor, own in zip(op.inputs, is_split, strict=True):
      if own and tensor.name not in copies:
        copies[tensor.name] = _copy(tensor, tensors)
  node = op.node_def
  node.attr.pop("_class", None)
  node.name, node.device = "on_copies", ""
  read = [copies.get(x.name, x) for x in inputs]
  once = graph_edits.make_op(op.graph, node, read, waits)
  # Functions may name ops beside which theirs are: both have one place.
  for either in (op, once):
    graph_edits.set_device(either, device)
  after = _waiting_for(once.outputs, device)
  with tf.control_dependencies([once, *after]):
    writes = [
      write
      for name, copy in copies.items()
      for write in _write_shards(name, copy, tensors)
    ]
  with tf.control_dependencies(writes), part_maker.on(device):
    outputs = [
      x if op_types.is_handle(x) else tf.identity(x) for x in once.outputs
    ]
    return outputs, tf.no_op()


def _waiting_for(
  tensors: Sequence[tf.Tensor], device: str
) -> list[tf.Operation]:
  """Returns ops that wait for tensors.

  An output of a cond may be there later than the cond itself has ended.
  """
  with part_maker.on(device):
    return [tf.identity(x).op for x in tensors if not op_types.is_handle(x)]


def _copy(handle: tf.Tensor, tensors: operands_lib.Operands) -> tf.Tensor:
  """Returns the handle of a variable that has the value of a split one.

  It is where the whole variable would be, as functions of the op may say.
  """
  dtype = tf.DType(handle.op.get_attr("dtype"))
  split = tensors.splits[handle.name]
  values = []
  for shard in tensors.parts[handle.name]:
    with part_maker.on(shard.device):
      values.append(tf.raw_ops.ReadVariableOp(resource=shard, dtype=dtype))
  with part_maker.on(tensors.maker.devices_of(handle.op)[0]):
    copy = tf.raw_ops.VarHandleOp(
      dtype=dtype,
      shape=handle.op.get_attr("shape"),
      shared_name=handle.graph.unique_name("copy"),
    )
    write = tf.raw_ops.AssignVariableOp(
      resource=copy, value=_joined(values, split)
    )
    with tf.control_dependencies([write]):
      return tf.raw_ops.Identity(input=copy)


def _write_shards(
  name: str, copy: tf.Tensor, tensors: operands_lib.Operands
) -> list[tf.Operation]:
  """Returns writes of all shards of a variable, from its copy."""
  shards, split = tensors.parts[name], tensors.splits[name]
  dtype = tf.DType(tensors.parts[name][0].op.get_attr("dtype"))
  with part_maker.on(copy.device):
    whole = tf.raw_ops.ReadVariableOp(resource=copy, dtype=dtype)
    parts = _parts(whole, split)
  writes = []
  for shard, part in zip(shards, parts, strict=True):
    with part_maker.on(shard.device):
      writes.append(tf.raw_ops.AssignVariableOp(resource=shard, value=part))
  return writes


def _joined(parts: Sequence[tf.Tensor], split: Shard) -> tf.Tensor:
  if isinstance(split, ByTurns):
    return tf.dynamic_stitch(variables.turns(split), parts)
  return tf.concat(parts, split.axis)


def _parts(whole: tf.Tensor, split: Shard) -> list[tf.Tensor]:
  if isinstance(split, ByTurns):
    count = len(split.sizes)
    return [whole[part::count] for part in range(count)]
  parts: list[tf.Tensor] = tf.split(whole, split.sizes, split.axis)
  return parts
