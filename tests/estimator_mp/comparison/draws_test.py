"""Whether two models draw the same random numbers."""

from estimator_mp.comparison import draws
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class DrawsTest(graph_case.GraphCase):
  def _ops(self):
    return v1.get_default_graph().get_operations()

  def test_checksums_of_each_type(self):
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32):
      tf.random.uniform([7], maxval=9, dtype=dtype, seed=1, name=dtype.name)
    v1.random_shuffle(tf.constant(["a", "b", "c"]), seed=2, name="words")
    v1.RandomShuffleQueue(4, 1, tf.float32, seed=3)  # It draws, but no tensor.
    found = draws.checksums(self._ops())
    self.assertLen(found, 6)
    steps = []
    for _ in range(2):
      with v1.Session() as session:
        steps.append([session.run(found) for _ in range(6)])
    self.assertEqual(*steps)
    for name in found:  # Of a shuffle, too, which has the same entries.
      self.assertGreater(len({sums[name] for sums in steps[0]}), 1, name)

  def test_other_draws(self):
    tf.random.uniform([3], seed=1, name="known")
    tf.random.uniform([3], seed=2, name="copied")
    tf.raw_ops.RandomUniform(shape=[3], dtype=tf.float32, name="in_a_loop")
    plain = {"known/RandomUniform": 5, "copied/RandomUniform": 7}
    sharded = {"known/RandomUniform": 6, "part_1/copied/RandomUniform": 7}
    self.assertEqual(
      draws.other_draws(self._ops(), plain, sharded),
      ["in_a_loop", "known/RandomUniform"],
    )


if __name__ == "__main__":
  absltest.main()
