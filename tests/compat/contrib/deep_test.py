"""`from tensorflow.contrib.X.python.Y import N` finds what tf.contrib.X has."""

import compat

from absl.testing import absltest, parameterized

compat.install(contrib=True)

import tensorflow as tf  # noqa: E402


class DeepPathsTest(parameterized.TestCase):
  def test_a_file_of_1_15_has_the_public_names_of_its_module(self):
    from tensorflow.contrib.layers.python.layers import layers, optimizers
    from tensorflow.contrib.layers.python.layers.layers import fully_connected
    from tensorflow.contrib.tpu.python.tpu import tpu_config, tpu_estimator

    contrib = tf.contrib
    self.assertIs(fully_connected, contrib.layers.fully_connected)
    self.assertIs(layers.fully_connected, fully_connected)
    self.assertIs(optimizers.optimize_loss, contrib.layers.optimize_loss)
    self.assertIs(tpu_estimator.TPUEstimator, contrib.tpu.TPUEstimator)
    self.assertIs(tpu_config.TPUConfig, contrib.tpu.TPUConfig)

  def test_metric_keys(self):
    from tensorflow.contrib.learn.python.learn.estimators import metric_key

    self.assertEqual(metric_key.MetricKey.AUC, "auc")

  def test_it_is_found_by_every_form_of_import(self):
    import tensorflow.contrib.training.python.training.hparam as hparam
    from tensorflow.contrib.training.python import training

    deep = tf.contrib.training.python.training
    self.assertIs(deep, training)
    self.assertIs(deep.hparam, hparam)
    self.assertIs(hparam.HParams, tf.contrib.training.HParams)

  def test_a_file_that_is_called_as_what_it_has(self):
    """`multi_head.multi_head` was an attribute of a function."""
    from tensorflow.contrib.estimator.python.estimator import (
      multi_head,
      replicate_model_fn,
    )
    from tensorflow.contrib.framework.python.ops import arg_scope

    contrib = tf.contrib
    self.assertIs(multi_head.multi_head, contrib.estimator.multi_head)
    self.assertIs(
      replicate_model_fn.TowerOptimizer, contrib.estimator.TowerOptimizer
    )
    # The folder of this one had the function.
    self.assertIs(arg_scope, contrib.framework.arg_scope)

  def test_star_gives_the_public_names(self):
    found = {}
    exec(  # Python allows it at the top of a module only.
      "from tensorflow.contrib.layers.python.layers.layers import *", found
    )
    self.assertIs(found["batch_norm"], tf.contrib.layers.batch_norm)

  @parameterized.named_parameters(
    ("name", "framework.python.ops.arg_scope import nonesuch", "framework"),
    ("in_a_folder", "framework.python.ops import nonesuch", "framework"),
    ("module", "framework.python.nonesuch import name", "framework"),
  )
  def test_what_is_absent_says_what_to_use(self, path, module):
    wanted = f"tf.contrib.{module}.nonesuch is not among the names that compat"
    with self.assertRaisesRegex(ImportError, wanted):
      exec(f"from tensorflow.contrib.{path}", {})

  def test_autograph_does_not_convert_its_functions(self):
    from tensorflow.python.autograph.impl import conversion

    allowed = conversion.is_allowlisted
    self.assertTrue(allowed(tf.contrib.training.HParams.__init__))
    self.assertFalse(allowed(DeepPathsTest.setUp))


if __name__ == "__main__":
  absltest.main()
