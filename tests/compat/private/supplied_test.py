"""compat's stand-ins for modules of TensorFlow do what those did."""

import importlib
import json
import os
from unittest import mock

import compat

from absl.testing import absltest, parameterized

compat.install()
from compat import versions  # noqa: E402
from compat.private.supplied import (  # noqa: E402
  estimator_training,
  session_support,
  tpu_embedding,
  tpu_embedding_gradient,
)

import tensorflow as tf  # noqa: E402

_CLUSTER = {
  "chief": ["a:1"],
  "ps": ["b:1", "b:2"],
  "worker": ["c:1", "c:2"],
}
_MASTER_CLUSTER = {"master": ["a:1"], "worker": ["c:1"]}
_FIELDS = (
  "_cluster_spec",
  "_distribute_coordinator_mode",
  "_eval_distribute",
  "_global_id_in_cluster",
  "_is_chief",
  "_master",
  "_num_ps_replicas",
  "_num_worker_replicas",
  "_task_id",
  "_task_type",
  "_train_distribute",
)


def _modules():
  """Returns compat's module, and TensorFlow's own where it has one."""
  modules = [estimator_training]
  if versions.has_own_estimator(tf.__version__):
    modules.append(
      importlib.import_module("tensorflow.python.distribute.estimator_training")
    )
  return modules


def _task(kind, index=0, cluster=_CLUSTER):
  return {"cluster": cluster, "task": {"type": kind, "index": index}}


def _distribute_config(**kwargs):
  module = importlib.import_module(
    "tensorflow.python.distribute.distribute_config"
  )
  return module.DistributeConfig(**kwargs)


class InitRunConfigTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.strategy = tf.distribute.MirroredStrategy(["/cpu:0"])

  @parameterized.named_parameters(
    ("local", {}, True, None, "worker", True),
    ("cluster", _task("worker", 1), True, "independent_worker", "worker", True),
    ("no_strategy", _task("worker", 1), False, None, "worker", False),
    ("ps", _task("ps", 1), False, None, "ps", False),
    ("chief", _task("chief"), False, None, "chief", True),
    (
      "master",
      _task("worker", 0, _MASTER_CLUSTER),
      True,
      None,
      "worker",
      False,
    ),
  )
  def test_by_tf_config(self, tf_config, has_strategy, mode, kind, is_chief):
    """Our RunConfig is as expected, and on 2.15 as TensorFlow's is."""
    described = []
    for module in _modules():
      config = tf.estimator.RunConfig()
      config._train_distribute = self.strategy if has_strategy else None
      module.init_run_config(config, tf_config)
      self.assertEqual(config._distribute_coordinator_mode, mode)
      self.assertEqual(config.task_type, kind)
      self.assertEqual(config.is_chief, is_chief)
      runs = module.should_run_distribute_coordinator(config)
      self.assertEqual(runs, mode is not None)
      described.append(
        {
          field: _plain(getattr(config, field))
          for field in _FIELDS
          if hasattr(config, field)
        }
      )
    self.assertEqual(described[0], described[-1])

  def test_remote_cluster_is_driven_from_here(self):
    for module in _modules():
      config = tf.estimator.RunConfig()
      config._experimental_distribute = _distribute_config(
        train_distribute=self.strategy,
        eval_distribute=self.strategy,
        remote_cluster={"worker": ["c:1"]},
      )
      module.init_run_config(config, {})
      self.assertEqual(config._distribute_coordinator_mode, "standalone_client")
      self.assertIs(config.train_distribute, self.strategy)
      self.assertIs(config.eval_distribute, self.strategy)
      self.assertTrue(module.should_run_distribute_coordinator(config))

  def test_unknown_mode_is_ignored(self):
    config = tf.estimator.RunConfig()
    config._distribute_coordinator_mode = "other"
    for module in _modules():
      self.assertFalse(module.should_run_distribute_coordinator(config))

  def test_refuses_two_strategies(self):
    config = tf.estimator.RunConfig()
    config._train_distribute = self.strategy
    config._experimental_distribute = _distribute_config(
      train_distribute=self.strategy
    )
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "Both train_distribute and experimental_distribute.train_distribute are "
      "set in the RunConfig. Leave one of them out.",
    ):
      estimator_training.init_run_config(config, {})

  def test_refuses_two_clusters(self):
    config = tf.estimator.RunConfig()
    config._experimental_distribute = _distribute_config(
      train_distribute=self.strategy, remote_cluster={"worker": ["c:1"]}
    )
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "The cluster is given twice: by TF_CONFIG and by "
      "experimental_distribute.remote_cluster. Leave one of them out.",
    ):
      estimator_training.init_run_config(config, _task("worker"))

  @parameterized.named_parameters(
    (
      "train_by_tf_config",
      _task("worker"),
      lambda estimator, input_fn: estimator.train(input_fn, steps=1),
      "Estimator.train cannot run on the cluster of TF_CONFIG under a "
      "tf.distribute strategy; call tf.estimator.train_and_evaluate, or set "
      "experimental_distribute.remote_cluster in the RunConfig.",
    ),
    (
      "evaluate_with_evaluator",
      _task("worker", 0, {**_CLUSTER, "evaluator": ["d:1"]}),
      lambda estimator, input_fn: estimator.evaluate(input_fn, steps=1),
      "Estimator.evaluate was called on a cluster with an 'evaluator' job; "
      "only tf.estimator.train_and_evaluate serves an evaluator.",
    ),
  )
  def test_refuses_to_drive_a_cluster(self, tf_config, use, message):
    with mock.patch.dict(os.environ, TF_CONFIG=json.dumps(tf_config)):
      estimator = tf.estimator.Estimator(
        lambda features, labels, mode: None,
        self.create_tempdir().full_path,
        tf.estimator.RunConfig(
          train_distribute=self.strategy, eval_distribute=self.strategy
        ),
      )
      with self.assertRaises(ValueError) as raised:
        use(estimator, lambda: tf.data.Dataset.range(1))
    if not versions.has_own_estimator(tf.__version__):
      self.assertEqual(
        str(raised.exception), message
      )  # 2.15 has its own words.

  def test_global_ids(self):
    """The chief is first, parameter servers last, all numbers are used."""
    cluster = tf.train.ClusterSpec(_CLUSTER)
    ids = [
      estimator_training.global_id(cluster, kind, index)
      for kind in ("chief", "worker", "ps")
      for index in range(cluster.num_tasks(kind))
    ]
    self.assertEqual(ids, [0, 1, 2, 3, 4])
    self.assertEqual(estimator_training.global_id(cluster, None, 0), 0)
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "This task's job 'evaluator' is not in the cluster, which has the jobs "
      "['chief', 'worker', 'ps'].",
    ):
      estimator_training.global_id(cluster, "evaluator", 0)


def _plain(value):
  return value.as_dict() if isinstance(value, tf.train.ClusterSpec) else value


class TpuTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "watchdog",
      session_support.start_worker_watchdog,
      "The TPU worker watchdog",
    ),
    (
      "hook",
      session_support.ShutdownAllWorkers,
      "The hook ShutdownAllWorkers",
    ),
    (
      "embedding",
      tpu_embedding.TPUEmbedding,
      "An embedding table on a TPU (TPUEmbedding)",
    ),
    (
      "enqueue",
      tpu_embedding.EnqueueData.from_sparse_tensor,
      "Feeding embeddings (EnqueueData)",
    ),
    (
      "gradient",
      tpu_embedding_gradient.create_dummy_table_variables,
      "An embedding table on a TPU",
    ),
  )
  def test_refuses_a_tpu(self, use, what):
    with self.assertRaisesWithLiteralMatch(
      NotImplementedError,
      f"{what} drives a TPU, and TensorFlow {tf.__version__} no longer has the "
      "code for that. Use TPUEstimator(use_tpu=False) to run on CPU or GPU, or "
      "TensorFlow 2.15 on a TPU.",
    ):
      use()

  @parameterized.named_parameters(
    (
      "adagrad",
      lambda: tpu_embedding.AdagradParameters(0.1, 0.0),
      "initial_accumulator=0.0 must be greater than 0.",
    ),
    (
      "adam",
      lambda: tpu_embedding.AdamParameters(0.1, beta2=1.0),
      "beta2=1.0 must be at least 0 and less than 1.",
    ),
    (
      "lazy_adam",
      lambda: tpu_embedding.AdamParameters(
        0.1, lazy_adam=False, use_gradient_accumulation=False
      ),
      "lazy_adam=False must be True unless use_gradient_accumulation=True.",
    ),
    (
      "ftrl",
      lambda: tpu_embedding.FtrlParameters(0.1, learning_rate_power=0.5),
      "learning_rate_power=0.5 must be at most 0.",
    ),
    (
      "clipping",
      lambda: tpu_embedding.MomentumParameters(
        0.1, 0.9, use_gradient_accumulation=False, clip_gradient_min=-1.0
      ),
      "Gradients are clipped to (-1.0, None), which needs "
      "use_gradient_accumulation=True.",
    ),
  )
  def test_parameters_are_checked(self, make, message):
    with self.assertRaisesWithLiteralMatch(ValueError, message):
      make()

  def test_embedding_config_of_a_program_without_tpu(self):
    """EmbeddingConfigSpec takes the descriptions that programs give."""
    spec = tf.compat.v1.estimator.tpu.experimental.EmbeddingConfigSpec
    column = tf.compat.v1.tpu.experimental.embedding_column(
      tf.feature_column.categorical_column_with_identity("id", 8), 4
    )
    sgd = tf.compat.v1.tpu.experimental.StochasticGradientDescentParameters
    made = spec([column], sgd(0.1))
    self.assertEqual(made.optimization_parameters.learning_rate, 0.1)
    with self.assertRaisesRegex(ValueError, "optimization_parameters must be"):
      spec([column], "sgd")


if __name__ == "__main__":
  absltest.main()
