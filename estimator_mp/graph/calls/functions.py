"""Functions of a graph: those that ops run, and the ops in them."""

from collections.abc import Callable
from typing import Any

from estimator_mp.graph import traversal

import tensorflow as tf


def functions_of(node: tf.compat.v1.NodeDef) -> list[Any]:
  """Returns the functions that an op runs, as its attributes name them.

  Args:
    node: The op; one that has the name of its function as its type, as v1
      functions do, has none.
  """
  functions = []
  for _, value in sorted(node.attr.items()):
    if value.HasField("func"):
      functions.append(value.func)
    elif value.HasField("list"):
      functions += value.list.func
  return functions


def any_op(op: tf.Operation, is_one: Callable[[str], bool]) -> bool:
  """Whether an op is of some type, or runs one that is, in whatever function.

  Args:
    op: An op of a graph.
    is_one: Says of a type whether it is the one.
  """
  if is_one(op.type):
    return True
  names = {function.name for function in functions_of(op.node_def)}
  if not names and hasattr(tf.raw_ops, op.type):
    return False
  library = op.graph.as_graph_def().library
  known = {f.signature.name: f for f in library.function}

  def called(name: str) -> list[str]:
    return [
      other
      for node in known[name].node_def
      for other in (node.op, *(f.name for f in functions_of(node)))
      if other in known
    ]

  start = [name for name in (op.type, *names) if name in known]
  return any(
    is_one(node.op)
    for name in traversal.walk(start, called)
    for node in known[name].node_def
  )
