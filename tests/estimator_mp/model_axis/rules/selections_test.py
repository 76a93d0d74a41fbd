"""Tests of the rules for ops that take, or put, entries at indices.

All sunk graphs give values and gradients of the plain ones.
"""

from estimator_mp.model_axis.decisions import Split
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


def _segments(x, i):
  sums = [
    tf.math.segment_sum(x, tf.sort(i[:, 0])),
    tf.math.segment_mean(x, tf.sort(i[:, 0])),
    tf.math.segment_max(x, tf.sort(i[:, 0])),
    tf.math.unsorted_segment_sum(x, i[:, 0], 7),
    tf.math.unsorted_segment_mean(x, i[:, 0], 7),
    tf.math.unsorted_segment_max(x, i[:, 0], 7),
    tf.math.unsorted_segment_sum(x, tf.concat([i] * 5, 1)[:, :5], 4),
  ]
  return [tf.maximum(x, -1e3) for x in sums]


def _sparse_segments(x, i):
  rows = tf.reshape(i, [-1])
  ids = tf.sort(rows)
  flat = tf.reshape(x, [-1, 6])
  return [
    tf.sparse.segment_sum(flat, rows, ids),
    tf.sparse.segment_mean(flat, rows, ids),
    tf.sparse.segment_sqrt_n(flat, rows, ids),
    tf.sparse.segment_sum(flat, rows, ids, num_segments=9),
  ]


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
        ("rows", lambda x, i: tf.gather(x, i)),
        ("a_row", lambda x, i: tf.gather(x, i[0, 0])),
        ("before_the_last", lambda x, i: tf.gather(x, i, axis=1)),
        ("negative_axis", lambda x, i: tf.gather(x, i, axis=-2)),
        (
          "rows_of_examples",
          lambda x, i: tf.gather(x, i, axis=1, batch_dims=1),
        ),
        (
          "negative_batch_dims",
          lambda x, i: tf.gather(x, i, axis=1, batch_dims=-1),
        ),
        ("mask", lambda x, i: tf.boolean_mask(x[:, :3], i > 1)),
        ("vectors", lambda x, i: tf.gather_nd(x, i[:, :2])),
        ("vectors_of_one", lambda x, i: tf.gather_nd(x, i[:, :, None])),
        (
          "reverse",
          lambda x, i: tf.reverse_sequence(x, i[:, 0], 1, batch_axis=0),
        ),
        ("segments", _segments),
        ("sparse_segments", _sparse_segments),
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
          {"x": Split(2, sizes)},
          {"x": unknown, "i": unknown},
        )

  @parameterized.named_parameters(
    tiers.thin(
      [
        ("rows", lambda x, i: tf.gather(x, i), 0),
        ("rows_by_vector", lambda x, i: tf.gather(x, i[:, 0]), 0),
        ("a_row", lambda x, i: tf.gather(x, i[0, 1]), 0),
        ("no_row", lambda x, i: tf.gather(x, i[:0]), 0),
        ("columns", lambda x, i: tf.gather(x, i, axis=-1), 2),
        ("middle", lambda x, i: tf.gather(x, tf.cast(i, tf.int64), axis=1), 1),
        ("of_examples", lambda x, i: tf.gather(x, i, axis=1, batch_dims=1), 1),
        (
          "last_of_examples",
          lambda x, i: tf.gather(x, i, axis=2, batch_dims=1),
          2,
        ),
        ("examples", lambda x, i: tf.gather(x, i, axis=2, batch_dims=1), 0),
        ("band", lambda x, i: tf.linalg.band_part(x, 1, 2), 0),
        (
          "reverse",
          lambda x, i: tf.reverse_sequence(x, i[:, 0], 1, batch_axis=0),
          0,
        ),
        (
          "segments_of_rows",
          lambda x, i: tf.math.unsorted_segment_sum(x, i[:, 0], 7),
          0,
        ),
        (
          "segments_of_more",
          lambda x, i: tf.math.unsorted_segment_sum(
            x, tf.tile(i, [1, 2])[:, :4], 7
          ),
          1,
        ),
      ]
    ),
  )
  def test_the_split_dimension(self, build, axis):
    for unknown in ([], [0]):
      sinking.check(
        self,
        build,
        {"x": _floats(4, 4, 4), "i": _ids(4, 4, 3)},
        {"x": Split(axis, (1, 3))},
        {"x": [] if axis == 0 else unknown, "i": unknown},
      )

  @parameterized.named_parameters(
    tiers.thin(
      [
        ("of_rows", lambda x, i: tf.gather(x, i)),
        ("of_columns", lambda x, i: tf.gather(x, i, axis=2)),
        ("of_examples", lambda x, i: tf.gather(x, i, batch_dims=1, axis=2)),
        ("vectors", lambda x, i: tf.gather_nd(x, i)),
        ("put", lambda x, i: tf.scatter_nd(i, x[:, 0], [4, 4, 4, 4])),
        (
          "segments",
          lambda x, i: tf.math.unsorted_segment_sum(x, i[:, 0], 7),
        ),
        (
          "sparse_segments",
          lambda x, i: tf.sparse.segment_sum(
            x, i[:, 0], tf.cast(i[:, 0] > 9, tf.int32), num_segments=2
          ),
        ),
      ]
    ),
  )
  def test_indices_that_are_split(self, build):
    sinking.check(
      self,
      build,
      {"x": _floats(4, 4, 4), "i": _ids(4, 4, 3)},
      {"i": Split(0, (1, 3))},
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
        {"x": Split(0, (1, 3))},
        gathers=gathers,
      )

  def test_rows_are_taken_where_they_are(self):
    """No device has the table, or rows of others but the first."""
    found = sinking.check(
      self,
      lambda x, i: tf.gather(x, i),
      {"x": _floats(50, 2), "i": _ids(50, 3, 2)},
      {"x": Split(0, (20, 13, 17))},
    )
    self.assertFalse([name for name in found.devices if "gathered" in name])

  @parameterized.named_parameters(("before_all", -1), ("after_all", 7))
  def test_a_row_that_is_nowhere_is_an_error(self, row):
    table = np.arange(14, dtype=np.int32).reshape([7, 2])
    with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "is not in"):
      sinking.run(
        lambda x, i: tf.gather(x, i),
        {"x": table, "i": np.array([1, row], np.int32)},
        {"x": Split(0, (3, 4))},
      )

  @parameterized.named_parameters(
    (
      "band",
      lambda x, i: tf.linalg.band_part(x, 1, 2),
      {"x": Split(2, (2, 4))},
    ),
    (
      "reversed",
      lambda x, i: tf.reverse_sequence(x, i[:, 0], 1),
      {"x": Split(1, (2, 3))},
    ),
    (
      "vectors",
      lambda x, i: tf.gather_nd(x, i[:, :2]),
      {"x": Split(1, (2, 3))},
    ),
    (
      "segments",
      lambda x, i: tf.math.segment_sum(x, tf.sort(i[:, 0])),
      {"x": Split(0, (1, 3))},
    ),
    (
      "branches_that_differ",
      lambda x, i: v1.cond(
        i[0, 0] < 100, lambda: x, lambda: tf.zeros([4, 5, 6])
      ),
      {"x": Split(2, (1, 5))},
    ),
  )
  def test_is_gathered(self, build, splits):
    sinking.check(
      self,
      build,
      {"x": _floats(4, 5, 6), "i": _ids(4, 4, 3)},
      splits,
      gathers=1,
    )

  def test_one_hot_of_ids_that_are_split(self):
    for axis in (0, 1, -1):
      sinking.check(
        self,
        lambda i, on, axis=axis: tf.one_hot(i, 5, on[0], on[1], axis=axis),
        {"i": _ids(5, 2, 4), "on": _floats(2)},
        {"i": Split(1, (1, 3))},
        {"i": [0]},
      )

  def test_in_top_k(self):
    for split in ({"x": Split(0, (1, 3))}, {"i": Split(0, (1, 3))}):
      sinking.check(
        self,
        lambda x, i: tf.math.in_top_k(i, x, 2),
        {"x": _floats(4, 6), "i": _ids(4, 4)},
        split,
      )


if __name__ == "__main__":
  absltest.main()
