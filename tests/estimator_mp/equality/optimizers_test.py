"""Optimizers with a queue of their own, and requests that are refused.

The others are with the ordinary model_fns.
"""

from unittest import mock

import estimator_mp
from tests.estimator_mp import parts, programs
from tests.estimator_mp.equality import transparency
from tests.estimator_mp.models import catalogue, networks, registry

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_BATCH = catalogue.MODELS["loops"].batch


def sync_replicas(features, labels, mode):
  """SyncReplicasOptimizer with one worker, and its hook."""
  hooks = []

  def train(loss):
    optimizer = v1.train.SyncReplicasOptimizer(
      v1.train.AdamOptimizer(0.01), 1, 1
    )
    hooks.append(optimizer.make_session_run_hook(is_chief=True))
    return optimizer.minimize(loss, v1.train.get_global_step())

  spec = networks.spec(mode, networks.net(features["x"]), labels, train)
  return spec._replace(training_hooks=hooks)


def _cross_shard(features, labels, mode):
  optimizer = v1.tpu.CrossShardOptimizer(v1.train.AdamOptimizer(0.01))
  loss = parts.mean_loss(labels, parts.logits(features["x"]))
  return parts.spec(mode, loss, optimizer)


class OptimizersTest(transparency.TransparencyTestCase):
  def test_an_optimizer_for_tpus_only(self):
    """TensorFlow has no kernel for it on CPUs and GPUs, sharded or not."""
    config = estimator_mp.ShardingConfig("stage:2")
    with self.assertRaisesRegex(
      ValueError, "'CrossReplicaSum', an op of CrossShardOptimizer that only a "
    ):
      programs.Program(_cross_shard, config, _BATCH)

  def test_gradient_of_a_sparse_gradient(self):
    """A penalty on rows of a gradient, which are an op's like any other."""

    def model_fn(features, labels, mode):
      table = v1.get_variable("table", [50, 8])
      net = tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), 1)
      loss = tf.reduce_mean(tf.square(tf.reduce_sum(net, 1) - labels[:, 0]))
      (gradient,) = tf.gradients(loss, [table])
      penalty = tf.reduce_sum(tf.square(gradient.values))
      train_op = v1.train.GradientDescentOptimizer(0.1).minimize(
        loss + penalty, v1.train.get_global_step()
      )
      return parts.spec(mode, loss, train_op)

    config = estimator_mp.ShardingConfig("data:2")
    plain = programs.Program(model_fn, None, _BATCH)
    sharded = programs.Program(model_fn, config, _BATCH)
    programs.assert_same_steps(self, plain, sharded, [_BATCH])

  def test_sync_replicas(self):
    join = tf.train.Coordinator.join

    def join_soon(self, threads=None, stop_grace_period_secs=0.1, **kwargs):
      # The thread that averages never ends; a session waits two minutes for it.
      del stop_grace_period_secs
      return join(self, threads, 0.1, **kwargs)

    with mock.patch.object(tf.train.Coordinator, "join", join_soon):
      model = registry.Model(sync_replicas, networks.NET_RULES)
      self.assert_transparent(model, trains_only=True)


if __name__ == "__main__":
  absltest.main()
