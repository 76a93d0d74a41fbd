"""Tests of the rules for ops that change shapes, and for those that read them.

All sunk graphs give values and gradients of the plain ones. Single ops are in
by_parts_test.
"""

from estimator_mp.graph import shapes
from estimator_mp.model_axis.decisions import Shard
from tests import tiers
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_rng = np.random.RandomState(4)

v1 = tf.compat.v1

# How columns are cut, and which dimensions the graph does not know. Not the
# full product: a rule that reads sizes does not ask what is unknown.
_CUTS: list[tuple[str, tuple[int, ...], list[int]]] = tiers.sample(
  [
    ("two_of_an_unknown_number", (2, 4), [0]),
    ("two", (4, 2), []),
    ("three_of_unknown_rows", (2, 2, 2), [0, 1]),
    ("two_of_unknown_rows", (2, 4), [0, 1]),
  ]
)


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


def _heads(x):
  """As BERT does: the batch is read from the tensor, the rest is known."""
  batch = tf.shape(x)[0]
  x = tf.reshape(x, [batch, 5, 3, 2])
  return tf.transpose(x, [0, 2, 1, 3])


def _outputs_of_heads(x):
  x = tf.transpose(x, [0, 2, 1, 3])
  return tf.reshape(x, [tf.shape(x)[0] * 5, 6])


class ShapesTest(parameterized.TestCase):
  """Split tensors of shape [2, 5, 6], of 2 + 4 or 4 + 2 columns."""

  @parameterized.named_parameters(
    tiers.thin(
      [
        ("heads", _heads),
        ("merge_rows", lambda x: tf.reshape(x, [-1, 6])),
        ("merge_rows_by_number", lambda x: tf.reshape(x, [tf.size(x) // 6, 6])),
        ("heads_from_the_rest", lambda x: tf.reshape(x, [-1, 5, 3, 2])),
        ("heads_of_the_rest", lambda x: tf.reshape(x, [-1, 5, 3, 2, 1])),
        (
          "as_its_own_shape",
          lambda x: tf.reshape(x, tf.shape(x)) + tf.reshape(x, [-1, 5, 6]),
        ),
        ("expand_before", lambda x: tf.expand_dims(x, -2)),
        ("expand_last", lambda x: tf.expand_dims(x, -1)),
        ("squeeze_from_the_last", lambda x: tf.squeeze(x[:, :1], -2)),
        (
          "tile_by_the_batch",
          lambda x: tf.tile(x, tf.stack([tf.shape(x)[0], 1, 1])),
        ),
        (
          "pad_value",
          lambda x: tf.pad(x, [[0, 1], [1, 2], [0, 0]], "CONSTANT", 3),
        ),
        ("broadcast_batch", lambda x: tf.broadcast_to(x[:1], tf.shape(x))),
        ("reverse", lambda x: tf.reverse(x, [0, -2])),
        ("roll", lambda x: tf.roll(x, [1, 3], [0, -2])),
        ("ensure_shape", lambda x: tf.ensure_shape(x, [None, 5, 6])),
        ("transpose", lambda x: tf.transpose(x)),
        ("shape", lambda x: (tf.shape(x), tf.shape(x, tf.int64))),
        ("size", lambda x: (tf.size(x), tf.size(x[0]), tf.rank(x))),
        (
          "rank",
          lambda x: tf.raw_ops.Rank(input=x) + tf.raw_ops.Size(input=x),
        ),
        ("shapes", lambda x: tf.shape_n([x, x[:, :1], tf.zeros([3, 2])])),
      ]
    ),
  )
  def test_stays_split(self, build):
    for _, sizes, unknown in _CUTS:
      with self.subTest(sizes=sizes, unknown=unknown):
        if 1 in unknown and build is _heads:
          continue
        sinking.check(
          self,
          build,
          {"x": _floats(2, 5, 6)},
          {"x": Shard(2, sizes)},
          {"x": unknown},
        )

  def test_outputs_of_heads(self):
    for unknown in ([], [0]):
      sinking.check(
        self,
        _outputs_of_heads,
        {"x": _floats(3, 4, 5, 2)[:, :3]},
        {"x": Shard(1, (1, 2))},
        {"x": unknown},
      )

  @parameterized.named_parameters(
    ("within_a_head", lambda x: tf.reshape(x, [-1, 3, 2]), Shard(1, (3, 3))),
    ("pixels", lambda x: tf.reshape(x, [-1, 2, 3]), Shard(1, (2, 4))),
    ("all_in_one", lambda x: tf.reshape(x, [-1]), Shard(1, (2, 4))),
    (
      "rows_of_another_length",
      lambda x: tf.reshape(x, [2, 9]),
      Shard(0, (1, 2)),
    ),
  )
  def test_is_gathered(self, build, split):
    sinking.check(self, build, {"x": _floats(3, 6)}, {"x": split}, gathers=1)

  def test_channels_of_pixels_are_gathered(self):
    """A flattened image has all channels of a pixel beside each other."""
    sinking.check(
      self,
      lambda x: tf.reshape(x, [-1, 3 * 4 * 6]),
      {"x": _floats(2, 3, 4, 6)},
      {"x": Shard(3, (2, 4))},
      {"x": [0]},
      gathers=1,
    )

  def test_features_that_are_split_first_stay_split(self):
    """A kernel that is split by rows, as a vector."""
    found = sinking.check(
      self,
      lambda x: tf.reshape(x, [-1]),
      {"x": _floats(3, 6)},
      {"x": Shard(0, (1, 2))},
    )
    self.assertIn(Shard(0, (6, 12)), found.inferred.splits.values())

  def test_an_unknown_length_is_told_from_another(self):
    """Heads before a length that the graph does not know, but names."""

    def build(x):
      shape = tf.shape(x)
      return tf.reshape(x, [shape[0], 4, shape[2] * 2]), tf.reshape(
        x, tf.stack([shape[0] * 2, 2, shape[2], 2])
      )

    sinking.check(
      self,
      build,
      {"x": _floats(3, 4, 5, 2)},
      {"x": Shard(1, (2, 2))},
      {"x": [0, 2]},
      gathers=1,
    )

    def known(x):
      shape = tf.shape(x)
      return tf.reshape(x, tf.stack([-1, 4, shape[2], 1, 2]))

    sinking.check(
      self,
      known,
      {"x": _floats(3, 4, 5, 2)},
      {"x": Shard(1, (1, 3))},
      {"x": [0, 2]},
    )

  def test_a_part_of_one_column_is_not_squeezed(self):
    sinking.check(
      self,
      lambda x: tf.squeeze(x),
      {"x": _floats(3, 1, 2, 1)},
      {"x": Shard(2, (1, 1))},
    )

  def test_a_shape_is_read_without_the_tensor(self):
    found = sinking.check(
      self,
      lambda x: tf.fill(tf.shape(x), 2.0),
      {"x": _floats(3, 6)},
      {"x": Shard(1, (2, 4))},
      {"x": [0]},
    )
    self.assertFalse([x for x in found.devices if "gathered" in x])

  def test_orders_of_dimensions_that_gradients_make(self):
    """Those of a product, and of entries that were taken, are constants."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
      x = v1.placeholder(tf.float32, [None, 5, 6])
      i = v1.placeholder(tf.int32, [7])
      for y in (tf.gather(x, i, axis=1), tf.reduce_prod(x, [-1, 0])):
        v1.gradients(y, x)
      orders = [
        op.inputs[1] for op in graph.get_operations() if op.type == "Transpose"
      ]
      self.assertLen(orders, 4)
      for order in orders:
        value = shapes.constant(order)
        self.assertIsNotNone(value, order.name)
        np.testing.assert_array_equal(value, session.run(order))
      places = tf.raw_ops.ListDiff(x=[4, 2, 3], y=[2])
      self.assertEqual(shapes.constant(places.out).tolist(), [4, 3])
      self.assertIsNone(shapes.constant(places.idx))

  def test_a_dimension_that_is_broadcast_stays_whole(self):
    sinking.check(
      self,
      lambda x: tf.broadcast_to(x, [2, 3, 6]) * 1.5,
      {"x": _floats(3, 6)},
      {"x": Shard(1, (5, 1))},
    )


if __name__ == "__main__":
  absltest.main()
