"""A mesh over the tasks of a cluster: the plain model's training."""

import os
import tempfile

import estimator_mp
from estimator_mp.session import distribution
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.distributed import clusters
from tests.estimator_mp.models import catalogue, data

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _serving_input_fn():
  features = {"x": v1.placeholder(tf.float32, [None, 10])}
  receiver = tf.estimator.export.ServingInputReceiver
  return receiver(features, features)


class MeshOverTasksTest(parameterized.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.model = catalogue.NETWORKS["mlp_sgd"]
    folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
    cls.start = os.path.join(folder, "start")
    os.makedirs(cls.start)
    model_fn, params = cls.model.model_fn, cls.model.params
    runs.train(model_fn, None, params, cls.start, 1)
    plain_dir = os.path.join(folder, "plain")
    cls.plain = runs.go_on(model_fn, None, params, cls.start, plain_dir)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("stages", {"mesh": "stage:3", "num_micro_batches": 3}, 3),
        ("replicas", {"mesh": "data:3", "aggregation": "hierarchical"}, 3),
        ("hybrid", {"mesh": "data:2,stage:2", "num_micro_batches": 2}, 2),
        ("parts", {"mesh": "model:3"}, 3),
        ("zero", {"mesh": "data:3", "optimizer_state": "sharded"}, 3),
      ]
    )
  )
  def test_trains_as_the_plain_model(self, settings, num_tasks):
    with clusters.in_process(2, chief=1, worker=num_tasks - 1):
      config = estimator_mp.ShardingConfig(**settings)
      model_dir = os.path.join(self.create_tempdir().full_path, "sharded")
      model_fn = estimator_mp.shard_model_fn(self.model.model_fn, config)
      with distribution.cluster_run():
        run = runs.go_on(
          model_fn, config, self.model.params, self.start, model_dir
        )
      exported = run.estimator.export_saved_model(
        os.path.join(model_dir, "export"), _serving_input_fn
      )
      runs.assert_same_training(self, run, self.plain, 1e-5)
      runs.assert_same_serving(self, run, self.plain, 1e-5)
      self.assertIn(b"saved_model.pb", os.listdir(exported))
      found = {name for name, held in run.devices.items() if held.variables}
      self.assertContainsSubset(config.create_mesh().devices, found)

  @tiers.slow
  def test_a_trace_groups_devices_by_task(self):
    folder = self.create_tempdir().full_path
    with clusters.in_process(2, chief=1, worker=1):
      config = estimator_mp.ShardingConfig(
        "data:2,stage:2", num_micro_batches=3
      )
      hook = estimator_mp.TraceHook([2], os.path.join(folder, "trace"))
      estimator = runs.make_estimator(
        estimator_mp.shard_model_fn(self.model.model_fn, config),
        config,
        self.model.params,
        os.path.join(folder, "model"),
      )
      with distribution.cluster_run():
        estimator.train(data.input_fn, hooks=[hook], steps=2)
    (trace,) = hook.traces
    self.assertEqual(
      [trace.group_of(device) for device in range(4)],
      2 * ["replica 0, chief 0"] + 2 * ["replica 1, worker 0"],
    )
    self.assertLen(trace.spans, 2 * 2 * 2 * 3)
    # Each stage sends activations or gradients of its micro-batches.
    self.assertGreater(trace.total_sent_bytes, trace.sent_between_replicas)
    self.assertContainsSubset(
      ["step_2.json", "step_2.png"], os.listdir(os.path.join(folder, "trace"))
    )


if __name__ == "__main__":
  absltest.main()
