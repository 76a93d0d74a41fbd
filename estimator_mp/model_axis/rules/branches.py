"""Rules for functional conds that choose between values of one shape.

So an ExponentialMovingAverage starts: with the value of the variable if it has
one, otherwise with its initial value. The branches' ops are in their bodies;
where they do more than read and pass on, there is no rule.
"""

from collections.abc import Sequence

from compat.private import graph_reads
from estimator_mp.graph import op_types
from estimator_mp.graph.calls import functions
from estimator_mp.model_axis.decisions import (
  Operand,
  OwnShard,
  PerPart,
  Replicate,
  Shard,
  Shards,
  Table,
)

import tensorflow as tf

TABLE = Table()

# Ops that pass a value of any shape on.
_PASSES = frozenset(["Identity", "NoOp", "ReadVariableOp"])
_SHAPES = "output_shapes"


@TABLE.rule("If", "StatelessIf")
def _if(op: tf.Operation, splits: Shards) -> PerPart | None:
  found = {split for split in splits if split is not None}
  if len(found) != 1 or not all(map(_passes_on, _bodies(op))):
    return None
  (split,) = found
  shape = _shape_of(op, splits)
  if shape is None or any(not _has(x, shape) for x in op.outputs):
    return None
  operands: list[Operand] = []
  for tensor, own in zip(op.inputs, splits, strict=True):
    if tensor.dtype == tf.resource:
      operands.append(split if own is None else OwnShard())
    else:
      operands.append(split if _has(tensor, shape) else Replicate())
  return PerPart(
    tuple(operands),
    tuple(split for _ in op.outputs),
    tuple(_attributes(op, shape, split, size) for size in split.sizes),
  )


def _bodies(op: tf.Operation) -> list[list[tf.compat.v1.NodeDef]]:
  """Returns the ops in each branch."""
  return [
    list(graph_reads.function_definition(op.graph, function.name).node_def)
    for function in functions.functions_of(op.node_def)
  ]


def _passes_on(body: Sequence[tf.compat.v1.NodeDef]) -> bool:
  """Whether a branch only reads and passes on."""
  return all(
    node.op in _PASSES or node.op in op_types.CONSTANTS for node in body
  )


def _shape_of(op: tf.Operation, splits: Shards) -> tf.TensorShape | None:
  """Returns the shape of the variable, or tensor, that is split."""
  for tensor, split in zip(op.inputs, splits, strict=True):
    if split is None:
      continue
    if tensor.dtype != tf.resource:
      return tensor.shape
    if tensor.op.type == "VarHandleOp":
      return tf.TensorShape(tensor.op.get_attr("shape"))
  return None


def _has(tensor: tf.Tensor, shape: tf.TensorShape) -> bool:
  """Whether a tensor is known to be of a shape."""
  return bool(tensor.shape.is_fully_defined() and tensor.shape == shape)


def _attributes(
  op: tf.Operation, shape: tf.TensorShape, split: Shard, size: int
) -> dict[str, tf.compat.v1.AttrValue]:
  """Returns the attributes of a part, whose outputs have another shape."""
  if _SHAPES not in op.node_def.attr:
    return {}
  sizes = shape.as_list()
  sizes[split.axis] = size
  value = tf.compat.v1.AttrValue()
  for _ in op.outputs:
    value.list.shape.add().CopyFrom(tf.TensorShape(sizes).as_proto())
  return {_SHAPES: value}
