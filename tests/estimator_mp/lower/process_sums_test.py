"""Training with a stand-in for Horovod's other process.

It has five times what this one has: the mean is three times that.
"""

import functools
from unittest import mock

import estimator_mp
from estimator_mp import driver
from estimator_mp.session import export
from tests.estimator_mp import programs
from tests.estimator_mp.replicas import horovod_stand_in

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_BATCH = {
  "x": np.linspace(-1, 1, 48).reshape(12, 4).astype(np.float32),
  "ids": (np.arange(24).reshape(12, 2) ** 2 % 9).astype(np.int32),
}
_LABELS = np.linspace(0, 1, 12)[:, None].astype(np.float32)
_FACTOR, _MEAN = 5, 3


def _net(features):
  table = _v1.get_variable("table", [9, 4])
  rows = tf.nn.embedding_lookup(table, features["ids"])
  h = tf.concat([features["x"], tf.reduce_sum(rows, 1)], 1)
  scale = _v1.get_variable("scale", [], initializer=tf.ones_initializer())
  tied = _v1.get_variable("tied", [8, 8])
  h = tf.tanh(tf.matmul(tf.tanh(tf.matmul(h, tied)), tied)) * scale
  return _v1.layers.dense(h, 1)


def _times(gradient, count):
  if isinstance(gradient, tf.IndexedSlices):
    values = gradient.values * count
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
  return gradient * count


def _model_fn(features, labels, mode, params):
  """Rows, clipping, a scalar, a weight that is used twice."""
  loss = tf.reduce_mean(tf.square(_net(features) - labels))
  if mode != tf.estimator.ModeKeys.TRAIN:
    return tf.estimator.EstimatorSpec(mode, loss=loss)
  optimizer = _v1.train.AdagradOptimizer(0.1)
  gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
  gradients = [_times(x, params["count"]) for x in gradients]
  rows = [x for x in gradients if isinstance(x, tf.IndexedSlices)]
  rest = [x for x in gradients if not isinstance(x, tf.IndexedSlices)]
  clipped, _ = tf.clip_by_global_norm(rest, 0.5)
  # The variables' order is that of the net: the table comes first.
  train_op = optimizer.apply_gradients(
    zip([*rows, *clipped], variables, strict=True),
    _v1.train.get_or_create_global_step(),
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _two_optimizers(features, labels, mode, params):
  """The second one updates after the first one, and by a penalty."""
  step = _v1.train.get_or_create_global_step()
  first = _v1.get_variable("first", [4, 4])
  second = _v1.get_variable("second", [4, 1])
  updates = []
  for variable in (first, second):
    with tf.control_dependencies(updates):
      x = tf.identity(features["x"])
      y = tf.matmul(tf.tanh(tf.matmul(x, first)), second)
      loss = tf.reduce_mean(tf.square(y - labels))
      (of_x,) = tf.gradients(loss, [x])
      loss += tf.reduce_mean(tf.square(of_x))
      optimizer = _v1.train.MomentumOptimizer(0.1, 0.9)
      pairs = optimizer.compute_gradients(loss, [variable])
      updates = [
        optimizer.apply_gradients(
          [(_times(x, params["count"]), variable) for x, variable in pairs],
          step if variable is second else None,
        )
      ]
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=updates[0])


_config = functools.partial(
  estimator_mp.ShardingConfig, aggregation="horovod", fallback="error"
)


class TrainingTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    horovod_stand_in.install(self, _FACTOR)

  @parameterized.named_parameters(
    ("one_device", _model_fn, _config()),
    ("sum", _model_fn, _config("stage:2", horovod_op="sum"), _FACTOR + 1),
    ("slices", _model_fn, _config("stage:2", num_micro_batches=3)),
    (
      "recomputed",
      _model_fn,
      _config("stage:2", num_micro_batches=3, recompute="always"),
    ),
    (
      "batched",
      _model_fn,
      _config("stage:2", num_micro_batches=4, weight_gradients="batched"),
    ),
    (
      "rounds",
      _model_fn,
      _config("stage:2", num_micro_batches=2, gradient_accumulation_steps=2),
    ),
    (
      "two_optimizers",
      _two_optimizers,
      _config("stage:2", num_micro_batches=3),
    ),
  )
  def test_updates_are_by_what_all_processes_have(
    self, model_fn, config, count=_MEAN
  ):
    batch = _BATCH, _LABELS
    with mock.patch.object(
      driver.Driver, "shard", autospec=True, side_effect=driver.Driver.shard
    ) as shard:
      sharded = programs.Program(model_fn, config, batch, {"count": 1})
    shard.assert_called_once()
    plain = programs.Program(model_fn, None, batch, {"count": count})
    sharded.load(plain.variables())
    for _ in range(3):
      step, expected = sharded.step(batch), plain.step(batch)
      np.testing.assert_allclose(step.loss, count * expected.loss, rtol=1e-5)
      programs.assert_same_variables(
        self, step.variables, expected.variables, 1e-5
      )

  def test_shards_sum_their_gradients_each(self):
    config = _config("model:2", split=[["tied", 1], ["table", 1]])
    batch = _BATCH, _LABELS
    sharded = programs.Program(_model_fn, config, batch, {"count": 1})
    plain = programs.Program(_model_fn, None, batch, {"count": _MEAN})
    sharded.load(plain.variables())
    for _ in range(2):
      step, expected = sharded.step(batch), plain.step(batch)
      programs.assert_same_variables(
        self, step.variables, expected.variables, 1e-5
      )
    totals = [
      (tuple(op.outputs[0].shape), op.device)
      for op in sharded.graph.get_operations()
      if op.name.startswith("horovod_gradients/Reshape")
    ]
    for device in ("/device:CPU:0", "/device:CPU:1"):
      self.assertIn(((4, 8), device), totals)  # Of one that is 8 by 8.

  @parameterized.parameters(("eval", False), ("train", True))
  def test_evaluation_and_exports_are_of_one_process(self, mode, is_export):
    with (
      tf.Graph().as_default() as graph,
      mock.patch.object(export, "is_for_export", lambda: is_export),
    ):
      _v1.train.get_or_create_global_step()
      sharded = estimator_mp.shard_model_fn(_model_fn, _config("stage:2"))
      features = tf.nest.map_structure(tf.constant, _BATCH)
      spec = sharded(features, tf.constant(_LABELS), mode, {"count": 1})
      self.assertNotIn("Cumsum", {op.type for op in graph.get_operations()})
    self.assertEmpty(spec.training_chief_hooks)

  def test_a_gradient_that_horovod_cannot_send(self):
    def model_fn(features, labels, mode):
      y = _v1.layers.dense(tf.cast(features["x"], tf.bfloat16), 1)
      loss = tf.reduce_mean(tf.square(tf.cast(y, tf.float32) - labels))
      train_op = _v1.train.GradientDescentOptimizer(0.1).minimize(
        loss, _v1.train.get_or_create_global_step()
      )
      return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    with self.assertRaisesRegex(ValueError, "the dtype bfloat16, which Horovo"):
      programs.Program(model_fn, _config(), (_BATCH, _LABELS))

  def test_a_model_that_asks_for_no_gradients(self):
    def model_fn(features, labels, mode):
      del labels
      step = _v1.train.get_or_create_global_step()
      loss = tf.reduce_mean(features["x"])
      return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=step.assign_add(1)
      )

    with self.assertRaisesRegex(ValueError, "computed no gradients"):
      programs.Program(model_fn, _config("stage:2"), (_BATCH, _LABELS))


if __name__ == "__main__":
  absltest.main()
