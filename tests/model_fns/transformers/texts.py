"""Small transformers, what they read, and runs of them to be compared."""

import os
from collections.abc import Mapping
from typing import Any

import estimator_mp

import numpy as np
import tensorflow as tf

SIZES: Mapping[str, Any] = {
  "num_layers": 2,
  "hidden_size": 8,
  "num_heads": 2,
  "sequence_length": 12,
  "vocabulary_size": 13,
}
LENGTH = 6
EXAMPLES = 20

_rng = np.random.RandomState(3)
_IDS = _rng.randint(13, size=[EXAMPLES, LENGTH + 1]).astype(np.int32)
TOKENS, NEXT = _IDS[:, :-1], _IDS[:, 1:]
LENGTHS = _rng.randint(1, LENGTH + 1, size=[EXAMPLES]).astype(np.int32)
CLASSES = _rng.randint(3, size=[EXAMPLES, 1]).astype(np.int32)
WEIGHTS = _rng.uniform(0.0, 1.0, size=[EXAMPLES, LENGTH]).astype(np.float32)


def batches_of(batch, size=8):
  """Returns an input_fn; by default the last of three batches is short."""
  return lambda: tf.data.Dataset.from_tensor_slices(batch).batch(size)


def checkpoint_of(test, model_fn, batch):
  """Trains the plain model a little; returns the path of its checkpoint."""
  config = tf.estimator.RunConfig(
    model_dir=os.path.join(test.create_tempdir().full_path, "plain"),
    tf_random_seed=5,
    checkpoint_save_graph_def=False,  # Text of it takes long.
  )
  estimator = tf.estimator.Estimator(model_fn, config=config)
  estimator.train(batches_of(batch), steps=2)
  return estimator.latest_checkpoint()


def estimator_of(model_fn, config):
  """Returns an Estimator for a model_fn that `config` has sharded, or not."""
  if config is None:
    made = tf.estimator.RunConfig(tf_random_seed=5)
  else:
    made = estimator_mp.run_config(config, tf_random_seed=5)
  return tf.estimator.Estimator(model_fn, config=made)


def predictions_of(model_fn, config, checkpoint, features, batch_size=8):
  """Returns what a model predicts for all examples, by name."""
  found = estimator_of(model_fn, config).predict(
    batches_of(features, batch_size), checkpoint_path=checkpoint
  )
  rows = list(found)
  return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def assert_same_serving(test, make, config, batch, **sampling):
  """Asserts that a sharded model evaluates and predicts as the plain one.

  Args:
    test: The test.
    make: Makes the model_fn.
    config: How it is sharded.
    batch: What it is trained on for a little, evaluated on, and asked.
    **sampling: Further arguments of `make` for predictions.

  Returns:
    The plain model's metrics.
  """
  checkpoint = checkpoint_of(test, make(), batch)
  metrics, of_plain = (
    estimator_of(make(config=c), c).evaluate(
      batches_of(batch), checkpoint_path=checkpoint
    )
    for c in (config, None)
  )
  predictions, of_plain_model = (
    predictions_of(make(config=c, **sampling), c, checkpoint, batch[0])
    for c in (config, None)
  )
  for found, expected, atol in (
    (metrics, of_plain, 0.0),
    (predictions, of_plain_model, 1e-6),
  ):
    test.assertCountEqual(found, expected)
    for name, value in expected.items():
      np.testing.assert_allclose(
        found[name], value, rtol=1e-6, atol=atol, err_msg=name
      )
  return of_plain
