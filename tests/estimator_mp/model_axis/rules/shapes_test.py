"""Tests of the rules for ops that change shapes, or take and join pieces.

What a graph does not know of shapes, what is gathered, and branches; single ops
are in by_parts_test. All sunk graphs give values and gradients of plain ones.
"""

from estimator_mp.model_axis.decisions import Composite, Shard
from tests import tiers
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_rng = np.random.RandomState(4)

# How columns are cut, and which dimensions the graph does not know. Not the
# full product: a rule that reads sizes does not ask what is unknown.
_CUTS: list[tuple[tuple[int, ...], list[int]]] = tiers.sample(
  [((2, 4), [0]), ((4, 2), []), ((2, 2, 2), [0, 1]), ((2, 4), [0, 1])]
)


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


def _heads(x, i):
  """As BERT does: the batch is read from the tensor, the rest is known."""
  x = tf.reshape(x, [tf.shape(x)[0], 5, 3, 2])
  return tf.transpose(x, [0, 2, 1, 3])


def _outputs_of_heads(x):
  x = tf.transpose(x, [0, 2, 1, 3])
  return tf.reshape(x, [tf.shape(x)[0] * 5, 6])


def _taken_branch(x, i):
  return v1.cond(
    i < 100,
    lambda: tf.tanh(x) * tf.cast(tf.shape(x)[0], tf.float32),
    lambda: x * x,
  )


class ShapesTest(parameterized.TestCase):
  """Split tensors of shape [2, 5, 6], of 2 + 4 or 4 + 2 columns."""

  def setUp(self):
    super().setUp()
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)

  @parameterized.named_parameters(
    [
      ("heads", _heads),
      ("rows", lambda x, i: tf.reshape(x, [tf.size(x) // 6, 6])),
      ("heads_of_the_rest", lambda x, i: tf.reshape(x, [-1, 5, 3, 2])),
      ("as_its_own_shape", lambda x, i: tf.reshape(x, tf.shape(x))),
      ("tile", lambda x, i: tf.tile(x, tf.stack([tf.shape(x)[0], 1, 1]))),
      ("broadcast", lambda x, i: tf.broadcast_to(x[:1], tf.shape(x))),
      (
        "slice",
        lambda x, i: tf.slice(x, [0, 1, 0], tf.stack([tf.shape(x)[0], 2, 6])),
      ),
      ("bound", lambda x, i: x[:, : tf.shape(x)[1] - 1]),
      ("shape", lambda x, i: (tf.shape(x), tf.shape(x, tf.int64))),
      ("size", lambda x, i: (tf.size(x), tf.size(x[0]), tf.rank(x))),
      (
        "rank",
        lambda x, i: tf.raw_ops.Rank(input=x) + tf.raw_ops.Size(input=x),
      ),
      ("shapes", lambda x, i: tf.shape_n([x, x[:, :1], tf.zeros([3, 2])])),
      ("taken_branch", _taken_branch),
      (
        "other_branch",
        lambda x, i: v1.cond(i >= 100, lambda: tf.exp(x), lambda: x),
      ),
    ],
  )
  def test_stays_split(self, build):
    for sizes, unknown in _CUTS:
      with self.subTest(sizes=sizes, unknown=unknown):
        if 1 in unknown and build is _heads:
          continue
        sinking.check(
          self,
          build,
          {"x": _floats(2, 5, 6), "i": np.int32(3)},
          {"x": Shard(2, sizes)},
          {"x": unknown},
        )

  def test_branches_that_differ_are_gathered(self):
    sinking.check(
      self,
      lambda x, i: v1.cond(i < 100, lambda: x, lambda: tf.zeros([4, 6])),
      {"x": _floats(4, 6), "i": np.int32(3)},
      {"x": Shard(1, (1, 5))},
      gathers=1,
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

  def test_a_shape_is_read_without_the_tensor(self):
    found = sinking.check(
      self,
      lambda x: tf.fill(tf.shape(x), 2.0),
      {"x": _floats(3, 6)},
      {"x": Shard(1, (2, 4))},
      {"x": [0]},
    )
    self.assertFalse([x for x in found.devices if "gathered" in x])

  def test_rows_are_taken_where_they_are(self):
    """No device has the table, or rows of others but the first."""
    found = sinking.check(
      self,
      lambda x, i: tf.gather(x, i),
      {"x": _floats(50, 2), "i": _rng.randint(0, 50, [3, 2])},
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


if __name__ == "__main__":
  absltest.main()
