"""What every model of this folder's tests has to show: sharding is not seen."""

import os

import estimator_mp
from tests.estimator_mp import runs, versions, zoo

from absl.testing import parameterized


class TransparencyTestCase(parameterized.TestCase):
  """Compares sharded runs of a model with the plain one."""

  def assert_transparent(
    self, model: zoo.Model, input_fn=zoo.input_fn
  ) -> dict[str, runs.Run]:
    """Asserts that a model sharded trains and serves as it does plain.

    From one checkpoint it is trained on `model.meshes` by the automatic
    placement, and on the largest of them by `model.rules`; on TensorFlow 2.15
    on the largest only.

    Args:
      model: The model.
      input_fn: What it is trained and evaluated on.

    Returns:
      The sharded runs.
    """
    folder = self.create_tempdir().full_path
    start = os.path.join(folder, "start")
    runs.train(model.model_fn, None, model.params, start, 1, input_fn)

    def go_on(model_fn, config, name):
      return runs.go_on(
        model_fn,
        config,
        model.params,
        start,
        os.path.join(folder, name),
        steps=3,
        input_fn=input_fn,
      )

    plain = go_on(model.model_fn, None, "plain")
    largest = model.meshes[-1]
    configs = {
      f"auto_{mesh}": estimator_mp.ShardingConfig(mesh)
      for mesh in versions.some(model.meshes, largest)
    }
    configs["rules"] = estimator_mp.ShardingConfig(
      largest, placement=model.rules
    )
    sharded = {}
    for name, config in configs.items():
      with self.subTest(name):
        model_fn = estimator_mp.shard_model_fn(model.model_fn, config)
        run = go_on(model_fn, config, name.replace(":", "_"))
        runs.assert_same_training(self, run, plain)
        self.assertLen(run.devices, config.create_mesh().size)
        for device, contents in run.devices.items():
          self.assertNotEmpty(contents.variables, device)
        if name == f"auto_{largest}":
          runs.assert_same_serving(self, run, plain)
        sharded[name] = run
    return sharded
