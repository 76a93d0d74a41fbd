"""Ops once more, in a graph of their own, where TensorFlow infers other shapes.

A size that a graph leaves open, as that of the batch, is a number there: that
of what stands in for tensors from outside.
"""

from collections.abc import Callable, Sequence

from compat.private import op_registry
from estimator_mp.graph.calls import functions

import tensorflow as tf

# The attributes of an op's place, and of its shapes when it was made.
_ANNOTATIONS = ("_class", "_output_shapes")


def copy_of(
  ops: Sequence[tf.Operation],
  stand_in: Callable[[tf.Tensor], tf.Tensor],
  is_outside: Callable[[tf.Tensor], bool] = lambda tensor: False,
) -> tf.Graph:
  """Returns a graph of the same ops, by the same names, on no device.

  Args:
    ops: Ops of one graph.
    stand_in: Makes what is read instead of a tensor of another op.
    is_outside: Whether that is to be read instead of one of these ops, too.

  Raises:
    ValueError: If an op cannot have what it reads; the text names it.
  """
  inside = {op.name for op in ops}
  definition = tf.compat.v1.GraphDef()
  source = ops[0].graph if ops else tf.Graph()
  definition.versions.CopyFrom(source.graph_def_versions)
  if any(map(_calls_function, ops)):
    definition.library.CopyFrom(source.as_graph_def().library)
  outside: dict[str, tf.Tensor] = {}
  for op in ops:
    node = definition.node.add()
    node.CopyFrom(op.node_def)
    node.device = ""
    kept = [x for x in node.input if x[0] != "^"]
    del node.input[:]
    node.input.extend(kept)
    for attribute in (*_ANNOTATIONS, *_optional_shapes(op)):
      node.attr.pop(attribute, None)
    for tensor in op.inputs:
      if tensor.op.name not in inside or is_outside(tensor):
        outside[tensor.name] = tensor
  with tf.Graph().as_default() as graph:
    stand_ins = {name: stand_in(x) for name, x in outside.items()}
    tf.graph_util.import_graph_def(definition, stand_ins, name="")
  return graph


def _optional_shapes(op: tf.Operation) -> list[str]:
  """Returns the attributes that say shapes again; datasets need theirs."""
  return [
    attribute.name
    for attribute in op_registry.definition_of(op).attr
    if attribute.name == "output_shapes" and attribute.HasField("default_value")
  ]


def _calls_function(op: tf.Operation) -> bool:
  """Whether an op calls a function of the graph's library."""
  is_function = not hasattr(tf.raw_ops, op.type)  # As those of v1 are.
  return is_function or bool(functions.functions_of(op.node_def))
