"""Ops of an all-reduce, each on a device that is said.

The algorithms of `all_reduce` are made of few kinds of ops. Here they are
made: on the device given, whatever the caller's blocks say.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf


@contextlib.contextmanager
def apart_from_caller(name: str) -> Iterator[str]:
  """Makes the ops inside independent of the blocks that the caller is in.

  They inherit no device, no control dependency, no colocation and no name
  scope. A loop or a `tf.cond` of TensorFlow 1 is left, too: its tensors cannot
  be read inside.

  Args:
    name: The name scope of the ops, below "estimator_mp/".

  Yields:
    The beginning of their names.
  """
  graph = tf.compat.v1.get_default_graph()
  with (
    tf.compat.v1.name_scope(None),
    tf.control_dependencies(None),
    graph.colocate_with(None, ignore_existing=True),
    tf.compat.v1.device(None),
    tf.compat.v1.name_scope("estimator_mp/"),
    tf.compat.v1.name_scope(name) as scope,
  ):
    yield scope


def add(tensors: Sequence[tf.Tensor], device: str) -> tf.Tensor:
  """Returns the sum of tensors, added one by one, in their order.

  Unlike `a + b` it broadcasts nothing: tensors of different shapes are an
  error when the session runs, if the graph does not know their shapes.

  Args:
    tensors: One or more tensors of one shape and dtype, on any devices.
    device: Where they are added.
  """
  total = tensors[0]
  with tf.compat.v1.device(device):
    for tensor in tensors[1:]:
      total = tf.add_n([total, tensor], name="add")
  return total


def on_each(
  devices: Sequence[str],
  make: Callable[..., Any],
  *columns: Sequence[Any],
) -> list[Any]:
  """Returns a function's result on each device, whatever blocks are around.

  Args:
    devices: The devices.
    make: The function.
    *columns: Its arguments, of each one for every device.
  """
  results = []
  for device, *arguments in zip(devices, *columns, strict=True):
    with tf.compat.v1.device(None), tf.compat.v1.device(device):
      results.append(make(*arguments))
  return results


def copy_to(tensor: tf.Tensor, device: str) -> tf.Tensor:
  """Returns a tensor, sent to a device once for all that read it there.

  Args:
    tensor: A tensor on any device.
    device: Where it goes.
  """
  with tf.compat.v1.device(device):
    return tf.identity(tensor, name="copy")


def pass_together(
  tensors: Sequence[tf.Tensor], devices: Sequence[str]
) -> list[tf.Tensor]:
  """Returns tensors none of which can be had without computing all.

  A session leaves out ops that a fetch does not need. An op that works together
  with ops of other devices would then wait for ops that never run.

  Args:
    tensors: One tensor on each device.
    devices: Their devices.
  """
  with (
    tf.compat.v1.device(devices[0]),
    tf.control_dependencies([tensor.op for tensor in tensors]),
  ):
    everything = tf.no_op(name="all_computed")
  passed = []
  for tensor, device in zip(tensors, devices, strict=True):
    with tf.control_dependencies([everything]):
      passed.append(copy_to(tensor, device))
  return passed


def flatten(tensor: tf.Tensor, device: str) -> tf.Tensor:
  """Returns the elements of a tensor of any shape, as a vector."""
  with tf.compat.v1.device(device):
    return tf.reshape(tensor, [-1], name="flat")


def reshape_like(
  vector: tf.Tensor, tensor: tf.Tensor, device: str
) -> tf.Tensor:
  """Returns a vector in the shape of a tensor with as many elements.

  Args:
    vector: The elements.
    tensor: The tensor of that shape; it is on the same device.
    device: The device of both.
  """
  with tf.compat.v1.device(device):
    known = tensor.shape.is_fully_defined()
    shape = tensor.shape.as_list() if known else tf.shape(tensor)
    result = tf.reshape(vector, shape, name="in_shape")
  result.set_shape(tensor.shape)
  return result
