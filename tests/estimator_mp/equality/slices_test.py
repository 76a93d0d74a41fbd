"""Slices of the batch: what they train is what the plain model trains."""

import estimator_mp
from tests import tiers
from tests.estimator_mp import programs, runs, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_STEPS = 3
_MESHES = {
  "stage": {"mesh": "stage:2", "num_micro_batches": 4},
  "data": {"mesh": "data:2"},
  "data_stage": {"mesh": "data:2,stage:2", "num_micro_batches": 2},
  "rounds": {
    "mesh": "data:2,stage:2",
    "num_micro_batches": 2,
    "gradient_accumulation_steps": 2,
  },
  "stage_model": {"mesh": "stage:2,model:2", "num_micro_batches": 2},
  "zero": {"mesh": "data:2", "optimizer_state": "sharded"},
  "split_backward": {
    "mesh": "stage:2",
    "num_micro_batches": 4,
    "schedule": "zb1p",
  },
  "recompute": {
    "mesh": "stage:2",
    "num_micro_batches": 4,
    "recompute": "always",
  },
  "functions": {
    "mesh": "stage:2",
    "num_micro_batches": 4,
    "cells": "functions",
  },
}
# All meshes with one model, and all models with two meshes.
_CASES = [
  *((f"transformer_{mesh}", "transformer", mesh) for mesh in _MESHES),
  *(
    (f"{name}_{mesh}", name, mesh)
    for name in (
      "mlp_adam",
      "cnn",
      "deepfm",
      "lstm",
      "two_optimizers",
      "keras_functional",
    )
    for mesh in ("data_stage", "stage_model")
  ),
]
_FAST = [
  ("transformer_stage", "transformer", "stage"),
  ("cnn_data_stage", "cnn", "data_stage"),
  ("lstm_stage_model", "lstm", "stage_model"),
  ("deepfm_zero", "deepfm", "zero"),
]


class SlicesTest(parameterized.TestCase):
  def _train(self, model, config, start):
    """Trains on from a checkpoint."""
    model_fn = model.model_fn
    if config is not None:
      model_fn = estimator_mp.shard_model_fn(model_fn, config)
    folder = self.create_tempdir().full_path
    return runs.go_on(
      model_fn, config, model.params, start, f"{folder}/model", _STEPS
    )

  @parameterized.named_parameters(_FAST if tiers.FAST else tiers.thin(_CASES))
  def test_as_the_plain_model(self, name, mesh):
    model = zoo.PURE_MODELS[name]
    start = self.create_tempdir().full_path
    runs.train(model.model_fn, None, model.params, start, 1)
    plain = self._train(model, None, start)
    config = estimator_mp.ShardingConfig(**_MESHES[mesh])
    run = self._train(model, config, start)
    self.assertSequenceAlmostEqual(run.losses, plain.losses, delta=1e-5)
    self.assertCountEqual(run.variables, plain.variables)
    for key, value in plain.variables.items():
      np.testing.assert_allclose(
        run.variables[key], value, rtol=1e-4, atol=1e-5, err_msg=key
      )

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("transformer", "transformer", "stage_model"),
        ("cnn", "cnn", "stage"),
        ("lstm", "lstm", "stage"),
        ("deepfm", "deepfm", "data_stage"),
      ]
    )
  )
  def test_evaluates_and_predicts_as_the_plain_model(self, name, mesh):
    model = zoo.PURE_MODELS[name]
    start = self.create_tempdir().full_path
    runs.train(model.model_fn, None, model.params, start, 1)
    plain = self._train(model, None, start)
    config = estimator_mp.ShardingConfig(**_MESHES[mesh])
    run = self._train(model, config, start)
    runs.assert_same_serving(self, run, plain, rtol=1e-4)


class ErrorsTest(absltest.TestCase):
  def test_gradient_of_a_sparse_gradient(self):
    def model_fn(features, labels, mode):
      table = v1.get_variable("table", [50, 8])
      net = tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), 1)
      loss = tf.reduce_mean(tf.square(tf.reduce_sum(net, 1) - labels[:, 0]))
      (gradient,) = tf.gradients(loss, [table])
      penalty = tf.reduce_sum(tf.square(gradient.values))
      train_op = v1.train.GradientDescentOptimizer(0.1).minimize(
        loss + penalty, v1.train.get_global_step()
      )
      return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    batch = ({"ids": zoo.FEATURES["ids"]}, zoo.LABELS.astype(np.float32))
    config = estimator_mp.ShardingConfig("data:2")
    with self.assertRaisesRegex(
      ValueError,
      "is a part of a sparse gradient, and its gradient is asked for; "
      "micro-batches and replicas cannot differentiate a sparse gradient: read "
      r"the variable whole \(tf.identity of it\), or use num_micro_batches=1 "
      "and no data axis$",
    ):
      programs.Program(model_fn, config, batch)


if __name__ == "__main__":
  absltest.main()
