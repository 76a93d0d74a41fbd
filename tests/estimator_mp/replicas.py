"""Replicas on CPU devices of one session, and a plain sum over them."""

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
