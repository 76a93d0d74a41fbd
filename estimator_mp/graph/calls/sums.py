"""Sums of lists of tensors, one call for each list that is added."""

from collections.abc import Sequence

from compat.private import graph_edits
from estimator_mp.graph.calls import contraction

import tensorflow as tf


def add_up(
  lists: Sequence[Sequence[tf.Tensor]], device: str
) -> tuple[list[tf.Tensor], list[tf.Operation]]:
  """Returns the sums of the first, second, ... tensors of lists.

  Lists are added one after the other.

  Args:
    lists: At least two, all as long, with the same dtypes.
    device: The device that adds.

  Returns:
    The sums, and the call that adds each list but the first.
  """
  first, *others = lists
  call = _call_that_adds(first, device)
  definition = tf.compat.v1.GraphDef()
  definition.versions.CopyFrom(
    tf.compat.v1.get_default_graph().graph_def_versions
  )
  function = call.on(lambda x: x)
  outside = {x.name: x for x in first}
  before = [x.name for x in first]
  for number, added in enumerate(others, 1):
    outside |= {x.name: x for x in added}
    node = definition.node.add()
    node.CopyFrom(call.node)
    node.name = f"sum_{number}"
    node.attr["f"].func.name = function.signature.name
    node.input.extend([*before, *(x.name for x in added)])
    before = [f"{node.name}:{index}" for index in range(len(first))]
  library = tf.compat.v1.GraphDef().library
  library.function.append(function)
  contraction.define(library)
  with (
    tf.compat.v1.name_scope(None),
    tf.compat.v1.device(None),
    tf.control_dependencies(None),
  ):
    made = graph_edits.import_ops(definition, outside, "aggregate/sums")
  calls = [made[node.name] for node in definition.node]
  return list(calls[-1].outputs), calls


def _call_that_adds(
  tensors: Sequence[tf.Tensor], device: str
) -> contraction.Call:
  """Returns a call, without inputs, that adds a list of tensors to another.

  No ops are made for it: there are many calls of one step that add.

  Args:
    tensors: Such as are added.
    device: The device that adds.
  """
  function = tf.compat.v1.GraphDef().library.function.add()
  count = len(tensors)
  types = [x.dtype.as_datatype_enum for x in tensors]
  for index, tensor in enumerate([*tensors, *tensors]):
    argument = function.signature.input_arg.add(name=f"argument_{index}")
    argument.type = tensor.dtype.as_datatype_enum
    shapes = function.arg_attr[index].attr["_output_shapes"].list
    shapes.shape.append(tensor.shape.as_proto())
  for index, of_total in enumerate(types):
    node = function.node_def.add(name=f"add_{index}", op="AddV2")
    node.device = device
    node.input.extend([f"argument_{index}", f"argument_{count + index}"])
    node.attr["T"].type = of_total
    output = function.signature.output_arg.add(name=f"result_{index}")
    output.type = of_total
    function.ret[output.name] = f"add_{index}:z:0"
  function.attr["_noinline"].b = True
  node = tf.compat.v1.NodeDef(name="sum", op=contraction.CALL, device=device)
  node.attr["Tin"].list.type.extend([*types, *types])
  node.attr["Tout"].list.type.extend(types)
  shapes = node.attr["_output_shapes"].list
  shapes.shape.extend(tensor.shape.as_proto() for tensor in tensors)
  return contraction.Call(node, [x.name for x in tensors], function)
