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

  @parameterized.named_parameters(
    ("strategies", {}, True, "train_distribute and experimental_distribute"),
    ("clusters", _task("worker"), False, "TF_CONFIG and .*remote_cluster"),
  )
  def test_refuses_what_is_given_twice(self, tf_config, has_strategy, message):
    config = tf.estimator.RunConfig()
    config._train_distribute = self.strategy if has_strategy else None
    config._experimental_distribute = _distribute_config(
      train_distribute=self.strategy, remote_cluster={"worker": ["c:1"]}
    )
    with self.assertRaisesRegex(ValueError, message):
      estimator_training.init_run_config(config, tf_config)

  @parameterized.named_parameters(
    ("train", _task("worker"), "train", "call tf.estimator.train_and_evaluate"),
    (
      "evaluate",
      _task("worker", 0, {**_CLUSTER, "evaluator": ["d:1"]}),
      "evaluate",
      "only tf.estimator.train_and_evaluate",
    ),
  )
  def test_refuses_to_drive_a_cluster(self, tf_config, method, message):
    with mock.patch.dict(os.environ, TF_CONFIG=json.dumps(tf_config)):
      estimator = tf.estimator.Estimator(
        lambda features, labels, mode: None,
        self.create_tempdir().full_path,
        tf.estimator.RunConfig(
          train_distribute=self.strategy, eval_distribute=self.strategy
        ),
      )
      with self.assertRaises(ValueError) as raised:
        getattr(estimator, method)(lambda: tf.data.Dataset.range(1), steps=1)
    if not versions.has_own_estimator(tf.__version__):
      self.assertIn(message, str(raised.exception))  # 2.15 has its own words.

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
    with self.assertRaisesRegex(ValueError, "'evaluator'.*'worker', 'ps'"):
      estimator_training.global_id(cluster, "evaluator", 0)


def _plain(value):
  return value.as_dict() if isinstance(value, tf.train.ClusterSpec) else value


class TpuTest(parameterized.TestCase):
  @parameterized.parameters(
    (session_support.start_worker_watchdog, "watchdog"),
    (session_support.ShutdownAllWorkers, "ShutdownAllWorkers"),
    (tpu_embedding.TPUEmbedding, "TPUEmbedding"),
    (tpu_embedding.EnqueueData.from_sparse_tensor, "EnqueueData"),
    (tpu_embedding_gradient.create_dummy_table_variables, "embedding table"),
  )
  def test_refuses_a_tpu(self, use, what):
    with self.assertRaisesRegex(
      NotImplementedError,
      f"{what}.* drives a TPU.*{tf.__version__}.*use_tpu=False",
    ):
      use()

  @parameterized.parameters(
    ("Adagrad", dict(initial_accumulator=0.0), "=0.0 must be greater than 0"),
    ("Adam", dict(beta2=1.0), "beta2=1.0 must be .* less than 1"),
    (
      "Adam",
      dict(lazy_adam=False, use_gradient_accumulation=False),
      "lazy_adam=False .* unless use_gradient_accumulation=True",
    ),
    ("Ftrl", dict(learning_rate_power=0.5), "_power=0.5 must be at most 0"),
    (
      "StochasticGradientDescent",
      dict(use_gradient_accumulation=False, clip_gradient_min=-1.0),
      r"\(-1.0, None\), which needs use_gradient_accumulation=True",
    ),
  )
  def test_parameters_are_checked(self, name, arguments, message):
    make = getattr(tpu_embedding, f"{name}Parameters")
    with self.assertRaisesRegex(ValueError, message):
      make(0.1, **arguments)

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
