"""The models that plans are measured with, each with a batch."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import encoder
from model_fns.images import resnet
from model_fns.ranking import deepfm, dlrm
from model_fns.recipes import images
from model_fns.retrieval import towers, two_tower

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
_rng = np.random.RandomState(1)


@dataclasses.dataclass(frozen=True)
class Model:
  """A model_fn, and the batch that it trains on in each step."""

  name: str
  model_fn: Callable[..., tf.estimator.EstimatorSpec]
  features: Any
  labels: Any

  def input_fn(self) -> tf.data.Dataset:
    """Returns the batch, for ever."""
    return tf.data.Dataset.from_tensors((self.features, self.labels)).repeat()


def _floats(*shape):
  return _rng.rand(*shape).astype(np.float32)


def _numbers(below, *shape):
  return _rng.randint(below, size=shape).astype(np.int64)


def _mlp(features, labels, mode):
  """README's."""
  net = features
  for _ in range(3):
    net = v1.layers.dense(net, 1024, tf.nn.relu)
  loss = v1.losses.mean_squared_error(labels, v1.layers.dense(net, 1))
  train_op = v1.train.AdamOptimizer(0.001).minimize(
    loss, v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _lstm(features, labels, mode):
  table = v1.get_variable("embeddings", [1000, 64])
  net = tf.nn.embedding_lookup(table, features)
  for i in range(2):
    cell = v1.nn.rnn_cell.LSTMCell(128, name=f"cell_{i}")
    net, _ = v1.nn.dynamic_rnn(cell, net, dtype=tf.float32, scope=f"rnn_{i}")
  logits = v1.layers.dense(net[:, -1], 2)
  loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
  train_op = v1.train.AdagradOptimizer(0.1).minimize(
    loss, v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def models() -> Iterator[Model]:
  """Yields the models."""
  yield Model("mlp", _mlp, _floats(64, 16), _floats(64, 1))
  yield Model(
    "cnn",
    images.plain_model_fn("cifar10_cnn", num_classes=10, seed=1),
    {"image": _floats(64, 32, 32, 3)},
    _numbers(10, 64, 1).astype(np.int32),
  )
  yield Model(
    "resnet18",
    resnet.resnet(10, 18, width=16),
    {"image": _floats(32, 32, 32, 3)},
    _numbers(10, 32).astype(np.int32),
  )
  yield Model(
    "bert4",
    encoder.make_model_fn(4),
    _numbers(encoder.VOCABULARY, encoder.BATCH, encoder.LENGTH),
    _numbers(2, encoder.BATCH).astype(np.int32),
  )
  tables = {f"c{i}": 10_000 for i in range(8)}
  clicks = {x: _numbers(size, 512, 1) for x, size in tables.items()}
  clicks["dense"] = _floats(512, 13)
  clicked = _numbers(2, 512, 1).astype(np.float32)
  yield Model(
    "dlrm",
    dlrm.dlrm(
      tables, 13, ids="rows", bottom_units=(256, 128), top_units=(256, 128)
    ),
    clicks,
    clicked,
  )
  yield Model(
    "deepfm",
    deepfm.deepfm(tables, 13, ids="rows", hidden_units=(256, 128)),
    clicks,
    clicked,
  )
  yield Model(
    "two_tower",
    two_tower.two_tower(
      towers.Tower({"user": 10_000}, hidden=(256, 128)),
      towers.Tower({"item": 10_000}, ("fields",), hidden=(256, 128)),
      num_items=10_000,
      item_id="item",
    ),
    {
      "user": _numbers(10_000, 512),
      "item": _numbers(10_000, 512),
      "fields": _floats(512, 16),
    },
    _floats(512),
  )
  yield Model("lstm", _lstm, _numbers(1000, 32, 20), _numbers(2, 32))
