"""Checkpoints of models whose variables are split, and initial values.

That steps are the plain model's, pairs_test and model_axis/any_split_test say.
"""

import os

import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, programs, runs
from tests.estimator_mp.models import catalogue

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = catalogue.MODELS["cnn"].batch
# A column layer, then a row layer; tables by rows, or by columns.
_MLP = ((r"^dense(_2)?/kernel$", 1), (r"^dense_[13]/kernel$", 0))
_DEEPFM = (
  (r"/item_.*embedding_weights$", "div"),
  (r"/item/weights$", 0),
  (r"^dense(_1)?/kernel$", 1),
)


def _config(mesh, num_micro_batches=1, split="auto", **fields):
  return estimator_mp.ShardingConfig(
    mesh, num_micro_batches=num_micro_batches, split=split, **fields
  )


class CheckpointTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [("mlp_adam", "mlp_adam", _MLP), ("deepfm", "deepfm", _DEEPFM)]
    )
  )
  def test_moves_between_shards_and_the_plain_model(self, name, split):
    """Two steps each on several numbers of devices, between plain ones."""
    model = catalogue.MODELS[name]
    folder = self.create_tempdir().full_path
    dirs = [os.path.join(folder, kind) for kind in ("plain", "moved")]
    meshes = tiers.sample(("model:3", "model:2", "model:4"))
    for mesh in (None, *meshes, None):
      losses = []
      for model_dir, of_mesh in zip(dirs, (None, mesh), strict=True):
        model_fn, config = model.model_fn, None
        if of_mesh is not None:
          config = _config(of_mesh, split=split)
          model_fn = estimator_mp.shard_model_fn(model_fn, config)
        tf.keras.utils.set_random_seed(3)  # Layers draw from Python's numbers.
        losses.append(
          runs.train(model_fn, config, model.params, model_dir, steps=2)
        )
      with self.subTest(mesh=mesh):
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
        plain, moved = map(runs.variables_of, dirs)
        self.assertEqual(
          {variable: value.shape for variable, value in moved.items()},
          {variable: value.shape for variable, value in plain.items()},
        )
        self.assertEqual(moved["global_step"], plain["global_step"])


class HookTest(parameterized.TestCase):
  @parameterized.parameters(("model:2", 1), ("stage:2,model:2", 2))
  def test_updates_that_a_hook_runs_are_the_plain_ones(self, mesh, count):
    """They read a variable that had no value."""
    model = catalogue.MODELS["gan_in_turns"]
    plain, sharded = runs.plain_and_sharded(
      self,
      model.model_fn,
      _config(mesh, count),
      model.params,
      input_fn=_batches_of_a_gan,
    )
    runs.assert_same_training(self, sharded, plain)


def _batches_of_a_gan():
  return catalogue.MODELS["gan_in_turns"].input_fn("static").repeat()


def _one_table(features, labels, mode):
  table = v1.get_variable(
    "table",
    [4000, 8],
    initializer=v1.truncated_normal_initializer(stddev=0.5),
  )
  logits = tf.reduce_sum(
    tf.nn.embedding_lookup(table, features["ids"]), [1, 2], keepdims=True
  )[:, 0]
  return parts.spec(mode, parts.mean_loss(labels, logits))


class InitialValuesTest(parameterized.TestCase):
  def _table(self, seed, **fields):
    config = _config("model:2", split=(("^table$", "div"),), **fields)
    program = programs.Program(_one_table, config, _BATCH, seed=seed)
    return program.variables()["table"]

  def test_each_shard_draws_numbers_of_its_own(self):
    table = self._table(11, plain_initial_bytes=0)
    first, second = np.split(table, 2)
    self.assertLess(np.mean(first == second), 1e-3)
    for half in (first, second):
      # Cut off at two standard deviations.
      self.assertAlmostEqual(np.std(half), 0.88 * 0.5, delta=0.01)
      self.assertAlmostEqual(np.mean(half), 0.0, delta=0.02)
    again = self._table(11, plain_initial_bytes=0)
    np.testing.assert_array_equal(again, table)
    other = self._table(12, plain_initial_bytes=0)
    self.assertLess(np.mean(other == table), 1e-3)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("cnn", "cnn", r"^dense/kernel$"),
        ("transformer", "transformer", r"pooler/kernel$"),
      ]
    )
  )
  def test_seeds_of_the_graph_are_the_plain_ones(self, name, split):
    """Masks of dropout are those of the plain model, too."""
    model = catalogue.MODELS[name]
    config = _config("model:2", split=((split, 1),))
    of_plain, of_split = (
      {
        op.name: (op.get_attr("seed"), op.get_attr("seed2"))
        for op in programs.Program(
          model.model_fn, of, _BATCH, model.params
        ).graph.get_operations()
        if "seed2" in op.node_def.attr
      }
      for of in (None, config)
    )
    self.assertTrue(any("dropout" in name for name in of_plain))
    self.assertLessEqual(of_plain.items(), of_split.items())


if __name__ == "__main__":
  absltest.main()
