"""XLA: auto-clustering and compiled functions, sharded as they are plain.

On CPUs auto-clustering has to be allowed by a flag, which TensorFlow reads
once: this is a process of its own.
"""

import os

os.environ["TF_XLA_FLAGS"] = (
  os.environ.get("TF_XLA_FLAGS", "")
  + " --tf_xla_cpu_global_jit --tf_xla_min_cluster_size=2"
)

import collections
import random
from unittest import mock

import estimator_mp
from estimator_mp.session import session_config
from tests import tiers
from tests.estimator_mp import parts, programs, runs
from tests.estimator_mp.models import catalogue, data, registry

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_MODEL = catalogue.MODELS["mlp_momentum"]
_BATCH = programs.examples(_MODEL.batch, 0, 24)
_MESHES = {
  "micro_batches": {"mesh": "stage:2", "num_micro_batches": 4},
  "zero_bubble": {
    "mesh": "stage:2",
    "num_micro_batches": 4,
    "schedule": "zb1p",
    "recompute": "always",
  },
  "replicas": {
    "mesh": "data:2,stage:2",
    "num_micro_batches": 2,
    "optimizer_state": "sharded",
  },
  "model_axis": {"mesh": "model:2"},
}


def _clustering():
  config = v1.ConfigProto()
  config.graph_options.optimizer_options.global_jit_level = (
    v1.OptimizerOptions.ON_2
  )
  return config


def _num_compiled(program):
  """Returns how many ops of XLA each device ran in a step."""
  program.step(_BATCH)  # It compiles.
  found = collections.Counter()
  for graph in program.trace(_BATCH).partition_graphs:
    for node in graph.node:
      found[node.device] += node.op in ("_XlaRun", "XlaLaunch")
  return +found


@tf.function(jit_compile=True, autograph=False)
def _gelu(x):
  return 0.5 * x * (1.0 + tf.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def _compiled_function(features, labels, mode):
  """A layer's activation is a function that XLA has to compile."""
  net = features["x"]
  for name in ("a", "b", "c"):
    net = _gelu(v1.layers.dense(net, 16, name=name))
  loss = parts.mean_loss(labels, v1.layers.dense(net, 1))
  return parts.spec(mode, loss, v1.train.AdamOptimizer(0.01))


class XlaTest(parameterized.TestCase):
  def _check(self, model, mesh, config=None):
    """Asserts that a sharded model is the plain one; returns its program."""
    return programs.assert_as_plain(
      self,
      model,
      estimator_mp.ShardingConfig(**_MESHES[mesh]),
      programs.STATIC_SIZES,
      is_static=True,
      session_config=config,
    )

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [(name, name) for name in ("zero_bubble", "replicas", "model_axis")]
    )
  )
  def test_auto_clustering(self, mesh):
    program = self._check(_MODEL, mesh, _clustering())
    devices = estimator_mp.ShardingConfig(**_MESHES[mesh]).create_mesh().devices
    self.assertLen(_num_compiled(program), len(devices))

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample([(name, name) for name in ("micro_batches", "replicas")])
  )
  def test_compiled_functions(self, mesh):
    self._check(registry.Model(_compiled_function), mesh)

  @tiers.slow
  def test_no_two_cells_are_one_op(self):
    """XLA joins ops of one scope, and each cell has its own.

    That is 4 forward and 4 backward passes at least, which were 7 ops of XLA.
    """
    program = programs.Program(
      _MODEL.model_fn,
      estimator_mp.ShardingConfig(**_MESHES["micro_batches"]),
      _BATCH,
      _MODEL.params,
      session_config=_clustering(),
    )
    counts = _num_compiled(program)
    self.assertLen(counts, 2)
    for device, count in counts.items():
      self.assertGreaterEqual(count, 8, device)

  @tiers.slow
  def test_an_estimator_keeps_its_placement(self):
    """The hook that compares it with the plan is on by default."""
    config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=2)
    losses = []
    for model_fn, used in (
      (_MODEL.model_fn, None),
      (estimator_mp.shard_model_fn(_MODEL.model_fn, config), config),
    ):
      recorder = runs.LossRecorder()
      made = runs.make_estimator(
        model_fn,
        used,
        _MODEL.params,
        self.create_tempdir().full_path,
        session_config=_clustering(),
      )
      random.seed(11)  # Layers of a plain run draw their seeds from here.
      made.train(lambda: data.input_fn().repeat(), steps=2, hooks=[recorder])
      losses.append(recorder.losses)
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)

  @tiers.slow
  def test_compiles_with_xla(self):
    off = v1.ConfigProto()
    off.graph_options.optimizer_options.global_jit_level = (
      v1.OptimizerOptions.OFF
    )
    for flags, config, expected in (
      ("", None, False),
      ("", _clustering(), True),
      ("--tf_xla_auto_jit=2", None, True),
      ("--tf_xla_auto_jit=single-gpu(1)", v1.ConfigProto(), True),
      ("--tf_xla_auto_jit=0", None, False),
      ("--tf_xla_auto_jit=2", off, False),
    ):
      with (
        self.subTest(flags=flags, config=config),
        mock.patch.dict(os.environ, TF_XLA_FLAGS=flags),
      ):
        self.assertEqual(session_config.compiles_with_xla(config), expected)


if __name__ == "__main__":
  absltest.main()
