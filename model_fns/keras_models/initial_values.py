"""Initial values that wait for no other variable.

An eager program may compute a variable's first value from another variable, as
a schedule of learning rates does from the count of steps. In a graph all
variables are initialised in one run, in any order, so that the other one may
have no value yet. Here the value is computed from the other's initial value.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


@contextlib.contextmanager
def independent() -> Iterator[None]:
  """Lets variables that are made inside be initialised in any order."""
  with tf.variable_creator_scope(_create):
    yield


def _create(
  next_creator: Callable[..., tf.Variable], **kwargs: Any
) -> tf.Variable:
  value = kwargs.get("initial_value")
  if isinstance(value, tf.Variable):
    kwargs["initial_value"] = value.initial_value
  elif isinstance(value, tf.Tensor):
    kwargs["initial_value"] = _from_initial_values(value)
  return next_creator(**kwargs)


def _from_initial_values(value: tf.Tensor) -> tf.Tensor:
  """Returns a tensor, computed from initial values if it reads variables."""
  ops = _behind(value.op)
  reads = [op for op in ops if op.type == "ReadVariableOp"]
  if not reads:
    return value
  variables = {
    variable.handle.op.name: variable
    for variable in value.graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)
  }
  graph_def = v1.GraphDef(
    node=[op.node_def for op in ops if op not in reads],
    versions=value.graph.as_graph_def().versions,
  )
  (found,) = tf.graph_util.import_graph_def(
    graph_def,
    input_map={
      read.outputs[0].name: variables[read.inputs[0].op.name].initial_value
      for read in reads
    },
    return_elements=[value.name],
    name="initial_value",
  )
  return found


def _behind(op: tf.Operation) -> set[tf.Operation]:
  """Returns an op and those it is computed from, up to reads of variables."""
  found, waiting = {op}, [op]
  while waiting:
    last = waiting.pop()
    if last.type == "ReadVariableOp":
      continue
    before = {tensor.op for tensor in last.inputs} - found
    found |= before
    waiting += before
  return found
