"""Copies of variables: a fetch of a split variable gets the whole value.

A fetch of a variable's object, of the result of an assignment, or of whether it
is initialized, runs an op that reads the variable's handle, which is never
written. That op reads another variable instead, to which the whole value is
copied then; a step without the fetch copies nothing.
"""

from collections.abc import Callable

from compat.private import graph_edits
from estimator_mp.graph import placed_ops

import tensorflow as tf


def read_copy(read: tf.Operation, value: tf.Tensor, device: str) -> None:
  """Lets an op that reads a variable read a copy of its value.

  Args:
    read: The op, a `ReadVariableOp`.
    value: The whole value.
    device: Where it is read.
  """
  (plain,) = read.outputs
  with placed_ops.apart_from_caller("copy"), tf.compat.v1.device(device):
    copy = tf.raw_ops.VarHandleOp(
      dtype=plain.dtype, shape=plain.shape, shared_name=f"{read.name}/copy"
    )
    write = tf.raw_ops.AssignVariableOp(resource=copy, value=value)
    with tf.control_dependencies([write]):
      copy = tf.raw_ops.Identity(input=copy)
  read_instead(read, copy, device)


def read_instead(op: tf.Operation, handle: tf.Tensor, device: str) -> None:
  """Lets an op read another variable, where that is.

  Args:
    op: The op, whose first input is a handle.
    handle: The handle of the other variable.
    device: Its device.
  """
  graph_edits.replace_input(op, 0, handle)
  graph_edits.set_colocation(op, [])
  graph_edits.set_device(op, device)


def before_finalization(graph: tf.Graph, edit: Callable[[], None]) -> None:
  """Edits a graph when all is in it that hooks and Savers read.

  Args:
    graph: The graph.
    edit: Edits it.
  """
  graph_edits.before_finalization(graph, edit)
