"""Inlining: the ops of functions in the place of their calls.

In a finished graph nobody asks for the gradient of a call any more: it is there
as another call. So what a function does is as well done by ops of the graph,
each of which then has a rule, and a place, of its own.
"""

from collections.abc import Iterable, Mapping, Sequence

from compat.private import graph_edits, graph_reads
from estimator_mp.graph import op_types
from estimator_mp.graph.calls import functions
from estimator_mp.graph.definitions import Definitions

import tensorflow as tf

# They have a state, but nothing depends on whether they are run.
_FREE_TO_SKIP = op_types.RANDOM | frozenset(
  ["LookupTableFindV2", "ReadVariableOp", "ResourceGather", "VarHandleOp"]
)


def inline(calls: Iterable[tf.Operation]) -> dict[str, tf.Tensor]:
  """Inlines calls of functions, and what those call.

  Args:
    calls: Ops of a graph.

  Returns:
    What stands for the outputs of calls, by their names. All ops of the graph
    read it, and wait for it, already.
  """
  todo = list(calls)
  if not todo:
    return {}
  graph = todo[0].graph
  found: dict[str, tf.Tensor] = {}
  ends: dict[tf.Operation, list[tf.Operation]] = {}
  while todo:
    call = todo.pop()
    made = _inline(call)
    if made is None:
      continue
    outputs, ends[call], ops = made
    found |= dict(zip((x.name for x in call.outputs), outputs, strict=True))
    todo += [op for op in ops if op.type in op_types.FUNCTION_CALLS]
  for op in graph.get_operations():
    waits = op.control_inputs
    if any(x in ends for x in waits):
      graph_edits.set_control_inputs(op, _without_calls(waits, ends))
  return {name: _last(tensor, found) for name, tensor in found.items()}


def _without_calls(
  ops: Iterable[tf.Operation],
  ends: Mapping[tf.Operation, Sequence[tf.Operation]],
) -> list[tf.Operation]:
  """Returns ops, with those that stand for a call in place of it."""
  found: dict[tf.Operation, None] = {}
  for op in ops:
    others = _without_calls(ends[op], ends) if op in ends else [op]
    found.update(dict.fromkeys(others))
  return list(found)


def _last(tensor: tf.Tensor, found: Mapping[str, tf.Tensor]) -> tf.Tensor:
  """Returns a tensor, or what stands for it: it may be that of a call."""
  while tensor.name in found:
    tensor = found[tensor.name]
  return tensor


def _inline(
  call: tf.Operation,
) -> tuple[list[tf.Tensor], list[tf.Operation], list[tf.Operation]] | None:
  """Inlines a call.

  Returns:
    Its outputs, the ops that are done last, and all of its ops; None for a
    function that the graph does not have.
  """
  graph = call.graph
  (function,) = functions.functions_of(call.node_def)
  shapes = [tensor.shape for tensor in call.inputs]
  body = graph_reads.sized_function(
    graph, function.name, shapes, [None] * len(shapes)
  )
  if body is None:
    return None
  definitions = Definitions(graph)
  tensors = {
    argument.name: tensor.name
    for argument, tensor in zip(body.inputs, call.inputs, strict=True)
  }
  arguments = {argument.op for argument in body.inputs}
  names: dict[tf.Operation, str] = {}
  effects: list[str] = []
  for op in body.graph.get_operations():
    if op in arguments:
      continue
    has_effect = op.op_def.is_stateful and op.type not in _FREE_TO_SKIP
    waits = [names[x] for x in op.control_inputs if x in names]
    if has_effect or not op.inputs:
      waits += [x.name for x in call.control_inputs]
    names[op] = definitions.copy(
      op, f"{call.name}/{op.name}", [tensors[x.name] for x in op.inputs], waits
    ).rpartition(":")[0]
    for index, tensor in enumerate(op.outputs):
      tensors[tensor.name] = f"{names[op]}:{index}"
    if has_effect:
      effects.append(names[op])
  results = [tensors[tensor.name] for tensor in body.outputs]
  if effects:
    results = [
      definitions.add(
        "Identity", f"{call.name}/result", [name], effects, T=tensor.dtype
      )
      for name, tensor in zip(results, body.outputs, strict=True)
    ]
  made = definitions.import_into_graph()

  def tensor_of(name: str) -> tf.Tensor:
    op, _, index = name.rpartition(":")
    return (made.get(op) or graph.get_operation_by_name(op)).outputs[int(index)]

  outputs = [tensor_of(name) for name in results]
  ends = [made[name] for name in effects] or [x.op for x in outputs]
  for old, new in zip(call.outputs, outputs, strict=True):
    for reader in dict.fromkeys(old.consumers()):
      for index, tensor in enumerate(reader.inputs):
        if tensor is old:
          graph_edits.replace_input(reader, index, new)
  return outputs, ends, list(made.values())
