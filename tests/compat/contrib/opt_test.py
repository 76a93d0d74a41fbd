"""What golden files cannot say of tf.contrib.opt and tf.contrib.training."""

import importlib.util
import os

import compat

compat.install(contrib=True)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl.testing import absltest  # noqa: E402
from tensorflow.contrib import opt  # noqa: E402

v1 = tf.compat.v1


class MovingAverageTest(absltest.TestCase):
  def test_a_plain_saver_reads_the_averages(self):
    prefix = os.path.join(self.create_tempdir().full_path, "model")
    with tf.Graph().as_default(), v1.Session() as session:
      w = v1.get_variable("w", initializer=[1.0, 2.0])
      optimizer = opt.MovingAverageOptimizer(
        v1.train.GradientDescentOptimizer(1.0), average_decay=0.5
      )
      train_op = optimizer.minimize(tf.reduce_sum(w))
      saver = optimizer.swapping_saver()
      session.run(v1.global_variables_initializer())
      session.run(train_op)
      saver.save(session, prefix)
      session.run(train_op)
      saver.restore(session, prefix)
      np.testing.assert_allclose(session.run(w), [0.0, 1.0])
    reader = tf.train.load_checkpoint(prefix)
    np.testing.assert_allclose(reader.get_tensor("w"), [0.5, 1.5])

  def test_swapping_saver_refuses(self):
    with tf.Graph().as_default():
      w = v1.get_variable("w", [2])
      optimizer = opt.MovingAverageOptimizer(v1.train.AdamOptimizer())
      with self.assertRaisesRegex(RuntimeError, r"call minimize\(\) or"):
        optimizer.swapping_saver()
      optimizer.minimize(tf.reduce_sum(w))
      with self.assertRaisesRegex(ValueError, "'w' and not 'w/Exponential"):
        optimizer.swapping_saver([w])


class WeightDecayTest(absltest.TestCase):
  def test_weight_decay_of_some_is_an_argument_of_apply_gradients(self):
    with tf.Graph().as_default():
      w = v1.get_variable("w", [2])
      optimizer = opt.AdamWOptimizer(0.1)
      with self.assertLogs("tensorflow", "WARNING") as logs:
        optimizer.minimize(tf.reduce_sum(w), decay_var_list=[w])
    self.assertIn("give the list to apply_gradients instead", logs.output[0])


@absltest.skipUnless(importlib.util.find_spec("scipy"), "SciPy is optional")
class ScipyTest(absltest.TestCase):
  def test_bounds_and_constraints(self):
    with tf.Graph().as_default(), v1.Session() as session:
      v = v1.get_variable("v", initializer=[7.0, 7.0])
      loss = tf.reduce_sum(tf.square(v))
      kind = opt.ScipyOptimizerInterface
      bounded = kind(loss, var_to_bounds={v: ([1, 2], np.inf)})
      constrained = kind(
        loss,
        equalities=[v[1] - 1.0],
        inequalities=[v[0] - 3.0],
        method="SLSQP",
      )
      session.run(v1.global_variables_initializer())
      losses = []
      bounded.minimize(session, fetches=[loss], loss_callback=losses.append)
      np.testing.assert_allclose(session.run(v), [1.0, 2.0], atol=1e-4)
      self.assertEqual(losses[0], 98.0)
      constrained.minimize(session)
      np.testing.assert_allclose(session.run(v), [3.0, 1.0], atol=1e-4)


if __name__ == "__main__":
  absltest.main()
