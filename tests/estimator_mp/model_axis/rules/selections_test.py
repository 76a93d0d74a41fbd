"""Tests of the rules for ops that take, or put, entries at indices.

What parts make of each op, and gradients, by_parts_test compares.
"""

from estimator_mp.model_axis.decisions import Shard
from tests import tiers
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_rng = np.random.RandomState(6)


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


def _ids(most, *shape):
  return _rng.randint(0, most, shape).astype(np.int32)


def _partition_and_stitch(x, i):
  parts = tf.dynamic_partition(x, i[:, 0] % 2, 2)
  rows = tf.dynamic_partition(tf.range(tf.shape(x)[0]), i[:, 0] % 2, 2)
  return tf.dynamic_stitch(rows, [tf.tanh(part) for part in parts])


def _scatter(x, i):
  vectors = tf.expand_dims(i[:, 0], 1)
  zeros = tf.scatter_nd(vectors, x, [5, 5, 6])
  zeros = tf.tensor_scatter_nd_add(zeros, vectors, x)
  return tf.tensor_scatter_nd_sub(zeros, vectors[:1], tf.tanh(x[:1]))


def _cond(x, i):
  return v1.cond(
    i[0, 0] < 100,
    lambda: tf.tanh(x) * tf.cast(tf.shape(x)[0], tf.float32),
    lambda: x * x,
  )


def _other_branch(x, i):
  return v1.cond(i[0, 0] >= 100, lambda: tf.exp(x), lambda: x)


class SelectionsTest(parameterized.TestCase):
  """Split tensors of shape [4, 5, 6], of 5 + 1, or 1 + 2 + 3 columns."""

  def setUp(self):
    super().setUp()
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)

  @parameterized.named_parameters(
    tiers.thin(
      [
        ("mask", lambda x, i: tf.boolean_mask(x[:, :3], i > 1)),
        ("partition_and_stitch", _partition_and_stitch),
        ("scatter", _scatter),
        ("cond", _cond),
        ("other_branch", _other_branch),
      ]
    ),
  )
  def test_stays_split(self, build):
    for _, sizes, unknown in sinking.CUTS:
      with self.subTest(sizes=sizes, unknown=unknown):
        sinking.check(
          self,
          build,
          {"x": _floats(4, 5, 6), "i": _ids(4, 4, 3)},
          {"x": Shard(2, sizes)},
          {"x": unknown, "i": unknown},
        )

  def test_a_maximum_of_segments_with_a_gradient_is_of_all_rows(self):
    """Its gradient is shared by all equal entries, of whatever part."""
    for gathers, build in enumerate(
      [
        lambda x, i: tf.stop_gradient(
          tf.math.unsorted_segment_max(tf.sign(x), i[:, 0], 4)
        ),
        lambda x, i: tf.math.unsorted_segment_max(tf.sign(x), i[:, 0], 4),
      ]
    ):
      sinking.check(
        self,
        build,
        {"x": _floats(4, 4), "i": _ids(2, 4, 3)},
        {"x": Shard(0, (1, 3))},
        gathers=gathers,
      )

  def test_rows_are_taken_where_they_are(self):
    """No device has the table, or rows of others but the first."""
    found = sinking.check(
      self,
      lambda x, i: tf.gather(x, i),
      {"x": _floats(50, 2), "i": _ids(50, 3, 2)},
      {"x": Shard(0, (20, 13, 17))},
    )
    self.assertFalse([name for name in found.devices if "gathered" in name])

  @parameterized.named_parameters(("before_all", -1), ("after_all", 7))
  def test_a_row_that_is_nowhere_is_an_error(self, row):
    table = np.arange(14, dtype=np.int32).reshape([7, 2])
    with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "is not in"):
      sinking.run(
        lambda x, i: tf.gather(x, i),
        {"x": table, "i": np.array([1, row], np.int32)},
        {"x": Shard(0, (3, 4))},
      )

  def test_branches_that_differ_are_gathered(self):
    sinking.check(
      self,
      lambda x, i: v1.cond(
        i[0, 0] < 100, lambda: x, lambda: tf.zeros([4, 5, 6])
      ),
      {"x": _floats(4, 5, 6), "i": _ids(4, 4, 3)},
      {"x": Shard(2, (1, 5))},
      gathers=1,
    )


if __name__ == "__main__":
  absltest.main()
