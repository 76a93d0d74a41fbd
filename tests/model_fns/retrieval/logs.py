"""A small log of queries and items, and towers for it."""

from collections.abc import Mapping
from typing import Any

import model_fns
from model_fns.retrieval.towers import OwnTower, Tower

import numpy as np
import tensorflow as tf

EXAMPLES, USERS, ITEMS = 40, 12, 30
_rng = np.random.RandomState(7)

# Few items, so that each batch has some of them twice.
CATALOGUE: Mapping[str, np.ndarray] = {
  "item_id": np.arange(ITEMS, dtype=np.int64),
  "item_words": _rng.randint(-1, 9, size=[ITEMS, 3]).astype(np.int32),
  "item_price": _rng.randn(ITEMS).astype(np.float32),
}
_items = _rng.randint(ITEMS, size=[EXAMPLES])
FEATURES: Mapping[str, np.ndarray] = {
  "user_id": _rng.randint(USERS, size=[EXAMPLES]).astype(np.int32),
  "user_age": _rng.randn(EXAMPLES, 1).astype(np.float32),
  **{name: values[_items] for name, values in CATALOGUE.items()},
}
REWARDS = _rng.uniform(0.5, 1.5, size=[EXAMPLES, 1]).astype(np.float32)

QUERY = Tower({"user_id": USERS}, ("user_age",), id_size=4, hidden=(6,))
ITEM = Tower(
  {"item_id": ITEMS, "item_words": 9}, ("item_price",), id_size=4, hidden=(6,)
)


def own_query(features, is_training):
  """A tower of layers that are called by their names, and one state."""
  del is_training
  table = tf.compat.v1.get_variable("table", [USERS, 4])
  rows = tf.nn.embedding_lookup(table, features["user_id"])
  net = tf.concat([rows, features["user_age"]], 1)
  return tf.nn.tanh(tf.compat.v1.layers.dense(net, 6, name="own"))


OWN_QUERY = OwnTower(own_query, ("user_id", "user_age"))


def calm_adam():
  """Adam that does not bring to full size what is 0 but for rounding."""
  return tf.compat.v1.train.AdamOptimizer(0.003, epsilon=1e-4)


def model_fn(**changes: Any) -> Any:
  """Returns a small two_tower."""
  arguments: dict[str, Any] = {
    "query": QUERY,
    "item": ITEM,
    "num_items": ITEMS,
    "vector_size": 4,
    "catalogue": CATALOGUE,
    "recall_at": (1, 5),
    "chunk_size": 8,
    "optimizer": calm_adam,
  }
  return model_fns.two_tower(**(arguments | changes))


def input_fn(batch_size=16, count=EXAMPLES):
  """Returns batches without labels; the last one is short."""
  features = {name: values[:count] for name, values in FEATURES.items()}
  return lambda: tf.data.Dataset.from_tensor_slices(features).batch(batch_size)
