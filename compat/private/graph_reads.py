"""What TensorFlow knows of a graph and does not tell publicly.

Tested on TensorFlow 2.15.1 and 2.21.0.

- `Operation._control_flow_context` tells the loop that an op is in.
- `function_def_to_graph` knows the shapes of the ops in a function.
- `Graph._get_function` and its result's `cached_definition` tell what is in a
  function of a graph; publicly one gets all functions with the whole graph. Its
  `graph` has the ops that Python made, with where it did.
"""

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import function_def_to_graph


def outermost_loop(op: tf.Operation) -> object | None:
  """Returns an object that stands for the v1 loop that an op is part of.

  Args:
    op: An op; functional `While` ops are no v1 loops.

  Returns:
    The same object for every op of the outermost loop; None outside of loops.
  """
  loop = None
  context = op._control_flow_context
  while context is not None:
    if context.IsWhileContext():
      loop = context
    context = context.outer_context
  return loop


def shapes_in_function(
  function: Any, graph: tf.Graph
) -> dict[str, tf.TensorShape]:
  """Returns the shapes of the first outputs of the ops of a function.

  Args:
    function: Its definition (`FunctionDef`).
    graph: The graph that has it, and the functions that it calls.
  """
  with graph.as_default():
    body = function_def_to_graph.function_def_to_graph(
      function, include_library_functions=True
    )
  ops_of_body = body.get_operations()
  return {op.name: op.outputs[0].shape for op in ops_of_body if op.outputs}


def function_definition(graph: tf.Graph, name: str) -> Any:
  """Returns the definition (a `FunctionDef`) of a function.

  Args:
    graph: A graph that has it in its library; None is returned otherwise.
    name: Its name, as the attributes of an op have it.
  """
  function = graph._get_function(name)
  return None if function is None else function.cached_definition


def function_graph(graph: tf.Graph, name: str) -> Any:
  """Returns the graph (a `FuncGraph`) in which a function was built.

  Args:
    graph: A graph that has the function in its library.
    name: Its name, as the attributes of an op have it.

  Returns:
    The graph, with its `inputs` and `outputs`; None for a function that was
    read from somewhere, or that v1's Defun made.
  """
  function = graph._get_function(name)
  return getattr(function, "graph", None)
