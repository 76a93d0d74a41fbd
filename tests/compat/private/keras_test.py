"""The private names of Keras 2 that compat uses."""

import contextlib
import random
import sys

import compat

compat.install()

from compat import versions  # noqa: E402
from compat.private import keras  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl.testing import absltest  # noqa: E402

v1 = tf.compat.v1


class SeededLayersTest(absltest.TestCase):
  def _draw(self):
    with tf.Graph().as_default() as graph:
      v1.layers.dense(tf.zeros([1, 2]), 2)
      return [
        op.get_attr("value").SerializeToString()
        for op in graph.get_operations()
        if op.type == "Const" and op.name.endswith("/seed")
      ]

  def test_each_seed_has_its_own(self):
    found = []
    for seed in (3, 3, 4):
      with keras.seeded_layers(tf, seed):
        found.append(self._draw())
    self.assertNotEmpty(found[0])
    self.assertEqual(found[0], found[1])
    self.assertNotEqual(found[0], found[2])
    self.assertNotEqual(self._draw(), self._draw())

  @absltest.skipIf(
    sys.version_info >= (3, 12) and versions.parse(tf.__version__) < (2, 19),
    "tf-keras up to 2.18 draws no seeds after set_random_seed on Python 3.12",
  )
  def test_seeds_are_those_of_set_random_seed(self):
    with keras.seeded_layers(tf, 3):
      found = self._draw()
    tf.keras.utils.set_random_seed(3)
    self.assertEqual(self._draw(), found)
    tf.keras.utils.set_random_seed(3)
    with keras.seeded_layers(tf, 4):  # The program has its own.
      self.assertEqual(self._draw(), found)

  def tearDown(self):
    with contextlib.suppress(AttributeError):
      keras.seeds_of_layers(tf).generator = None
    random.seed()
    super().tearDown()


class CompiledTest(absltest.TestCase):
  def _compile(self, **arguments):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(**arguments)
    return keras.compile_arguments(model)

  def test_what_compile_was_given(self):
    optimizer = tf.keras.optimizers.SGD()
    given = {
      "loss": {"dense": "mse"},
      "loss_weights": [2.0],
      "metrics": ["mae"],
      "weighted_metrics": ["mse"],
    }
    found = self._compile(optimizer=optimizer, **given)
    self.assertIs(found.pop("optimizer"), optimizer)
    self.assertEqual(found, given)

  def test_what_it_was_given_in_a_graph(self):
    with tf.Graph().as_default():
      optimizer = tf.keras.optimizers.SGD()
      found = self._compile(optimizer=optimizer, loss="mse")
    tf.keras.Sequential([tf.keras.layers.Dense(1)])  # Classes are eager again.
    self.assertIs(found.pop("optimizer"), optimizer)
    self.assertEqual(
      found,
      {
        "loss": "mse",
        "loss_weights": None,
        "metrics": None,
        "weighted_metrics": None,
      },
    )

  def test_learning_rates(self):
    schedule = tf.keras.optimizers.schedules.CosineDecay(0.1, 3)
    for kind in (tf.keras.optimizers, tf.keras.optimizers.legacy):
      self.assertIs(keras.learning_rate(kind.SGD(schedule)), schedule)


class EqualityTest(absltest.TestCase):
  def test_compares_values_inside_of_the_block_only(self):
    with tf.Graph().as_default(), v1.Session() as session:
      rows = v1.placeholder_with_default([0, 1], [2])
      self.assertIs(rows == 0, False)
      with keras.equality_of_values(tf):
        found = [rows == 0, rows != 0, rows == rows, rows == np.array([0, 2])]
        self.assertIs(rows == None, False)  # noqa: E711
        self.assertIs(rows == "text", False)
        self.assertEqual({rows: 1}[rows], 1)
      self.assertIs(rows == 0, False)
      self.assertEqual(
        [x.tolist() for x in session.run(found)],
        [[True, False], [False, True], [True, True], [True, False]],
      )

  def test_leaves_eager_tensors_alone(self):
    with keras.equality_of_values(tf):
      self.assertTrue(tf.constant(1) == 1)


if __name__ == "__main__":
  absltest.main()
