"""Models that nobody edited give sharded what they give unsharded."""

import os
import tempfile

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs, zoo

from absl.testing import absltest, parameterized

# Optimizers of TensorFlow 1 that are placed as Adam is.
_OF_ONE_NETWORK = ("mlp_sgd", "mlp_momentum", "mlp_adagrad", "mlp_ftrl")


class TransparencyTest(parameterized.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
    cls.plain = {}

  def _start_and_plain_run(self, name):
    """Returns a checkpoint to start from, and the plain run from there."""
    start = os.path.join(self.folder, name)
    if name not in self.plain:
      model = zoo.MODELS[name]
      runs.train(model.model_fn, None, model.params, start, steps=2)
      self.plain[name] = runs.go_on(
        model.model_fn, None, model.params, start, start + "_plain"
      )
    return start, self.plain[name]

  @parameterized.named_parameters(
    tiers.sample(
      [
        (f"{name}_{mesh.replace(':', '')}", name, mesh)
        for name, model in zoo.MODELS.items()
        for mesh in model.meshes
      ]
    )
  )
  def test_automatic_placement(self, name, mesh):
    run = self._check(name, estimator_mp.ShardingConfig(mesh))
    self.assertLen(run.devices, estimator_mp.Mesh.create(mesh).size)
    for device, contents in run.devices.items():
      self.assertNotEmpty(contents.variables, device)

  @parameterized.named_parameters(
    (name, name)
    for name in tiers.sample(
      # Of the networks that differ by their optimizer one: slots follow their
      # variable, wherever that is.
      [x for x in zoo.MODELS if x not in _OF_ONE_NETWORK]
    )
  )
  def test_rules(self, name):
    rules = zoo.MODELS[name].rules
    self._check(name, estimator_mp.ShardingConfig("stage:3", placement=rules))

  @tiers.slow
  @tiers.newest_only
  @parameterized.named_parameters(
    ("one_of_four_is_empty", "cnn", "stage:4", (0, 2, 3)),
    ("two_parts_on_one_of_two", "lstm", "stage:2", (0, 0, 1)),
  )
  def test_rules_for_other_meshes(self, name, mesh, stages):
    rules = [
      (expression, stages[stage])
      for expression, stage in zoo.MODELS[name].rules
    ]
    self._check(name, estimator_mp.ShardingConfig(mesh, placement=rules))

  def _check(self, name, config):
    """Trains sharded and plain from one checkpoint; returns the sharded run."""
    model = zoo.MODELS[name]
    start, plain = self._start_and_plain_run(name)
    run = runs.go_on(
      estimator_mp.shard_model_fn(model.model_fn, config),
      config,
      model.params,
      start,
      os.path.join(self.create_tempdir().full_path, "run"),
    )
    runs.assert_same_training(self, run, plain)
    if config.mesh == "stage:3":
      runs.assert_same_serving(self, run, plain)
    return run


if __name__ == "__main__":
  absltest.main()
