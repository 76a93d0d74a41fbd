"""Tests that tf_random_seed fixes what layers of tf_keras draw."""

import os
import random
import tempfile
import threading

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.models import catalogue, data

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

CONFIG = estimator_mp.ShardingConfig("stage:2")
SEED = 11


def train(name, config, seed=SEED, user_seed=None):
  """Trains for two steps; returns the losses and the initial variables.

  Args:
    name: The model.
    config: The sharding; None for a plain run.
    seed: The RunConfig's.
    user_seed: What the program gives `tf.keras.utils.set_random_seed`, if it
      calls it. That is for one thread, so each run has its own.
  """
  results = []

  def run():
    if user_seed is not None:
      tf.keras.utils.set_random_seed(user_seed)
    model = catalogue.MODELS[name]
    model_fn = model.model_fn
    if config is not None:
      model_fn = estimator_mp.shard_model_fn(model_fn, config)
    estimator = runs.make_estimator(
      model_fn, config, model.params, tempfile.mkdtemp(), tf_random_seed=seed
    )
    recorder = runs.LossRecorder()
    estimator.train(data.input_fn, [recorder], 2)
    start = os.path.join(estimator.model_dir, "model.ckpt-0")
    results.append((recorder.losses, runs.variables_of(start)))

  thread = threading.Thread(target=run)
  thread.start()
  thread.join()
  return results[0]


def kernels(variables):
  """Returns the variables that start from random numbers."""
  found = {x: v for x, v in variables.items() if x.endswith("/kernel")}
  assert found, sorted(variables)
  return found


class LayerSeedsTest(parameterized.TestCase):
  def _assert_equal(self, run, expected):
    self.assertEqual(run[0], expected[0])
    for name, value in expected[1].items():
      np.testing.assert_array_equal(run[1][name], value, err_msg=name)

  def _assert_other_weights(self, run, other):
    for name, value in kernels(other[1]).items():
      self.assertGreater(np.abs(run[1][name] - value).max(), 1e-3, name)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("v1_layers", "mlp_sgd"),
        ("v1_layers_with_dropout", "cnn"),
        ("tf_keras", "keras_functional"),
      ]
    )
  )
  def test_the_same_seed_gives_the_same_run(self, name):
    first = train(name, CONFIG)
    self._assert_equal(train(name, CONFIG), first)
    self._assert_other_weights(train(name, CONFIG, seed=12), first)
    # A plain run asks for one line more.
    self._assert_equal(train(name, None, user_seed=SEED), first)

  def test_a_plain_run_does_not_have_the_same_weights(self):
    """TensorFlow's own: v1.layers draw seeds from Python's random."""
    self._assert_other_weights(train("mlp_sgd", None), train("mlp_sgd", None))

  @tiers.slow
  def test_what_the_program_seeded_itself_counts(self):
    expected = train("mlp_sgd", None, user_seed=3)
    self._assert_equal(train("mlp_sgd", CONFIG, user_seed=3), expected)
    self._assert_other_weights(train("mlp_sgd", CONFIG), expected)

  @tiers.slow
  def test_pythons_random_seeded_alone_does_not(self):
    results = []
    for _ in "ab":
      random.seed(3)
      results.append(train("mlp_sgd", CONFIG))
    random.seed(4)
    self._assert_equal(train("mlp_sgd", CONFIG), results[0])
    random.seed(3)
    self._assert_other_weights(train("mlp_sgd", None), results[0])

  def test_pythons_random_is_left_alone(self):
    random.seed(5)
    before = random.getstate()
    train("keras_functional", CONFIG)
    self.assertEqual(random.getstate(), before)

  def test_without_a_seed_each_run_is_another(self):
    self._assert_other_weights(
      train("mlp_sgd", CONFIG, seed=None), train("mlp_sgd", CONFIG, seed=None)
    )


if __name__ == "__main__":
  absltest.main()
