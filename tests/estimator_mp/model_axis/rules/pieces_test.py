"""Tests of the rules for ops that take pieces of tensors, and join them.

All sunk graphs give values and gradients of the plain ones.
"""

from estimator_mp.model_axis.decisions import Composite, Shard
from tests import tiers
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_rng = np.random.RandomState(5)


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


class PiecesTest(parameterized.TestCase):
  """Split tensors of shape [4, 5, 6], of 5 + 1, or 1 + 2 + 3 columns."""

  @parameterized.named_parameters(
    tiers.thin(
      [
        ("slice", lambda x, y: tf.slice(x, [1, 2, 0], [2, -1, 6])),
        ("slice_to_the_end", lambda x, y: tf.slice(x, [1, 0, 0], [-1, 3, -1])),
        (
          "slice_by_the_batch",
          lambda x, y: tf.slice(x, [0, 1, 0], tf.stack([tf.shape(y)[0], 2, 6])),
        ),
        ("first", lambda x, y: x[:, 0]),
        ("last", lambda x, y: x[:, -1, :]),
        ("row", lambda x, y: x[1]),
        ("all", lambda x, y: x[:, :, :]),
        ("named_bounds", lambda x, y: x[1:3, ::2, 0:6]),
        ("bounds_beyond", lambda x, y: x[:, 1:, 0:100]),
        ("bounds_from_the_last", lambda x, y: x[:, 1:, -6:]),
        ("backwards", lambda x, y: x[::-1, ::-2]),
        ("ellipsis", lambda x, y: x[1, ..., :]),
        (
          "ellipsis_and_new",
          lambda x, y: x[tf.newaxis, ..., 1:, tf.newaxis, :],
        ),
        (
          "new_before_ellipsis",
          lambda x, y: x[:, tf.newaxis, 2, ..., tf.newaxis],
        ),
        ("ellipsis_of_nothing", lambda x, y: x[1:, ..., 0, :]),
        ("bound_is_a_tensor", lambda x, y: x[:, : tf.shape(x)[1] - 1]),
        ("concat", lambda x, y: tf.concat([x, x * 2, y], 1)),
        ("concat_before_the_last", lambda x, y: tf.concat([y, x[:1]], -3)),
        ("stack", lambda x, y: tf.stack([x, y, x], 0)),
        ("stack_after", lambda x, y: tf.stack([x, y, x], 3)),
        ("stack_last", lambda x, y: tf.stack([x, x], -1)),
        ("stack_before", lambda x, y: tf.stack([x, x], -2)),
        ("unstack", lambda x, y: tf.unstack(x, axis=1)),
        ("unstack_before_the_last", lambda x, y: tf.unstack(x, axis=-2)[2:]),
        ("split", lambda x, y: tf.split(x, 5, 1)),
        ("split_unevenly", lambda x, y: tf.split(x, [1, 3, 1], -2)),
      ]
    ),
  )
  def test_stays_split(self, build):
    for _, sizes, unknown in sinking.CUTS:
      with self.subTest(sizes=sizes, unknown=unknown):
        sinking.check(
          self,
          build,
          {"x": _floats(4, 5, 6), "y": _floats(4, 5, 6)},
          {"x": Shard(2, sizes)},
          {"x": unknown, "y": unknown},
        )

  @parameterized.named_parameters(
    ("first_axis", lambda x: x[:, 1:, ..., 0], 0),
    ("middle", lambda x: x[1, :, tf.newaxis, 2:], 1),
  )
  def test_other_dimensions_stay_split(self, build, axis):
    sinking.check(
      self, build, {"x": _floats(4, 4, 6)}, {"x": Shard(axis, (1, 3))}
    )

  @parameterized.named_parameters(
    ("slice", lambda x: tf.slice(x, [0, 1], [-1, 5])),
    ("entry", lambda x: x[:, 3]),
    ("range", lambda x: x[:, 1:]),
    ("less", lambda x: x[:, :-1]),
    ("stride", lambda x: x[:, ::2]),
    ("backwards", lambda x: x[..., ::-1]),
    ("unstack", lambda x: tf.unstack(x, axis=1)),
    ("concat", lambda x: tf.concat([x, tf.ones([4, 2])], 1)),
    ("uneven_pieces", lambda x: tf.split(x, 3, 1)),
    ("a_piece_of_nothing", lambda x: tf.split(x, [0, 6], 1)),
  )
  def test_is_gathered(self, build):
    sinking.check(
      self, build, {"x": _floats(4, 6)}, {"x": Shard(1, (5, 1))}, gathers=1
    )

  def test_tensors_that_are_split_differently_are_gathered(self):
    sinking.check(
      self,
      lambda x, y: tf.concat([x, y], 0),
      {"x": _floats(4, 6), "y": _floats(3, 6)},
      {"x": Shard(1, (5, 1)), "y": Shard(1, (2, 4))},
      gathers=2,
    )

  @parameterized.named_parameters(
    ("evenly", lambda x: tf.split(x, 3, 2), (9, 3), (6, 6), (3, 3, 6)),
    ("of_gates", lambda x: tf.split(x, 4, -1), (4, 8), (8, 4), (4, 4, 4)),
    (
      "unevenly",
      lambda x: tf.split(x, [6, 3, 3], 2),
      (8, 4),
      (4, 8),
      (4, 4, 4),
    ),
  )
  def test_pieces_are_split_in_the_same_proportions(self, build, *all_sizes):
    """Queries, keys and values that one layer makes."""
    for sizes in all_sizes:
      found = sinking.check(
        self,
        lambda x: [tf.tanh(piece) for piece in build(x)],
        {"x": _floats(2, 3, 12)},
        {"x": Shard(2, sizes)},
        {"x": [0]},
      )
      composites = [
        decision
        for decision in found.inferred.decisions.values()
        if isinstance(decision, Composite)
      ]
      self.assertLen(composites, 1)
      for made in composites[0].outputs:
        self.assertEqual(
          [size * 12 for size in made.sizes],
          [size * made.size for size in sizes],
        )

  def test_the_gradient_of_a_slice_stays_split(self):
    sinking.check(
      self,
      lambda x: tf.raw_ops.StridedSliceGrad(
        shape=[4, 5, 6],
        begin=[1, 0],
        end=[3, 1],
        strides=[1, 1],
        dy=x,
        shrink_axis_mask=2,
      ),
      {"x": _floats(2, 6)},
      {"x": Shard(1, (5, 1))},
    )


if __name__ == "__main__":
  absltest.main()
