"""Unfolded values: initial values that a session computes, and does not keep.

TensorFlow's graph optimizer folds ops of constants alone into their result,
if that has no more than 10 MiB: an optimizer's zeros, and draws with a
fixed seed. A session keeps the graph that initializes variables, and in it each
such result twice, in the graph and in the kernel of the constant. Adam's state
was three copies of the weights, and took six.

The optimizer does not fold readers of a stateful op, and `GuaranteeConst`, an
identity, is one. A session that XLA compiles is left alone: it would draw other
numbers for the same seed.
"""

from collections.abc import Collection, Iterable

from compat.private import graph_edits, graph_reads, op_registry
from estimator_mp import devices
from estimator_mp.graph import op_types, placed_ops, shapes, traversal
from estimator_mp.graph import variables as variables_lib

import tensorflow as tf


def compute_in_session() -> None:
  """Lets the default graph's initial values be computed by the session."""
  writes = variables_lib.initial_writes()
  ops = [*traversal.walk(writes, traversal.inputs)]
  for op in _first_large(ops):
    _read_stateful(op)


def _first_large(ops: Collection[tf.Operation]) -> list[tf.Operation]:
  """Returns where constants become more than they are, the same each time.

  Args:
    ops: Ops, and all that they read.
  """
  large = []
  constant: set[tf.Operation] = set()
  for op in traversal.in_order(ops, traversal.inputs):
    if op_registry.definition_of(
      op
    ).is_stateful or graph_reads.is_in_control_flow(op):
      continue
    if op.type in op_types.CONSTANTS:
      constant.add(op)
    elif op.inputs and constant.issuperset(traversal.inputs(op)):
      if _num_bytes(op.outputs) > _num_bytes(op.inputs):
        large.append(op)
      else:
        constant.add(op)
  return large


def _num_bytes(tensors: Iterable[tf.Tensor]) -> int:
  return sum(map(shapes.tensor_bytes, tensors))


def _read_stateful(op: tf.Operation) -> None:
  """Lets an op read one of its inputs through a stateful op.

  It is not the one that shapes depend on, where there is another one: a value
  to fill or broadcast has a lower rank than the shape.
  """
  ranks = [x.shape.rank or 0 for x in op.inputs]
  index = ranks.index(min(ranks))
  with (
    placed_ops.apart_from_caller("initial_value"),
    tf.compat.v1.device(_beside(op)),
  ):
    constant = tf.raw_ops.GuaranteeConst(input=op.inputs[index])
  graph_edits.replace_input(op, index, constant)


def _beside(op: tf.Operation) -> str:
  """Returns where the constant of an op is: beside it, on a CPU."""
  spec = tf.compat.v1.DeviceSpec.from_string(op.device)
  if spec.device_type == "CPU":
    return str(op.device)
  return devices.host_of(op.device)
