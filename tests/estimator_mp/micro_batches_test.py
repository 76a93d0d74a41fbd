"""Batches are cut into micro-batches, and lose nothing."""

import collections
import itertools

from estimator_mp import micro_batches, sharding_options

import hypothesis
import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized
from hypothesis import strategies

v1 = tf.compat.v1
_Pair = collections.namedtuple("_Pair", ["left", "right"])


def _tensor(value, static=True, axis=0):
  """Returns a tensor that a session is fed, and what it is fed with."""
  value = np.asarray(value)
  shape = list(value.shape)
  if not static:
    shape[axis] = None
  return v1.placeholder(value.dtype, shape), value


def _ragged(rows, static):
  """Returns a RaggedTensor of rows, and the feed of its parts."""
  values = np.concatenate([np.asarray(row, np.int32) for row in rows])
  lengths = np.array([len(row) for row in rows], np.int64)
  value_tensor = v1.placeholder(tf.int32, [None])
  length_tensor = v1.placeholder(tf.int64, [len(rows)] if static else [None])
  ragged = tf.RaggedTensor.from_row_lengths(value_tensor, length_tensor)
  return ragged, {value_tensor: values, length_tensor: lengths}


def _evaluated(fetches, feed):
  with v1.Session() as session:
    return session.run(fetches, feed)


class StructureTest(parameterized.TestCase):
  @parameterized.named_parameters(("static", True), ("dynamic", False))
  def test_dense_tensors_in_nests(self, static):
    with tf.Graph().as_default():
      x, x_value = _tensor(
        np.arange(12, dtype=np.float32).reshape(6, 2), static
      )
      y, y_value = _tensor(np.arange(6, dtype=np.int64), static)
      rate, rate_value = _tensor(np.float32(0.5))
      batch = {
        "labels": y,
        "features": {
          "pair": _Pair(x, None),
          "list": [x, (y,)],
          "ordered": collections.OrderedDict([("b", x), ("a", y)]),
          "default": collections.defaultdict(list, {"x": x}),
          "rate": rate,
        },
      }
      found = micro_batches.split_batch(batch, 3)
      self.assertLen(found.inputs, 3)
      for piece in found.inputs:
        self.assertEqual([*piece], ["labels", "features"])
        features = piece["features"]
        self.assertIsInstance(features["pair"], _Pair)
        self.assertIsNone(features["pair"].right)
        self.assertIsInstance(features["list"][1], tuple)
        self.assertEqual([*features["ordered"]], ["b", "a"])
        self.assertIs(features["default"].default_factory, list)
        self.assertIs(features["rate"], rate)
        self.assertEqual(
          piece["labels"].shape.as_list(), [2 if static else None]
        )
        self.assertEqual(features["pair"].left.shape[1], 2)
      pieces = _evaluated(
        [
          [
            p["features"]["pair"].left,
            p["features"]["list"][0],
            p["features"]["ordered"]["b"],
            p["features"]["default"]["x"],
            p["labels"],
            p["features"]["ordered"]["a"],
            p["features"]["list"][1][0],
          ]
          for p in found.inputs
        ],
        {x: x_value, y: y_value, rate: rate_value},
      )
    for m, piece in enumerate(pieces):
      for found_x in piece[:4]:
        np.testing.assert_array_equal(found_x, x_value[2 * m : 2 * m + 2])
      for found_y in piece[4:]:
        np.testing.assert_array_equal(found_y, y_value[2 * m : 2 * m + 2])

  @parameterized.named_parameters(("static", True), ("dynamic", False))
  def test_sparse_tensors(self, static):
    dense = np.array(
      [[0, 1, 0], [2, 0, 3], [0, 0, 0], [0, 0, 4], [5, 6, 0], [0, 7, 0]],
      np.float32,
    )
    with tf.Graph().as_default():
      other, value = _tensor(dense, static)
      sparse = tf.sparse.from_dense(other)
      if static:
        sparse = tf.SparseTensor(sparse.indices, sparse.values, dense.shape)
      found = micro_batches.split_batch({"s": sparse, "x": other}, 3)
      pieces = _evaluated(
        [
          [tf.sparse.to_dense(p["s"]), p["s"].dense_shape, p["x"]]
          for p in found.inputs
        ],
        {other: value},
      )
    for m, (piece, shape, same) in enumerate(pieces):
      np.testing.assert_array_equal(piece, dense[2 * m : 2 * m + 2])
      np.testing.assert_array_equal(same, piece)
      self.assertEqual(shape.tolist(), [2, 3])

  @parameterized.named_parameters(
    ("static", True, True), ("dynamic", False, False), ("mixed", False, True)
  )
  def test_ragged_tensors(self, knows_ragged, knows_dense):
    rows = [[1], [2, 3], [], [4, 5, 6], [7], [8, 9]]
    with tf.Graph().as_default():
      ragged, feed = _ragged(rows, knows_ragged)
      x, value = _tensor(np.arange(6, dtype=np.float32), knows_dense)
      found = micro_batches.split_batch([ragged, x], 2)
      pieces = _evaluated([p[0] for p in found.inputs], feed | {x: value})
    self.assertEqual([p.to_list() for p in pieces], [rows[:3], rows[3:]])

  def test_sparse_tensors_beside_a_static_batch(self):
    """A batch of four whose size only a dense tensor tells the graph."""
    with tf.Graph().as_default():
      x, value = _tensor(np.eye(4, dtype=np.float32))
      wide = tf.sparse.from_dense(v1.placeholder_with_default(x, [None, 4]))
      found = micro_batches.split_batch([wide, x], 2)
      pieces = _evaluated(
        [tf.sparse.to_dense(p[0]) for p in found.inputs], {x: value}
      )
    np.testing.assert_array_equal(np.concatenate(pieces), value)

  @parameterized.named_parameters(("static", True), ("dynamic", False))
  def test_batch_axis(self, static):
    value = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    with tf.Graph().as_default():
      time_major, _ = _tensor(value, static, axis=1)
      mask, mask_value = _tensor(np.ones([5], np.float32))
      x, x_value = _tensor(np.arange(4, dtype=np.float32), static)
      batch = {"features": {"time": time_major, "mask": mask, "mask_x": x}}
      rules = (
        ("mask_x", 0),
        ("^features/mask", None),
        ("time", 1),
        ("time", 0),
      )
      found = micro_batches.split_batch(batch, 2, rules)
      self.assertIs(found.inputs[1]["features"]["mask"], mask)
      pieces = _evaluated(
        [
          [p["features"]["time"], p["features"]["mask_x"]] for p in found.inputs
        ],
        {time_major: value, mask: mask_value, x: x_value},
      )
    for m, (time, found_x) in enumerate(pieces):
      np.testing.assert_array_equal(time, value[:, 2 * m : 2 * m + 2])
      np.testing.assert_array_equal(found_x, x_value[2 * m : 2 * m + 2])


class CountingTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("equal", 6, 3, [2, 2, 2]),
    ("uneven", 7, 3, [3, 2, 2]),
    ("one_each", 3, 3, [1, 1, 1]),
    ("too_few", 2, 4, [1, 1, 0, 0]),
    ("one_example", 1, 3, [1, 0, 0]),
  )
  def test_dynamic_batch(self, examples, count, expected):
    value = np.arange(10 * examples).reshape(examples, 10).astype(np.float32)
    with tf.Graph().as_default():
      x, _ = _tensor(value, static=False)
      found = micro_batches.split_batch(x, count)
      pieces, shares, factors = _evaluated(
        [found.inputs, found.shares, found.factors], {x: value}
      )
    np.testing.assert_allclose(shares, np.array(expected) / examples, rtol=1e-6)
    self.assertEqual([*factors], [min(size, 1) for size in expected])
    # The last example stands in for those that are missing.
    self.assertEqual([len(p) for p in pieces], [max(n, 1) for n in expected])
    for piece, factor in zip(pieces, factors, strict=True):
      if not factor:
        np.testing.assert_array_equal(piece, value[-1:])

  def test_static_batch(self):
    with tf.Graph().as_default():
      x, _ = _tensor(np.zeros([8, 2], np.float32))
      found = micro_batches.split_batch(x, 4)
    self.assertEqual(found.shares, (0.25,) * 4)
    self.assertEqual(found.factors, (1.0,) * 4)

  @hypothesis.given(
    strategies.lists(
      strategies.lists(strategies.integers(0, 9), max_size=3),
      min_size=1,
      max_size=9,
    ),
    strategies.integers(2, 6),
    strategies.sampled_from(["dense", "ragged", "sparse"]),
  )
  @hypothesis.settings(max_examples=40, deadline=None)
  def test_pieces_that_count_make_up_the_batch(self, rows, count, kind):
    with tf.Graph().as_default():
      ragged, feed = _ragged(rows, static=False)
      padded = ragged.to_tensor(default_value=0, shape=[None, 4])
      batch = {
        "dense": padded,
        "ragged": ragged,
        "sparse": tf.sparse.from_dense(padded),
      }[kind]
      found = micro_batches.split_batch({"x": batch}, count)
      pieces = [p["x"] for p in found.inputs]
      if kind == "sparse":
        pieces = [tf.sparse.to_dense(p) for p in pieces]
      whole, pieces, shares, factors = _evaluated(
        [
          padded if kind == "sparse" else batch,
          pieces,
          found.shares,
          found.factors,
        ],
        feed,
      )
    counted = [
      [*p.to_list()] if kind == "ragged" else p.tolist()
      for p, factor in zip(pieces, factors, strict=True)
      if factor
    ]
    expected = whole.to_list() if kind == "ragged" else whole.tolist()
    self.assertEqual([*itertools.chain(*counted)], expected)
    self.assertAlmostEqual(sum(shares), 1.0, places=6)
    self.assertLessEqual(max(map(len, counted)) - min(map(len, counted)), 1)
    for piece, share, factor in zip(pieces, shares, factors, strict=True):
      size = len(piece.to_list() if kind == "ragged" else piece)
      self.assertAlmostEqual(share, factor * size / len(rows), places=6)


class ErrorsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "does_not_divide",
      6,
      [64],
      "num_micro_batches=6 does not divide the batch of 64; use 1, 2, 4, 8, "
      "16, 32 or 64",
    ),
    (
      "prime",
      2,
      [7],
      "num_micro_batches=2 does not divide the batch of 7; use 1 or 7",
    ),
    (
      "one_example",
      2,
      [1],
      "num_micro_batches=2 does not divide the batch of 1; use 1",
    ),
    (
      "unknown_rank",
      2,
      None,
      "features/x has an unknown number of dimensions, so it cannot be cut; "
      "set its shape in input_fn",
    ),
    (
      "scalars_only",
      4,
      [],
      "num_micro_batches=4, but features and labels have no tensor with "
      "examples to cut; use num_micro_batches=1",
    ),
  )
  def test_one_tensor(self, count, shape, message):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, shape)
      with self.assertRaises(ValueError) as raised:
        micro_batches.split_batch({"features": {"x": x}, "labels": None}, count)
    self.assertEqual(str(raised.exception), message)

  def test_different_numbers_of_examples(self):
    with tf.Graph().as_default():
      batch = {
        "features": {
          "mask": v1.placeholder(tf.float32, [3]),
          "x": v1.placeholder(tf.float32, [8, 2]),
        }
      }
      with self.assertRaises(ValueError) as raised:
        micro_batches.split_batch(batch, 2)
    self.assertEqual(
      str(raised.exception),
      "features/mask has 3 examples but features/x has 8, so the batch cannot "
      "be cut; if one of them holds no examples, say so: "
      'batch_axis=[("^features/x$", None)]',
    )

  @parameterized.named_parameters(
    (
      "too_large",
      lambda: v1.placeholder(tf.float32, [4, 3]),
      2,
      "batch_axis says axis 2 for x, which has the shape (4, 3); use an axis "
      "that it has, or None if it holds no examples",
    ),
    (
      "negative",
      lambda: v1.placeholder(tf.float32, [4, 3]),
      -1,
      "batch_axis says axis -1 for x, which has the shape (4, 3); use an axis "
      "that it has, or None if it holds no examples",
    ),
    (
      "scalar",
      lambda: v1.placeholder(tf.float32, []),
      0,
      "batch_axis says axis 0 for x, which has the shape (); use an axis that "
      "it has, or None if it holds no examples",
    ),
    (
      "sparse",
      lambda: v1.sparse_placeholder(tf.float32, [4, 3]),
      1,
      "batch_axis says axis 1 for x, a SparseTensor; these can be cut on axis "
      "0 only",
    ),
    (
      "ragged",
      lambda: v1.ragged.placeholder(tf.float32, 1, []),
      1,
      "batch_axis says axis 1 for x, a RaggedTensor; these can be cut on axis "
      "0 only",
    ),
  )
  def test_axis(self, make, axis, message):
    with tf.Graph().as_default():
      batch = {"x": make()}
      with self.assertRaises(ValueError) as raised:
        micro_batches.split_batch(batch, 2, (("x", axis),))
    self.assertEqual(str(raised.exception), message)

  @parameterized.named_parameters(
    ("no_pair", "x", "batch_axis has 'x', which is no pair of an expression"),
    ("text", ("x", "0"), "batch_axis has ('x', '0'), which is no pair of an"),
    ("bool", ("x", True), "batch_axis has ('x', True), which is no pair of an"),
    ("number", (0, 0), "batch_axis has (0, 0), which is no pair of an"),
    ("three", ("x", 0, 1), "batch_axis has ('x', 0, 1), which is no pair of"),
  )
  def test_malformed_rule(self, rule, start):
    with self.assertRaises(ValueError) as raised:
      sharding_options.check_batch_axis([("y", None), rule])
    self.assertStartsWith(str(raised.exception), start)
    self.assertEndsWith(
      str(raised.exception),
      'an expression and an axis; write pairs such as ("features/mask", None)',
    )

  def test_malformed_expression(self):
    with self.assertRaises(ValueError) as raised:
      sharding_options.check_batch_axis([("(", 0)])
    self.assertEqual(
      str(raised.exception),
      "batch_axis has '(', which is no regular expression: missing ), "
      "unterminated subpattern at position 0",
    )

  def test_well_formed_rules_become_tuples(self):
    self.assertEqual(
      sharding_options.check_batch_axis([["a", 1], ("b", None)]),
      (("a", 1), ("b", None)),
    )


if __name__ == "__main__":
  absltest.main()
