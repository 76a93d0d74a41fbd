"""Optimizers of all kinds, and several in one model_fn, work when sharded."""

from typing import Any
from unittest import mock

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs, zoo
from tests.estimator_mp.equality import transparency

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN
_Optimizer: Any = v1.train.Optimizer


def _loss(logits, labels):
  return tf.reduce_mean(
    tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, tf.float32), logits)
  )


def penalty_of_a_part(features, labels, mode):
  """The first gradients wanted are of one layer, before the others exist."""
  x = features["x"]
  hidden = v1.layers.dense(x, 16, tf.tanh, name="a")
  penalty = 0.0
  if mode == TRAIN:
    (slope,) = tf.gradients(hidden, [x])
    penalty = 0.01 * tf.reduce_mean(tf.square(slope))
  hidden = v1.layers.dense(hidden, 8, tf.tanh, name="b")
  logits = v1.layers.dense(hidden, 1, name="c")

  def train(loss):
    optimizer = v1.train.AdamOptimizer(0.01)
    return optimizer.minimize(loss + penalty, v1.train.get_global_step())

  return zoo.spec(mode, logits, labels, train)


def nested(features, labels, mode, config):
  """AdaNet's way: two model_fns, one of a canned Estimator, and their mean."""
  canned = v1.estimator.DNNClassifier(
    [16],
    [tf.feature_column.numeric_column("x", [10])],
    optimizer=v1.train.AdagradOptimizer(0.05),
    config=config,
  )

  def tower(features, labels, mode):
    logits = zoo.net(features["x"], "tower")
    optimizer = v1.train.AdamOptimizer(0.01)
    return zoo.spec(mode, logits, labels, optimizer.minimize)

  with v1.variable_scope("first"):
    first = canned.model_fn(features, labels, mode, config)
  second = tower(features, labels, mode)
  logits = (first.predictions["logits"] + second.predictions["logits"]) / 2
  if mode != TRAIN:
    return zoo.spec(mode, logits, labels, None)
  train_op = tf.group(first.train_op, second.train_op)
  return tf.estimator.EstimatorSpec(mode, None, _loss(logits, labels), train_op)


def sync_replicas(features, labels, mode):
  """SyncReplicasOptimizer with one worker, and its hook."""
  hooks = []

  def train(loss):
    optimizer = v1.train.SyncReplicasOptimizer(
      v1.train.AdamOptimizer(0.01), 1, 1
    )
    hooks.append(optimizer.make_session_run_hook(is_chief=True))
    return optimizer.minimize(loss, v1.train.get_global_step())

  spec = zoo.spec(mode, zoo.net(features["x"]), labels, train)
  return spec._replace(training_hooks=hooks)


class _Normalizing(_Optimizer):
  """An optimizer around another one, as programs write them."""

  def __init__(self, inner):
    super().__init__(False, "Normalizing")
    self._inner = inner

  def compute_gradients(self, *args, **kwargs):
    pairs = self._inner.compute_gradients(*args, **kwargs)
    norm = tf.linalg.global_norm([gradient for gradient, _ in pairs])
    return [
      (gradient / (norm + 1e-6), variable) for gradient, variable in pairs
    ]

  def apply_gradients(self, *args, **kwargs):
    return self._inner.apply_gradients(*args, **kwargs)


def _wrapper(loss, features):
  optimizer = _Normalizing(v1.train.MomentumOptimizer(0.05, 0.9))
  return optimizer.minimize(loss, v1.train.get_global_step())


def _loss_scale(loss, features):
  optimizer = v1.mixed_precision.MixedPrecisionLossScaleOptimizer(
    v1.train.AdamOptimizer(0.01),
    v1.mixed_precision.DynamicLossScale(1024.0, increment_period=2),
  )
  return optimizer.minimize(loss, v1.train.get_global_step())


def _accumulating(loss, features):
  """Gradients of two steps are collected, and then applied."""
  variables = v1.trainable_variables()
  gradients = tf.gradients(loss, variables)
  sums = [
    v1.get_variable(
      f"{variable.op.name}/sum",
      variable.shape,
      initializer=v1.zeros_initializer(),
      trainable=False,
    )
    for variable in variables
  ]
  step = v1.train.get_global_step()
  collect = [v1.assign_add(s, g) for s, g in zip(sums, gradients, strict=True)]
  optimizer = v1.train.AdamOptimizer(0.01)

  def apply():
    pairs = zip([s.read_value() / 2 for s in sums], variables, strict=True)
    with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
      return tf.group(*[v1.assign(s, tf.zeros_like(s)) for s in sums])

  with tf.control_dependencies(collect):
    update = v1.cond(tf.equal(step % 2, 1), apply, tf.no_op)
  with tf.control_dependencies([update]):
    return v1.assign_add(step, 1).op


def _averaging(loss, features):
  """The weights' moving averages, after the update."""
  step = v1.train.get_global_step()
  train_op = v1.train.AdamOptimizer(0.01).minimize(loss, step)
  averages = tf.train.ExponentialMovingAverage(0.9, step)
  with tf.control_dependencies([train_op]):
    return averages.apply(v1.trainable_variables())


def _graph_rewrite(loss, features):
  optimizer = v1.mixed_precision.enable_mixed_precision_graph_rewrite(
    v1.train.AdamOptimizer(0.01)
  )
  return optimizer.minimize(loss, v1.train.get_global_step())


def _cross_shard(loss, features):
  optimizer = v1.tpu.CrossShardOptimizer(v1.train.AdamOptimizer(0.01))
  return optimizer.minimize(loss, v1.train.get_global_step())


class OptimizersTest(transparency.TransparencyTestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("wrapper", zoo.net_trained_by(_wrapper)),
        ("loss_scale", zoo.net_trained_by(_loss_scale)),
        ("accumulating", zoo.net_trained_by(_accumulating)),
        ("averaging", zoo.net_trained_by(_averaging)),
      ]
    )
  )
  def test_optimizers(self, model):
    self.assert_transparent(model, trains_only=True)

  @tiers.newest_only
  def test_mixed_precision_graph_rewrite(self):
    self.addCleanup(v1.mixed_precision.disable_mixed_precision_graph_rewrite)
    model = zoo.net_trained_by(_graph_rewrite)
    self.assert_transparent(model, trains_only=True)

  def test_an_optimizer_for_tpus_only(self):
    """TensorFlow has no kernel for it on CPUs and GPUs, sharded or not."""
    config = estimator_mp.ShardingConfig("stage:2")
    model_fn = zoo.net_trained_by(_cross_shard).model_fn
    estimator = runs.make_estimator(
      estimator_mp.shard_model_fn(model_fn, config),
      config,
      None,
      self.create_tempdir().full_path,
    )
    with self.assertRaises(ValueError) as caught:
      estimator.train(zoo.input_fn, steps=1)
    self.assertEqual(
      str(caught.exception),
      "model_fn makes 'CrossReplicaSum', an op of CrossShardOptimizer that "
      "only a TPU can run, and a mesh has none; wrap the optimizer on TPUs "
      "only",
    )

  @tiers.newest_only
  def test_sync_replicas(self):
    join = tf.train.Coordinator.join

    def join_soon(self, threads=None, stop_grace_period_secs=0.1, **kwargs):
      # The thread that averages never ends; a session waits two minutes for it.
      del stop_grace_period_secs
      return join(self, threads, 0.1, **kwargs)

    with mock.patch.object(tf.train.Coordinator, "join", join_soon):
      model = zoo.Model(sync_replicas, zoo.NET_RULES)
      self.assert_transparent(model, trains_only=True)

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        (
          "two_model_fns",
          zoo.Model(nested, ((r"^first/", 0), (r"^tower/a/", 1), (r".", 2))),
        ),
        (
          "a_part_first",
          zoo.Model(penalty_of_a_part, ((r"^a/", 0), (r"^b/", 1), (r".", 2))),
        ),
      ]
    )
  )
  def test_gradients_before_the_model_is_complete(self, model):
    self.assert_transparent(model)


if __name__ == "__main__":
  absltest.main()
