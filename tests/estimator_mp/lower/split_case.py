"""Tests of what splits variables over two devices, on graphs of a few ops."""

from estimator_mp import devices
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.lower.splitting import operands, shards
from estimator_mp.model_axis.decisions import ByTurns
from estimator_mp.model_axis.rules import table
from tests.estimator_mp import graph_case

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


class SplitCase(graph_case.GraphCase):
  """A graph whose parts are on two devices.

  Attributes:
    devices: Their names.
    ledger: What was made in the graph.
    tensors: What is split, and what parts read.
    shards: The shards of variables.
    writes: What `shards` is told of writes.
  """

  def setUp(self):
    super().setUp()
    self.devices = ["/device:CPU:0", "/device:CPU:1"]
    self.ledger = ledger_lib.Ledger(self.graph)
    self.tensors = operands.Operands(
      table.TABLE, lambda op: self.devices, self.ledger
    )
    self.writes = {}
    self.shards = shards.Shards(self.tensors, self.writes)
    self._start = []

  def split_variable(self, name, value, split):
    """Returns a new variable whose shards have the parts of a value."""
    value = np.asarray(value, np.float32)
    variable = v1.get_variable(name, value.shape, use_resource=True)
    self.shards.make(variable.op, split)
    handles = self.tensors.parts[variable.handle.name]
    if isinstance(split, ByTurns):
      parts = [value[i :: len(handles)] for i in range(len(handles))]
    else:
      parts = np.split(value, split.offsets[1:], split.axis)
    for handle, part in zip(handles, parts, strict=True):
      with tf.device(handle.device):
        self._start.append(
          tf.raw_ops.AssignVariableOp(resource=handle, value=part)
        )
    return variable

  def split_placeholder(self, name, shape, split):
    """Returns a tensor that is split, whose parts are fed by name."""
    whole = v1.placeholder(tf.float32, shape, name)
    parts = []
    for i, size in enumerate(split.sizes):
      of_part = list(shape)
      of_part[split.axis] = size
      with tf.device(self.devices[i]):
        parts.append(v1.placeholder(tf.float32, of_part, f"{name}_{i}"))
    self.tensors.add(whole, split, parts)
    return whole

  def feed(self, whole, value):
    """Returns what feeds the parts of a tensor."""
    split, parts = (
      x[whole.name] for x in (self.tensors.splits, self.tensors.parts)
    )
    pieces = np.split(value, split.offsets[1:], split.axis)
    return dict(zip(parts, pieces, strict=True))

  def read(self, handle, dtype=tf.float32):
    """Returns the value of a shard."""
    with tf.device(handle.device):
      return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)

  def session(self):
    """Returns a session of the two devices."""
    devices.check_local_devices_exist(self.devices)
    return v1.Session(config=v1.ConfigProto(device_count={"CPU": 2}))

  def run_steps(self, *steps, feed=None):
    """Returns what each of some fetches is, after the shards have values."""
    with self.session() as session:
      session.run(self._start)
      return [session.run(step, feed) for step in steps]
