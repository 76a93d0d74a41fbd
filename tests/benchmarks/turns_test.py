"""Trainings take turns: each makes the steps that it is asked for."""

import contextlib
import io

# Before TensorFlow, as it installs compat.
import estimator_mp
from benchmarks import turns

import tensorflow as tf
from absl.testing import absltest


def _model_fn(features, labels, mode):
  weight = tf.compat.v1.get_variable("weight", initializer=2.0)
  loss = tf.reduce_mean((features * weight - labels) ** 2)
  train_op = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(
    loss, tf.compat.v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _input_fn():
  return tf.data.Dataset.from_tensors(([1.0], [0.0])).repeat()


def _failing_input_fn():
  raise LookupError("no data")


class TurnsTest(absltest.TestCase):
  def _estimator(self, model_fn):
    config = estimator_mp.run_config(
      estimator_mp.ShardingConfig("stage:1"), self.create_tempdir().full_path
    )
    return tf.estimator.Estimator(model_fn, config=config)

  def test_two_trainings_make_the_steps_that_they_are_asked_for(self):
    first, second = (
      turns.PausedTraining(self._estimator(_model_fn), _input_fn)
      for _ in range(2)
    )
    self.assertEmpty(first.losses)
    self.assertLen(first.run(3), 3)
    self.assertLen(second.run(2), 2)
    self.assertLen(first.run(1), 1)
    # The loss is w * w, and a step makes w smaller by a fifth.
    self.assertSequenceAlmostEqual(
      first.losses, [4 * 0.64**step for step in range(4)], places=5
    )
    self.assertEqual(second.losses, first.losses[:2])
    first.stop()
    second.stop()

  def test_an_error_is_raised_where_steps_are_asked_for(self):
    with self.assertRaisesRegex(LookupError, "no data"):
      turns.PausedTraining(self._estimator(_model_fn), _failing_input_fn)

  def test_the_ratio_is_the_median_of_the_rounds(self):
    measures = [iter([1.0, 4.0, 9.0]), iter([2.0, 4.0, 3.0])]
    rounds = turns.in_turns([measure.__next__ for measure in measures], 3)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
      turns.print_ratio("one / two", *rounds)
    self.assertEqual(
      printed.getvalue(),
      "one / two: ratio 1.000 (from 0.500 to 3.000); medians 4 and 3\n",
    )


if __name__ == "__main__":
  absltest.main()
