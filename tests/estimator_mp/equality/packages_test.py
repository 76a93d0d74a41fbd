"""Packages from PyPI, unedited and sharded, give what they give unsharded.

packages.py says how to install them.
"""

import os
import shutil

import estimator_mp
from estimator_mp.placement import transfers
from tests.estimator_mp.equality import packages

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized
from bert import run_classifier
from deepctr.estimator import DeepFMEstimator, xDeepFMEstimator

v1 = tf.compat.v1
tpu = tf.compat.v1.estimator.tpu

# A device function around each variable sends 450 tensors a step of a small
# BERT on four devices.
_MOST_TRANSFERS = 30


class _Recorder(tf.estimator.SessionRunHook):
  """Collects the losses, and what the plan sends."""

  def __init__(self):
    self.losses = []

  def begin(self):
    ops = v1.get_default_graph().get_operations()
    self.transfers = transfers.planned_transfers(ops)

  def before_run(self, run_context):
    losses = run_context.session.graph.get_collection(v1.GraphKeys.LOSSES)
    return tf.estimator.SessionRunArgs(losses[-1])

  def after_run(self, run_context, run_values):
    self.losses.append(float(run_values.results))


def _click_input_fn():
  random = np.random.RandomState(3)
  item = random.randint(0, 20, 256)
  price = random.uniform(size=256).astype(np.float32)
  labels = ((item % 3 == 0) | (price > 0.8)).astype(np.float32)
  data = tf.data.Dataset.from_tensor_slices(
    ({"item": item, "price": price}, labels)
  )
  return data.repeat().batch(64)


def _click_estimator(kind):
  """Returns a function that makes an Estimator of a deepctr model."""
  model_fn = packages.click_model_fn(kind, 20, width=4, hidden_units=(8, 4))

  def make(config, folder):
    if config is None:
      run_config = tf.estimator.RunConfig(folder, tf_random_seed=9)
      return tf.estimator.Estimator(model_fn, config=run_config)
    return tf.estimator.Estimator(
      estimator_mp.shard_model_fn(model_fn, config),
      config=estimator_mp.run_config(config, folder, tf_random_seed=9),
    )

  return make


def _bert_examples():
  random = np.random.RandomState(5)
  rows = random.randint(0, 30, size=[64, 8]).tolist()
  return [
    run_classifier.InputFeatures(row, [1] * 8, [0] * 8, int(row[0] > 14))
    for row in rows
  ]


def _bert_input_fn(params):
  make = run_classifier.input_fn_builder(_bert_examples(), 8, False, True)
  return make(params).repeat()


def _bert_estimator():
  """Returns a function that makes a TPUEstimator of BERT's classifier."""
  model_fn = packages.small_bert(
    num_train_steps=60,
    num_warmup_steps=6,
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=32,
  )

  def make(config, folder):
    if config is None:
      sharded = model_fn
      run_config = tpu.RunConfig(model_dir=folder, tf_random_seed=9)
    else:
      sharded = estimator_mp.shard_model_fn(model_fn, config)
      run_config = estimator_mp.run_config(
        config, folder, tf_random_seed=9, tpu_config=tpu.TPUConfig()
      )
    return tpu.TPUEstimator(
      sharded, use_tpu=False, train_batch_size=16, config=run_config
    )

  return make


_CLICK_RULES = [("embedding|linear", 0), (".", 1)]
_BERT_RULES = [("embeddings|layer_0/", 0), ("layer_1/", 1), (".", 2)]


class PackagesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    # BERT asks a dimension for its `value`.
    v1.disable_v2_tensorshape()
    self.addCleanup(v1.enable_v2_tensorshape)

  @parameterized.named_parameters(
    ("deepfm", _click_estimator, DeepFMEstimator, _click_input_fn, 2),
    ("xdeepfm", _click_estimator, xDeepFMEstimator, _click_input_fn, 2),
    ("bert", _bert_estimator, None, _bert_input_fn, 3),
  )
  def test_losses_are_the_plain_runs(self, factory, kind, input_fn, stages):
    make = factory(kind) if kind else factory()
    rules = _CLICK_RULES if kind else _BERT_RULES
    folder = self.create_tempdir().full_path
    start = os.path.join(folder, "start")
    make(None, start).train(input_fn, steps=2)
    configs = [
      None,
      *map(estimator_mp.ShardingConfig, ("stage:2", "stage:3", "stage:4")),
      estimator_mp.ShardingConfig(f"stage:{stages}", placement=rules),
    ]
    losses = []
    for index, config in enumerate(configs):
      recorder = _Recorder()
      target = os.path.join(folder, str(index))
      shutil.copytree(start, target)
      make(config, target).train(input_fn, steps=10, hooks=[recorder])
      losses.append(recorder.losses)
      self.assertEqual(losses[-1], losses[0])
      self.assertLess(len(recorder.transfers), _MOST_TRANSFERS)
      print(config, len(recorder.transfers), "tensors sent per step")


if __name__ == "__main__":
  absltest.main()
