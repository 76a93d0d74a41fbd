"""Variables: the one that an op works on, and whether it writes it.

The handle of a variable goes through conds, loops and functions. A functional
`If`, a `While` or the call of a `tf.function` gets the handles of all variables
that its bodies use, those that they only read too. Whether one is written is in
the bodies: an `ExponentialMovingAverage` starts its averages by an `If` that
reads the variable if it has a value, and writes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from compat.private import graph_reads, op_registry
from estimator_mp.graph import op_types
from estimator_mp.graph.calls import functions

import tensorflow as tf

_READS = op_types.STATE_READS | op_types.REFERENCE_READS


def variable_of(tensor: tf.Tensor) -> tf.Operation:
  """Returns the op that a tensor comes from, before conds and loops.

  A write of a reference gives the reference on, and a loop the handles that it
  gets.

  Args:
    tensor: The handle of a variable, or a reference, as an op gets it; or any
      other tensor.
  """
  while (source := _handle_before(tensor)) is not None:
    tensor = source
  return tensor.op


def _handle_before(tensor: tf.Tensor) -> tf.Tensor | None:
  """Returns the input that an op passes on as a handle; None if it makes it."""
  op = tensor.op
  passes = op.type in op_types.PASSES_HANDLE or op_types.is_reference(tensor)
  if passes and op.inputs and op_types.is_handle(op.inputs[0]):
    return op.inputs[0]
  if op.type in op_types.FUNCTIONAL_LOOPS and op_types.is_handle(tensor):
    return op.inputs[tensor.value_index]
  return None


def users(handle: tf.Tensor) -> Iterator[tf.Operation]:
  """Yields the ops that get the handle of a variable, wherever it is passed on.

  Args:
    handle: The handle, or a reference, as the variable makes it.
  """
  for op in handle.consumers():
    yield op
    if op.type in op_types.PASSES_HANDLE and op_types.is_handle(op.outputs[0]):
      yield from users(op.outputs[0])


def written_states(op: tf.Operation) -> list[tf.Tensor]:
  """Returns the handles and references that an op may write through.

  The writes of a function through a handle are read in its body; an op with a
  state that is not known may write through all its handles.

  Args:
    op: An op.
  """
  states = [
    (index, x) for index, x in enumerate(op.inputs) if op_types.is_handle(x)
  ]
  if not states or op.type in _READS:
    return []
  if op_types.is_call(op):
    written = _written_by_functions(op.graph, op.node_def, frozenset())
    return [tensor for index, tensor in states if index in written]
  definition = op_registry.definition_of(op)
  takes_reference = any(argument.is_ref for argument in definition.input_arg)
  return [
    tensor
    for _, tensor in states
    if takes_reference
    or (definition.is_stateful and op_types.is_resource(tensor))
  ]


def written_variables(op: tf.Operation) -> list[tf.Operation]:
  """Returns the variables, and other states, that an op may write.

  Args:
    op: An op.
  """
  states = written_states(op)
  return [*dict.fromkeys(map(variable_of, states))]


def used_together(call: tf.Operation) -> list[set[tf.Operation]]:
  """Returns the variables of a call by which ops of its functions use several.

  Args:
    call: An op that calls functions, or has branches or a body.

  Returns:
    Sets of variables: such as each one with its slots, which an update writes.
    A loop uses all of its variables together: it is on one device.
  """
  groups: list[set[tf.Operation]] = []
  if call.type in op_types.FUNCTIONAL_LOOPS:
    group = {variable_of(x) for x in call.inputs if op_types.is_resource(x)}
    return [group] if group else []
  for indices in _used_together(call.graph, call.node_def, frozenset()):
    group = {variable_of(call.inputs[index]) for index in indices}
    for other in [x for x in groups if x & group]:
      group |= other
      groups.remove(other)
    groups.append(group)
  return groups


def initial_writes() -> list[tf.Operation]:
  """Returns the ops that initialize the variables of the default graph."""
  variables = (
    *tf.compat.v1.global_variables(),
    *tf.compat.v1.local_variables(),
  )
  writes = [variable.initializer for variable in variables]
  # `init_from_checkpoint` gives a reference variable the output of the op.
  return [*dict.fromkeys(getattr(write, "op", write) for write in writes)]


def _used_together(
  graph: tf.Graph, call: tf.compat.v1.NodeDef, callers: frozenset[str]
) -> Iterator[set[int]]:
  """Yields the numbers of inputs, handles that one op of a function uses."""
  first = int(call.op in op_types.FUNCTIONAL_BRANCHES)
  for name in {function.name for function in functions.functions_of(call)}:
    if name in callers:
      continue  # Which is looked at already.
    definition = graph_reads.function_definition(graph, name)
    numbers = {
      argument.name: first + index
      for index, argument in enumerate(definition.signature.input_arg)
      if argument.type == tf.resource.as_datatype_enum
    }
    nodes = {node.name: node for node in definition.node_def}
    for node in definition.node_def:
      inputs = [x for x in node.input if not x.startswith("^")]
      groups: Iterable[Iterable[int]] = [range(len(inputs))]
      if node.op in op_types.FUNCTIONAL - op_types.FUNCTIONAL_LOOPS:
        groups = _used_together(graph, node, callers | {name})
      for group in groups:
        sources = {_argument_of(inputs[index], nodes) for index in group}
        used = {numbers[x] for x in sources if x in numbers}
        if used:
          yield used


def _written_by_functions(
  graph: tf.Graph, call: tf.compat.v1.NodeDef, callers: frozenset[str]
) -> set[int]:
  """Returns the numbers of the inputs that a call's functions write."""
  first = int(call.op in op_types.FUNCTIONAL_BRANCHES)
  names = [function.name for function in functions.functions_of(call)]
  return {
    first + argument
    for name in names
    if name not in callers  # Which is looked at already.
    for argument in _written_arguments(graph, name, callers)
  }


def _written_arguments(
  graph: tf.Graph, name: str, callers: frozenset[str]
) -> set[int]:
  """Returns the numbers of a function's arguments that its body may write."""
  definition = graph_reads.function_definition(graph, name)
  arguments = [x.name for x in definition.signature.input_arg]
  numbers = {argument: index for index, argument in enumerate(arguments)}
  nodes = {node.name: node for node in definition.node_def}
  written = set()
  for node in definition.node_def:
    inputs = [x for x in node.input if not x.startswith("^")]
    indices: Sequence[int] = range(len(inputs))
    if node.op in op_types.STATE_READS or node.op in op_types.PASSES_HANDLE:
      continue
    if node.op in op_types.FUNCTIONAL:
      indices = sorted(_written_by_functions(graph, node, callers | {name}))
    sources = {_argument_of(inputs[index], nodes) for index in indices}
    written |= {numbers[x] for x in sources if x in numbers}
  return written


def _argument_of(
  tensor: str, nodes: Mapping[str, tf.compat.v1.NodeDef]
) -> str | None:
  """Returns the argument that a tensor of a body is; None if it is computed."""
  seen = set()
  while tensor not in seen:
    seen.add(tensor)
    name, _, output = tensor.partition(":")
    node = nodes.get(name)
    if node is None:
      return name
    inputs = [x for x in node.input if not x.startswith("^")]
    if node.op in op_types.PASSES_HANDLE:
      tensor = inputs[0]
    elif node.op in op_types.FUNCTIONAL_LOOPS:
      # A loop returns a handle as it gets it.
      tensor = inputs[int(output.rpartition(":")[2])]
    else:
      return None
  return None
