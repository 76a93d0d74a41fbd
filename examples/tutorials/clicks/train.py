"""Clicks: tables of embeddings of a gigabyte, each split over four devices."""

import itertools
from typing import Any

import estimator_mp  # Before TensorFlow: it brings tf.estimator back.

import numpy as np
import tensorflow as tf
from absl import app, flags

v1 = tf.compat.v1

_ROWS = flags.DEFINE_integer(
  "rows", 1_000_000, "Rows of the table of queries; users have 5 times as many."
)
_STEPS = flags.DEFINE_integer("max_steps", 300, "Steps to train.")


def read_log(tables: dict[str, int], seed: int, size: int) -> Any:
  """Draws a log of impressions: features, and 1 for each click."""
  world, random = np.random.RandomState(0), np.random.RandomState(seed)
  features, tastes = {}, {}
  for name, rows in tables.items():
    ids, taste = world.randint(rows, size=1000), world.randn(1000)
    seen = random.randint(1000, size=size)
    features[name], tastes[name] = ids[seen], taste[seen]
  features["dense"] = random.randn(size, 8).astype(np.float32)
  score = tastes["user"] + (1 + tastes["query"]) * tastes["item"]
  chance = 1 / (1 + np.exp(1 - score - features["dense"][:, 0]))
  clicks = (random.rand(size) < chance).astype(np.float32)
  return features, clicks[:, np.newaxis]


def model_fn(
  features: dict[str, tf.Tensor],
  labels: tf.Tensor,
  mode: str,
  params: dict[str, Any],
) -> tf.estimator.EstimatorSpec:
  """Dot products of all pairs of vectors, then a perceptron."""
  vectors = [v1.layers.dense(features["dense"], 32, tf.nn.relu)]
  for name, rows in params["tables"].items():
    start = v1.random_uniform_initializer(-0.1, 0.1)
    table = v1.get_variable(f"tables/{name}", [rows, 32], initializer=start)
    vectors.append(tf.nn.embedding_lookup(table, features[name]))
  pairs = itertools.combinations(vectors, 2)
  dots = [tf.reduce_sum(a * b, axis=1, keepdims=True) for a, b in pairs]
  net = v1.layers.dense(tf.concat([*vectors, *dots], 1), 64, tf.nn.relu)
  logits = v1.layers.dense(net, 1)
  click = tf.sigmoid(logits)
  if mode == "infer":
    return tf.estimator.EstimatorSpec(mode, {"click": click})
  loss = v1.losses.sigmoid_cross_entropy(labels, logits)
  optimizer = v1.train.AdagradOptimizer(0.1, initial_accumulator_value=1e-6)
  train_op = optimizer.minimize(loss, v1.train.get_global_step())
  metrics = {"auc": v1.metrics.auc(labels, click)}
  return tf.estimator.EstimatorSpec(
    mode, loss=loss, train_op=train_op, eval_metric_ops=metrics
  )


def main(argv: list[str]) -> None:
  """Trains, evaluates, and predicts one example."""
  del argv
  rows = _ROWS.value
  tables = {"user": 5 * rows, "item": 2 * rows, "query": rows}
  train = read_log(tables, seed=1, size=100_000)
  held_out = read_log(tables, seed=2, size=20_000)
  slices = tf.data.Dataset.from_tensor_slices
  run_config = tf.estimator.RunConfig("runs/clicks", tf_random_seed=1)
  estimator = tf.estimator.Estimator(
    model_fn, config=run_config, params={"tables": tables}
  )
  estimator = estimator_mp.shard_estimator(
    estimator,
    estimator_mp.ShardingConfig("data:4", split=[("tables/", "div")]),
  )
  estimator.train(
    lambda: slices(train).repeat().batch(512), max_steps=_STEPS.value
  )
  result = estimator.evaluate(lambda: slices(held_out).batch(512))
  print("auc %.3f" % result["auc"])
  (first,) = estimator.predict(lambda: slices(held_out).take(1).batch(1))
  print("the first impression is clicked: %.1f" % first["click"][0])


if __name__ == "__main__":
  app.run(main)
