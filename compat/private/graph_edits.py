"""Edits of a graph that TensorFlow has no public names for.

Of estimator_mp, only the folders `graph` and `lower` use them; of compat, only
tf.contrib.graph_editor. Tested on TensorFlow 2.15.1 and 2.21.0.

- `Operation._set_device` places an op after it was made; publicly that is
  possible only while it is made.
- `Operation._set_attr` changes what an op is colocated with, what XLA may
  compile it with (`_XlaInternalScope`), and the shape of a placeholder.
- `Operation._update_input` makes an op read a copy of a constant; inputs are
  public to read only.
- `Operation._remove_all_control_inputs` and `_add_control_inputs` change
  what an op waits for after it was made.
- `Operation._set_control_flow_context` says which branch of a v1 cond, or which
  loop, an op is in: the gradient of a switch follows from that. A loop is a
  `WhileContext`, of which `_outer_context` is the loop around it.
- `Operation._original_op` tells the op of whose gradient an op is part.
- `TF_GraphImportGraphDefWithResults`, `Graph.new_operations` and
  `Operation._from_c_op` are what `tf.graph_util.import_graph_def` is made of.
  For each op it also copies the definition, looks for a colocation by an
  exception, applies device functions, sets the device twice, and checks the
  contexts of inputs: as long as all the rest together.
- `_create_c_op` is what `Graph.create_op` calls at last. That is deprecated:
  a wrapper inspects its signature at each call, and what else it does before,
  for scopes that are open, takes five times as long.
- `Operation._gradient_function` differentiates a call of a `tf.function`; only
  `tf.function` sets it, and no copy of the call has it. It is made as
  `control_flow_util_v2.get_func_graph` makes those of calls in branches.
- `Graph.finalize` is public, but nothing tells when somebody calls it.
"""

import itertools
import weakref
from collections.abc import (
  Callable,
  Iterable,
  Mapping,
  MutableMapping,
  Sequence,
)

import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.eager.polymorphic_function import concrete_function
from tensorflow.python.framework import c_api_util, function_def_to_graph
from tensorflow.python.ops import control_flow_ops

# The names of what `import_ops` has made, and the scopes that these are in.
_SCOPES: MutableMapping[tf.Graph, set[str]] = weakref.WeakKeyDictionary()


def set_device(op: tf.Operation, device: str) -> None:
  """Places an op of a graph that no session has run yet.

  Args:
    op: The op.
    device: A device name; "" leaves the choice to TensorFlow.
  """
  op._set_device(device)


def set_colocation(op: tf.Operation, names: Sequence[str]) -> None:
  """Colocates an op with these ops, and with no others.

  Args:
    op: The op.
    names: The names of the ops that stand for colocation groups.
  """
  groups = [b"loc:@" + name.encode() for name in names]
  value = tf.compat.v1.AttrValue(
    list=tf.compat.v1.AttrValue.ListValue(s=groups)
  )
  op._set_attr("_class", value)


def set_placeholder_shape(placeholder: tf.Tensor, shape: Sequence[int]) -> None:
  """Makes a placeholder one of a shape, also for copies of its op.

  Args:
    placeholder: The output of its op.
    shape: A shape that it can have.
  """
  value = tf.compat.v1.AttrValue(shape=tf.TensorShape(shape).as_proto())
  placeholder.op._set_attr("shape", value)
  placeholder.set_shape(shape)


def set_compilation_scope(op: tf.Operation, scope: str) -> None:
  """Lets XLA's auto-clustering join an op with ops of the same scope only.

  Args:
    op: The op.
    scope: A name; an op without a scope may be joined with those of any one.
  """
  value = tf.compat.v1.AttrValue(s=scope.encode())
  op._set_attr("_XlaInternalScope", value)


def replace_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
  """Makes an op read another tensor of the same shape and dtype.

  Args:
    op: The op.
    index: Which of its inputs.
    tensor: The tensor to read instead.
  """
  op._update_input(index, tensor)


def differentiate_calls(ops: Iterable[tf.Operation], graph: tf.Graph) -> None:
  """Lets gradients be asked for of copies of calls of functions.

  Args:
    ops: Ops; those that are no calls stay as they are.
    graph: The graph that has the functions.
  """
  for op in ops:
    if op.type in ("PartitionedCall", "StatefulPartitionedCall"):
      known = graph._get_function(op.get_attr("f").name)
      with graph.as_default():
        body = function_def_to_graph.function_def_to_graph(
          known.cached_definition, input_shapes=[x.shape for x in op.inputs]
        )
      differentiate_calls(body.get_operations(), graph)
      function = concrete_function.ConcreteFunction.from_func_graph(
        body, None, {}
      )
      op._gradient_function = function._get_gradient_function()


def set_control_inputs(
  op: tf.Operation, control_inputs: Sequence[tf.Operation]
) -> None:
  """Makes an op wait for these ops, and for no others but its inputs.

  Args:
    op: The op.
    control_inputs: Ops that it waits for.
  """
  op._remove_all_control_inputs()
  op._add_control_inputs(list(control_inputs))


def add_control_inputs(
  op: tf.Operation, control_inputs: Sequence[tf.Operation]
) -> None:
  """Makes an op wait for more ops.

  Args:
    op: The op.
    control_inputs: Ops that it waits for besides.
  """
  op._add_control_inputs(list(control_inputs))


def adopt_origin(
  ops: Iterable[tf.Operation], of: tf.Operation, is_loop: bool = False
) -> None:
  """Says that ops are part of what another one is part of: loops, gradients.

  Args:
    ops: Ops that stand for another one.
    of: That op.
    is_loop: Whether they are a loop by themselves.
  """
  context = of._get_control_flow_context()
  if is_loop:
    loop = control_flow_ops.WhileContext(name=of.name)
    loop._outer_context = context
    context = loop
  origin = getattr(of, "_original_op", None)
  for op in ops:
    op._set_control_flow_context(context)
    if origin is not None:
      op._original_op = origin


def import_ops(
  definition: tf.compat.v1.GraphDef,
  inputs: Mapping[str, tf.Tensor],
  scope: str,
) -> dict[str, tf.Operation]:
  """Adds ops to the default graph, on the devices that they are defined with.

  No name scope, device, control dependency or control flow context may be
  open. An op that is colocated with another has no device, unless it is
  defined with one.

  Args:
    definition: The ops, without functions.
    inputs: The tensors they read that are not among them, by name.
    scope: A scope for their names; a number is added if it is taken. With ""
      their names are free, and stay.

  Returns:
    The ops, by the names that they are defined with, in no order.
  """
  graph = tf.compat.v1.get_default_graph()
  scoped = c_api_util.ScopedTFImportGraphDefOptions()  # It owns the options.
  options = scoped.options
  with tf.compat.v1.name_scope(scope) as prefix:
    if scope:
      pywrap_tf_session.TF_ImportGraphDefOptionsSetPrefix(options, prefix[:-1])
  pywrap_tf_session.TF_ImportGraphDefOptionsSetUniquifyNames(options, True)
  for name, tensor in inputs.items():
    op_name, _, index = name.rpartition(":")
    pywrap_tf_session.TF_ImportGraphDefOptionsAddInputMapping(
      options, op_name, int(index), tensor._as_tf_output()
    )
  buffer = pywrap_tf_session.TF_NewBufferFromString(
    definition.SerializeToString()
  )
  # No session may run before Python knows the new ops, too.
  with graph._mutation_lock():
    try:
      with graph._c_graph.get() as c_graph:
        results = pywrap_tf_session.TF_GraphImportGraphDefWithResults(
          c_graph, buffer, options
        )
        c_api_util.ScopedTFImportGraphDefResults(results)
    finally:
      pywrap_tf_session.TF_DeleteBuffer(buffer)
    found = {}
    scopes = _SCOPES.setdefault(graph, set())
    for c_op in graph.new_operations():
      op = tf.Operation._from_c_op(c_op, graph)
      name = op.name
      graph._names_in_use.setdefault(name.lower(), 1)
      scopes.update(itertools.accumulate(name.split("/"), "{}/{}".format))
      found[name.removeprefix(prefix)] = op
  return found


def is_name_taken(graph: tf.Graph, name: str) -> bool:
  """Whether an op of a graph has a name, or a name that begins with it.

  Args:
    graph: The graph.
    name: The name, with the scopes that it is in.
  """
  return name.lower() in graph._names_in_use or name in _SCOPES.get(graph, ())


def before_finalization(graph: tf.Graph, call: Callable[[], None]) -> None:
  """Calls a function when all ops of a graph have been made.

  Hooks may make ops until then, and a Scaffold makes its Saver at last. This
  one graph's `finalize`, which is public, is replaced, until it is called.

  Args:
    graph: A graph that is not finalized yet.
    call: The function to call, once, before the graph is finalized.
  """
  finalize = graph.finalize

  def call_and_finalize() -> None:
    # What was there before: the class's own, or another that is to be called.
    setattr(graph, "finalize", finalize)  # noqa: B010
    call()
    finalize()

  setattr(graph, "finalize", call_and_finalize)  # noqa: B010


def set_branch(op: tf.Operation, other: tf.Operation) -> None:
  """Says that an op is in the branch of a v1 cond that another op is in.

  Args:
    op: The op, made outside of branches.
    other: The other op, which may be outside of branches, too.
  """
  op._set_control_flow_context(other._get_control_flow_context())
