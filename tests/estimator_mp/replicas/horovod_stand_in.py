"""A stand-in for Horovod: two processes, of which one is there."""

import sys
import types
from unittest import mock

import tensorflow as tf


class StandIn(types.ModuleType):
  """`horovod.tensorflow` in process 1 of two.

  Process 0 has `factor` times what this one has, rows with the same indices;
  and its fingerprint, if `other_model` is set, is its own.
  """

  Average, Sum = "average", "sum"

  def __init__(self, factor=1):
    super().__init__("horovod.tensorflow")
    self.times_initialised = 0
    self.other_model = 0
    self._factor = factor

  def init(self):
    self.times_initialised += 1

  def is_initialized(self):
    return self.times_initialised > 0

  def size(self):
    return 2

  def rank(self):
    return 1

  def allreduce(self, tensor, op, name):
    # An op that is not folded only if its input is unknown.
    both = tf.stack([tensor, tensor * self._factor])
    total = tf.cumsum(both, name=name)[1]
    return total if op == self.Sum else total / 2

  def allgather(self, tensor, name):
    other = tensor
    if tensor.dtype.is_floating:
      other *= self._factor
    other += tf.cast(self.other_model, tensor.dtype)
    return tf.concat([tensor, other], 0, name=name)

  def broadcast(self, tensor, root, name):
    assert root == 0
    return tf.add(tensor, tf.cast(5, tensor.dtype), name=name)


def install(test, factor=1):
  """Installs the stand-in for one test, and returns it."""
  horovod = StandIn(factor)
  package = types.ModuleType("horovod")
  vars(package)["tensorflow"] = horovod
  modules = {"horovod": package, "horovod.tensorflow": horovod}
  test.enter_context(mock.patch.dict(sys.modules, modules))
  return horovod
