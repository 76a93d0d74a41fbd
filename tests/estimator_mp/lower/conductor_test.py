"""The conductor: whom it asks in which order, and what it says in the log."""

from unittest import mock

import estimator_mp
from estimator_mp.lower.slicing import all_slices, slice_zero
from estimator_mp.lower.splitting import splitter
from estimator_mp.plan import (
  batch_planner,
  finish_planner,
  split_planner,
  stages,
)
from tests.estimator_mp import parts

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
EVAL = tf.estimator.ModeKeys.EVAL
TRAIN = tf.estimator.ModeKeys.TRAIN


def _model_fn(features, labels, mode):
  """Asks for gradients twice: the second model reads the first gradient."""
  net = v1.layers.dense(features, 4, tf.tanh, name="first")
  (slope,) = tf.gradients(tf.reduce_mean(net), [net])
  out = v1.layers.dense(net * slope, 1, name="second")
  loss = tf.reduce_mean(tf.square(out - labels))
  return parts.spec(mode, loss, parts.descend(loss, 0.1))


def _forward_fn(features, labels, mode):
  loss = parts.mean_loss(labels, parts.logits(features))
  return tf.estimator.EstimatorSpec(mode, loss=loss)


def _build(mesh, model_fn=_model_fn, mode=TRAIN, **options):
  config = estimator_mp.ShardingConfig(mesh, **options)
  with tf.Graph().as_default():
    v1.train.create_global_step()
    features = v1.placeholder(tf.float32, [8, 6])
    labels = v1.placeholder(tf.float32, [8, 1])
    estimator_mp.shard_model_fn(model_fn, config)(features, labels, mode)


# What is called, and the words for it.
_ASKED = (
  (stages.StagePlanner, "plan_forward", "plan stages"),
  (split_planner.SplitPlanner, "plan", "plan splits"),
  (splitter.Splitter, "split", "lower parts"),
  (batch_planner.BatchPlanner, "plan", "plan parts of the batch"),
  (slice_zero.SliceZero, "split", "lower slice 0"),
  (slice_zero.SliceZero, "gradients", "compute"),
  (stages.StagePlanner, "plan_gradients", "plan gradients"),
  (finish_planner, "plan_finish", "plan slices"),
  (all_slices.AllSlices, "finish", "lower slices"),
)
_REQUEST = [words for *_, words in _ASKED[:-2]]


class ConductorTest(absltest.TestCase):
  def _asked(self, *arguments, **options):
    """Returns the words for what is called when a graph is built."""
    found = []

    def recorded(method, words):
      def call(*args, **kwargs):
        found.append(words)
        return method(*args, **kwargs)

      return call

    for owner, name, words in _ASKED:
      method = recorded(getattr(owner, name), words)
      self.enter_context(mock.patch.object(owner, name, method))
    _build(*arguments, **options)
    return found

  def test_each_request_is_planned_and_lowered(self):
    self.assertEqual(
      self._asked("stage:2", num_micro_batches=2),
      [
        *_REQUEST,
        *_REQUEST,
        "plan splits",
        "lower parts",
        "plan slices",
        "lower slices",
      ],
    )

  def test_without_slices(self):
    found = self._asked("stage:2")
    of_batch = [x for x in found if "slice" in x or "batch" in x]
    self.assertEmpty(of_batch)
    self.assertEqual(found.count("plan stages"), 2)

  def test_evaluation_has_no_request(self):
    found = self._asked("stage:2", _forward_fn, EVAL, num_micro_batches=2)
    self.assertEqual(
      found,
      [
        *("plan stages", "plan splits", "lower parts"),
        *("plan splits", "lower parts"),
        *("plan parts of the batch", "lower slice 0"),
        *("plan slices", "lower slices"),
      ],
    )

  def test_a_model_axis_that_splits_nothing(self):
    with self.assertLogs("tensorflow", "WARNING") as logs:
      _build("model:2", split=[(".*", None)])
    text = "\n".join(logs.output)
    self.assertIn("mesh='model:2': no variable of the model is split", text)
    self.assertIn("or leave the axis out", text)

  def test_a_model_axis_that_splits_something(self):
    with self.assertLogs("tensorflow", "INFO") as logs:
      _build("model:2", split=[("first/kernel", 1)])
    self.assertNotIn("no variable of the model is split", str(logs.output))


if __name__ == "__main__":
  absltest.main()
