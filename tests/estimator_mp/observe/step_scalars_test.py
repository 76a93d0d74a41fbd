"""Scalars that a run writes of its own steps."""

import collections
import os
from unittest import mock

import estimator_mp
from estimator_mp.observe import step_scalars

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_PLACEMENT = ((r"^first/", 0), (r".", 1))
_BATCH, _WIDTH = 16, 32
_SENT = _BATCH * _WIDTH * 4 * 2  # There and back.


def _input_fn():
  x = tf.random.stateless_normal([_BATCH, _WIDTH], [1, 2])
  data = tf.data.Dataset.from_tensors((x, tf.reduce_sum(x, 1, True)))
  return data.repeat()


def _model_fn(features, labels, mode):
  net = v1.layers.dense(features, _WIDTH, tf.nn.tanh, name="first")
  loss = v1.losses.mean_squared_error(labels, v1.layers.dense(net, 1))
  optimizer = v1.train.GradientDescentOptimizer(0.01)
  train_op = optimizer.minimize(loss, v1.train.get_global_step())
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class StepScalarsTest(parameterized.TestCase):
  def _scalars(self, config, share, **run_config):
    """Trains for 20 steps; returns the values of sharding by tag and step."""
    self.enter_context(mock.patch.object(step_scalars, "_SHARE", share))
    model_dir = self.create_tempdir().full_path
    estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(_model_fn, config),
      config=estimator_mp.run_config(
        config, model_dir, checkpoint_save_graph_def=False, **run_config
      ),
    )
    estimator.train(_input_fn, steps=20)
    found = collections.defaultdict(dict)
    for name in tf.io.gfile.listdir(model_dir):
      if name.startswith("events."):
        for event in v1.train.summary_iterator(os.path.join(model_dir, name)):
          for value in event.summary.value:
            if value.tag.startswith("sharding/"):
              found[value.tag][event.step] = value.simple_value
    return dict(found)

  @parameterized.named_parameters(
    ("stages", estimator_mp.ShardingConfig("stage:2", placement=_PLACEMENT)),
    (
      "micro_batches",
      estimator_mp.ShardingConfig(
        "stage:2", placement=_PLACEMENT, num_micro_batches=4
      ),
    ),
  )
  def test_are_written_with_the_summaries(self, config):
    found = self._scalars(config, share=1.0, save_summary_steps=5)
    self.assertCountEqual(
      found,
      [
        "sharding/bubble",
        "sharding/sent_bytes",
        "sharding/peak_live_bytes/0",
        "sharding/peak_live_bytes/1",
      ],
    )
    for of_steps in found.values():
      self.assertEqual([*of_steps], [5, 10, 15, 20])
    for bubble in found["sharding/bubble"].values():
      self.assertBetween(bubble, 0.0, 1.0)
    for sent in found["sharding/sent_bytes"].values():
      self.assertBetween(sent, _SENT, 1.5 * _SENT)
    for peak in found["sharding/peak_live_bytes/0"].values():
      self.assertBetween(peak, _BATCH * _WIDTH * 4, 100 * _SENT)

  def test_take_their_share_of_the_time_and_no_more(self):
    config = estimator_mp.ShardingConfig("stage:2", placement=_PLACEMENT)
    found = self._scalars(config, share=1e-6, save_summary_steps=5)
    self.assertEqual([*found["sharding/bubble"]], [5])

  def test_are_not_written_where_no_summaries_are(self):
    config = estimator_mp.ShardingConfig("stage:2", placement=_PLACEMENT)
    self.assertEmpty(self._scalars(config, share=1.0, save_summary_steps=None))


if __name__ == "__main__":
  absltest.main()
