"""Replicas on CPU devices of one session, and a plain sum over them."""

import numpy as np
import tensorflow as tf

HARD = tf.compat.v1.ConfigProto(
  allow_soft_placement=False,
  device_count={"CPU": 4},
  use_per_session_threads=True,
  inter_op_parallelism_threads=4,
)


def devices_of(count):
  """Returns the names of the first CPU devices."""
  return [f"/device:CPU:{i}" for i in range(count)]


def placeholders(arrays):
  """Returns a placeholder of each array's shape and dtype."""
  return [tf.compat.v1.placeholder(x.dtype, x.shape) for x in arrays]


def spread(tensors):
  """Returns tensors, each of them made on the device of its number."""
  found = []
  for device, tensor in zip(devices_of(len(tensors)), tensors, strict=True):
    with tf.device(device):
      found.append(tf.identity(tensor))
  return found


def add_copies(tensors, devices):
  """Returns on each device the sum of all tensors: the plainest `Reduce`."""
  sums = []
  for device in devices:
    with tf.device(device):
      sums.append(tf.add_n([tf.identity(tensor) for tensor in tensors]))
  return sums


def run(fetches, feed_dict=None):
  """Runs fetches of the default graph once, under hard placement."""
  with tf.compat.v1.Session(config=HARD) as session:
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(tf.compat.v1.local_variables_initializer())
    return session.run(fetches, feed_dict)


class Steps:
  """A graph that sums what is fed, and a session that keeps its residuals."""

  def __init__(self, reduce, shape, count, dtype=np.float32):
    self._graph = tf.Graph()
    with self._graph.as_default():
      self._fed = [tf.compat.v1.placeholder(dtype, shape) for _ in range(count)]
      self._sums = reduce(spread(self._fed), devices_of(count))
      self._residuals = tf.compat.v1.local_variables()
      init = tf.compat.v1.local_variables_initializer()
    self._session = tf.compat.v1.Session(config=HARD, graph=self._graph)
    self._session.run(init)

  def __enter__(self):
    return self

  def __exit__(self, *unused):
    self._session.close()

  def step(self, gradients):
    """Returns the sum after one step, the same on all devices."""
    feed = dict(zip(self._fed, gradients, strict=True))
    sums = self._session.run(self._sums, feed)
    for total in sums[1:]:
      np.testing.assert_array_equal(total, sums[0])
    return sums[0]

  def residuals(self):
    """Returns the residual of each replica."""
    return self._session.run(self._residuals)
