"""Inlining: the ops of functions in the place of their calls.

In a finished graph nobody asks for the gradient of a call any more: it is there
as another call. So ops of the graph can do the work of a function, each with a
rule, and a place, of its own. Branches and loops are inlined as a session of
TensorFlow would do it before it runs them:

    If       Switch -> the ops of both branches -> Merge
    While    Enter -> Merge -> Switch -> the ops of a round -> NextIteration
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from compat.private import graph_edits, graph_reads, op_registry
from estimator_mp.graph import op_types
from estimator_mp.graph.calls import functions
from estimator_mp.graph.definitions import Definitions, op_name

import tensorflow as tf

# They have a state, but nothing depends on whether they are run.
_FREE_TO_SKIP = op_types.RANDOM | frozenset(
  ["LookupTableFindV2", "ReadVariableOp", "ResourceGather", "VarHandleOp"]
)


@dataclasses.dataclass(frozen=True)
class _Inlined:
  """The stand-in for an op, by the names of tensors and ops.

  Attributes:
    outputs: Its outputs.
    ends: The ops that are done last.
    is_loop: Whether all of it is in a loop.
  """

  outputs: Sequence[str]
  ends: Sequence[str]
  is_loop: bool = False


def inline(
  calls: Iterable[tf.Operation], types: Collection[str]
) -> dict[str, tf.Tensor]:
  """Inlines calls of functions, branches and loops, and calls in those.

  Args:
    calls: Ops of a graph.
    types: Their types, of `INLINED`: calls in them are inlined if of one.

  Returns:
    The stand-ins for the outputs of calls, by their names. All ops of the graph
    read them, and wait for them, already.
  """
  todo = list(calls)
  if not todo:
    return {}
  graph = todo[0].graph
  stand_ins: dict[str, tf.Tensor] = {}
  ends: dict[tf.Operation, list[tf.Operation]] = {}
  while todo:
    call = todo.pop()
    definitions = Definitions(graph)
    inlined = _INLINE[call.type](call, definitions)
    if inlined is None:
      continue
    ops = definitions.import_into_graph()
    outputs = [_tensor(name, ops, graph) for name in inlined.outputs]
    ends[call] = [_op(name, ops, graph) for name in inlined.ends]
    graph_edits.adopt_origin(ops.values(), call, inlined.is_loop)
    _replace(call, outputs)
    stand_ins |= dict(zip((x.name for x in call.outputs), outputs, strict=True))
    todo += [op for op in ops.values() if op.type in types]
  for op in graph.get_operations():
    waits = op.control_inputs
    if any(x in ends for x in waits):
      graph_edits.set_control_inputs(op, _without_calls(waits, ends))
    if op.type == "Switch":
      _read_own_branch(op)
  return {name: _last(tensor, stand_ins) for name, tensor in stand_ins.items()}


def _read_own_branch(switch: tf.Operation) -> None:
  """Lets a branch read tensors of the same branch without a detour.

  The branches of a gradient read tensors that those of the forward pass have
  kept for them. TensorFlow merges these of both branches, to switch them again.

  Args:
    switch: A `Switch`.
  """
  data, test = switch.inputs
  merge = data.op
  if merge.type != "Merge" or len(merge.inputs) != 2 or data.value_index:
    return
  sides = [_side(tensor, test) for tensor in merge.inputs]
  if sides == [0, 1]:
    _replace(switch, list(merge.inputs))


def _side(tensor: tf.Tensor, test: tf.Tensor) -> int | None:
  """Returns in which branch of a test a tensor is made: 0 if it is false.

  Args:
    tensor: The tensor.
    test: The test.

  Returns:
    None if that cannot be seen.
  """
  op = tensor.op
  while op.type != "Switch":
    before = [
      *op.inputs,
      *(x.outputs[0] for x in op.control_inputs if x.outputs),
    ]
    if not before:
      return None
    tensor = before[0]
    op = tensor.op
  return int(tensor.value_index) if op.inputs[1] is test else None


def _op(
  name: str, ops: Mapping[str, tf.Operation], graph: tf.Graph
) -> tf.Operation:
  return ops.get(name) or graph.get_operation_by_name(name)


def _tensor(
  name: str, ops: Mapping[str, tf.Operation], graph: tf.Graph
) -> tf.Tensor:
  op, _, index = name.rpartition(":")
  return _op(op, ops, graph).outputs[int(index)]


def _replace(call: tf.Operation, outputs: Sequence[tf.Tensor]) -> None:
  """Lets all ops read other tensors in place of the outputs of a call."""
  for old, new in zip(call.outputs, outputs, strict=True):
    for reader in dict.fromkeys(old.consumers()):
      for index, tensor in enumerate(reader.inputs):
        if tensor is old:
          graph_edits.replace_input(reader, index, new)


def _without_calls(
  ops: Iterable[tf.Operation],
  ends: Mapping[tf.Operation, Sequence[tf.Operation]],
) -> list[tf.Operation]:
  """Returns ops, with those that stand for a call in place of it."""
  waits: dict[tf.Operation, None] = {}
  for op in ops:
    others = _without_calls(ends[op], ends) if op in ends else [op]
    waits.update(dict.fromkeys(others))
  return list(waits)


def _last(tensor: tf.Tensor, stand_ins: Mapping[str, tf.Tensor]) -> tf.Tensor:
  """Returns a tensor, or its stand-in if it is an output of a call."""
  while tensor.name in stand_ins:
    tensor = stand_ins[tensor.name]
  return tensor


def _call(call: tf.Operation, definitions: Definitions) -> _Inlined | None:
  """Inlines a call; None for a function that the graph does not have."""
  (body,) = _bodies(call, call.inputs)
  if body is None:
    return None
  waits = [x.name for x in call.control_inputs]
  results, effects = _copy(
    body, definitions, [x.name for x in call.inputs], call.name, waits
  )
  return _Inlined(results, effects or [op_name(x) for x in results])


def _branches(op: tf.Operation, definitions: Definitions) -> _Inlined | None:
  """Inlines both branches of an `If`."""
  test, *arguments = op.inputs
  bodies = _bodies(op, arguments)  # That of a false test first.
  if test.dtype != tf.bool or None in bodies:
    return None
  waits = [x.name for x in op.control_inputs]

  def switch(tensor: tf.Tensor) -> tuple[str, str]:
    name = definitions.add(
      "Switch",
      f"{op.name}/switch",
      [tensor.name, test.name],
      waits,
      T=tensor.dtype,
    )
    return name, _second(name)

  taken = [
    op_name(definitions.add("Identity", f"{op.name}/branch", [name], T=tf.bool))
    for name in switch(test)
  ]
  read = [switch(tensor) for tensor in arguments]
  results: list[list[str]] = []
  ends: list[str] = []
  for number, (body, pivot) in enumerate(zip(bodies, taken, strict=True)):
    assert body is not None
    name = f"{op.name}/branch_{number}"  # Functions have other names each time.
    of_branch, effects = _copy(
      body, definitions, [x[number] for x in read], name, [pivot]
    )
    results.append(of_branch)
    ends.append(
      definitions.add(
        "Identity", f"{name}/done", [f"{pivot}:0"], effects, T=tf.bool
      )
    )
  outputs = [
    definitions.add(
      "Merge", f"{op.name}/merge", list(pair), N=2, T=tensor.dtype
    )
    for pair, tensor in zip(zip(*results, strict=True), op.outputs, strict=True)
  ]
  end = definitions.add("Merge", f"{op.name}/done", ends, N=2, T=tf.bool)
  return _Inlined(outputs, [op_name(x) for x in (end, *outputs)])


def _loop(op: tf.Operation, definitions: Definitions) -> _Inlined | None:
  """Inlines a `While`; None if it has no state, and so no end."""
  body, test = _bodies(op, op.outputs)
  if body is None or test is None or test.outputs[0].dtype != tf.bool:
    return None
  fixed = [
    before is after
    for before, after in zip(body.inputs, body.outputs, strict=True)
  ]
  if all(fixed):
    return None
  waits = [x.name for x in op.control_inputs]
  first: list[str] = []
  for tensor, output, same in zip(op.inputs, op.outputs, fixed, strict=True):
    name = tensor.name
    if not (same or _has_shape(tensor, output)):
      name = definitions.add(  # Its size may change.
        "PlaceholderWithDefault",
        f"{op.name}/any",
        [name],
        dtype=tensor.dtype,
        shape=output.shape,
      )
    name = definitions.add(
      "Enter",
      f"{op.name}/enter",
      [name],
      waits,
      T=tensor.dtype,
      frame_name=op.name,
      is_constant=same,
      parallel_iterations=op.get_attr("parallel_iterations"),
    )
    if not same:
      name = definitions.add(
        "Merge", f"{op.name}/merge", [name, name], N=2, T=tensor.dtype
      )
    first.append(name)
  begin = op_name(first[fixed.index(False)])
  (again,), _ = _copy(
    test, definitions, first, f"{op.name}/cond", [begin], fixed
  )
  again = definitions.add("LoopCond", f"{op.name}/again", [again])
  outputs = [tensor.name for tensor in op.inputs]
  inside = list(first)
  for k, tensor in enumerate(op.outputs):
    if not fixed[k]:
      switch = definitions.add(
        "Switch", f"{op.name}/switch", [first[k], again], T=tensor.dtype
      )
      outputs[k] = definitions.add(
        "Exit", f"{op.name}/exit", [switch], T=tensor.dtype
      )
      inside[k] = definitions.add(
        "Identity", f"{op.name}/round", [_second(switch)], T=tensor.dtype
      )
  pivot = op_name(inside[fixed.index(False)])
  results, _ = _copy(
    body, definitions, inside, f"{op.name}/body", [pivot], fixed
  )
  for k, tensor in enumerate(op.outputs):
    if not fixed[k]:
      result = definitions.add(
        "NextIteration", f"{op.name}/next", [results[k]], T=tensor.dtype
      )
      definitions.loop_back(first[k], 1, result)
  ends = [
    op_name(x) for x, same in zip(outputs, fixed, strict=True) if not same
  ]
  return _Inlined(outputs, ends, is_loop=True)


def _has_shape(tensor: tf.Tensor, output: tf.Tensor) -> bool:
  """Whether a loop begins with the shape that it goes on with."""
  return tensor.dtype == tf.variant or bool(tensor.shape == output.shape)


_INLINE: Mapping[
  str, Callable[[tf.Operation, Definitions], _Inlined | None]
] = {
  "If": _branches,
  "PartitionedCall": _call,
  "StatefulPartitionedCall": _call,
  "StatelessIf": _branches,
  "StatelessWhile": _loop,
  "While": _loop,
}
INLINED = frozenset(_INLINE)


def _bodies(
  op: tf.Operation, arguments: Sequence[tf.Tensor]
) -> list[graph_reads.Body | None]:
  """Returns the functions of an op, with arguments of some shapes."""
  shapes = [tensor.shape for tensor in arguments]
  return [
    graph_reads.sized_function(
      op.graph, function.name, shapes, [None] * len(shapes)
    )
    for function in functions.functions_of(op.node_def)
  ]


def _copy(
  body: graph_reads.Body,
  definitions: Definitions,
  arguments: Sequence[str],
  scope: str,
  waits: Sequence[str],
  fixed: Sequence[bool] = (),
) -> tuple[list[str], list[str]]:
  """Adds the ops of a function.

  Args:
    body: The function.
    definitions: Where to.
    arguments: The tensors in place of its arguments.
    scope: The beginning of the names of ops.
    waits: The control inputs of the function.
    fixed: Which arguments are the same in all rounds of a loop: to read them
      alone is not to wait for a round.

  Returns:
    Its results, and the ops with an effect. Results come after these.
  """
  tensors = dict(zip((x.name for x in body.inputs), arguments, strict=True))
  known = {x.op for x in body.inputs}
  always = {x.name for x, same in zip(body.inputs, fixed, strict=False) if same}
  names: dict[tf.Operation, str] = {}
  effects: list[str] = []
  for op in body.graph.get_operations():
    if op in known:
      continue
    has_effect = (
      op_registry.definition_of(op).is_stateful and op.type not in _FREE_TO_SKIP
    )
    awaited = [names[x] for x in op.control_inputs if x in names]
    if has_effect or all(x.name in always for x in op.inputs):
      awaited += waits
    names[op] = op_name(
      definitions.copy(
        op, f"{scope}/{op.name}", [tensors[x.name] for x in op.inputs], awaited
      )
    )
    for index, tensor in enumerate(op.outputs):
      tensors[tensor.name] = f"{names[op]}:{index}"
    if has_effect:
      effects.append(names[op])
  results = [tensors[tensor.name] for tensor in body.outputs]
  if effects:
    results = [
      definitions.add(
        "Identity", f"{scope}/result", [name], effects, T=tensor.dtype
      )
      for name, tensor in zip(results, body.outputs, strict=True)
    ]
  return results, effects


def _second(tensor: str) -> str:
  """Returns the name of the second output of an op, by that of its first."""
  return f"{op_name(tensor)}:1"
