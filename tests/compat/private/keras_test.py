"""The private names of Keras 2 that compat uses."""

import contextlib
import random

import compat

compat.install()

from compat.private import keras  # noqa: E402

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

  def test_seeds_are_those_of_set_random_seed(self):
    found = []
    for seed in (3, 3, 4):
      with keras.seeded_layers(tf, seed):
        found.append(self._draw())
    self.assertNotEmpty(found[0])
    self.assertEqual(found[0], found[1])
    self.assertNotEqual(found[0], found[2])
    self.assertNotEqual(self._draw(), self._draw())
    tf.keras.utils.set_random_seed(3)
    self.assertEqual(self._draw(), found[0])
    tf.keras.utils.set_random_seed(3)
    with keras.seeded_layers(tf, 4):  # The program has its own.
      self.assertEqual(self._draw(), found[0])

  def tearDown(self):
    with contextlib.suppress(AttributeError):
      keras.seeds_of_layers(tf).generator = None
    random.seed()
    super().tearDown()


if __name__ == "__main__":
  absltest.main()
