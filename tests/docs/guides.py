"""The documents, and what their programs leave out."""

import pathlib
import re

import numpy as np
import tensorflow as tf

_ROOT = pathlib.Path(__file__).parents[2]


def read(path: str) -> str:
  """Returns a document of the repository."""
  return (_ROOT / path).read_text(encoding="utf-8")


def programs(path: str) -> list[str]:
  """Returns the programs in Python of a document."""
  return re.findall(r"```python\n(.*?)```", read(path), re.S)


def input_fn():
  """Twenty numbers for each example, and one to be learned."""
  rng = np.random.RandomState(3)
  inputs = rng.randn(64, 20).astype(np.float32)
  targets = inputs[:, :1] * 2 + inputs[:, 1:2]
  data = tf.data.Dataset.from_tensor_slices(({"x": inputs}, targets))
  return data.repeat().batch(16)


def model_fn(features, labels, mode):
  """The model_fn that the guides shard."""
  net = features["x"]
  for _ in range(3):
    net = tf.compat.v1.layers.dense(net, 16, tf.nn.relu)
  loss = tf.reduce_mean((tf.compat.v1.layers.dense(net, 1) - labels) ** 2)
  train_op = tf.compat.v1.train.AdagradOptimizer(0.1).minimize(
    loss, tf.compat.v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
