"""Batches are cut into micro-batches, and lose nothing."""

import collections
import itertools

from estimator_mp.capture import batch_size, micro_batches
from estimator_mp.config import sharding_options
from tests import tiers
from tests.estimator_mp import drawn

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


def _unknown(value):
  """Returns a tensor of an unknown size, and its feed."""
  tensor, value = _tensor(value, static=False)
  return tensor, {tensor: value}


def _batch_of_sizes(sizes):
  """Returns tensors of sizes that the graph does not know, and their feed."""
  feed = {}

  def make(size):
    tensor, of_tensor = _unknown(np.zeros([size, 3]))
    feed.update(of_tensor)
    return tensor

  return tf.nest.map_structure(lambda n: n and make(n), sizes), feed


def _nested(size):
  """Returns a tensor within structures, and its feed."""
  tensor, feed = _unknown(np.zeros([size, 3]))
  return {"q": (tensor,)}, feed


def _sparse(size):
  """Returns a SparseTensor of an unknown size, and the feed of its parts."""
  sparse = v1.sparse_placeholder(tf.float32, [None, 5])
  value = v1.SparseTensorValue([[0, 1]], [2.0], [size, 5])
  return sparse, {sparse: value}


def _difference(usual, size, other, other_size):
  """Returns what is said of inputs of different sizes."""
  return (
    f"{usual} has {size} examples but {other} has {other_size}, so the batch "
    f"cannot be cut; say on which axis {other} has its examples, or None if it "
    f'has none: batch_axis=[("^{other}$", None)]'
  )


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


class ShapesTest(parameterized.TestCase):
  """The graph knows of a piece what it knows of the input."""

  def _shapes(self, value, *others):
    found = micro_batches.split_batch([value, *others], 3)
    return [piece[0] for piece in found.inputs]

  def test_sparse_tensor_of_a_known_size(self):
    with tf.Graph().as_default():
      x, _ = _tensor(np.ones([6, 5], np.float32))
      sparse = tf.sparse.from_dense(x)
      sparse = tf.SparseTensor(sparse.indices, sparse.values, [6, 5])
      for piece in self._shapes(sparse):
        self.assertEqual(piece.shape.as_list(), [2, 5])
        self.assertEqual(tf.sparse.to_dense(piece).shape.as_list(), [2, 5])

  def test_sparse_tensor_of_an_unknown_size(self):
    with tf.Graph().as_default():
      sparse, _ = _sparse(6)
      for piece in self._shapes(sparse):
        self.assertEqual(piece.shape.as_list(), [None, 5])
        self.assertEqual(tf.sparse.to_dense(piece).shape.as_list(), [None, 5])

  @parameterized.named_parameters(("static", True, 2), ("dynamic", False, None))
  def test_ragged_tensors(self, is_static, rows):
    with tf.Graph().as_default():
      ragged, _ = _ragged([[1], [2, 3], [], [4], [5], [6, 7]], is_static)
      pairs = tf.RaggedTensor.from_uniform_row_length(ragged, 2)
      even, _ = _ragged([[1]] * 3, is_static)
      for piece in self._shapes(ragged):
        self.assertEqual(piece.shape.as_list(), [rows, None])
      rows = rows and 1
      for piece in self._shapes(pairs, even):
        self.assertEqual(piece.shape.as_list(), [rows, 2, None])

  def test_uniform_rows_are_cut(self):
    rows = [[1], [2, 3], [], [4], [5], [6, 7]]
    for is_static in (True, False):
      with tf.Graph().as_default():
        ragged, feed = _ragged(rows, is_static)
        pairs = tf.RaggedTensor.from_uniform_row_length(ragged, 2)
        found = micro_batches.split_batch([pairs], 3)
        pieces = _evaluated([p[0] for p in found.inputs], feed)
      self.assertEqual(
        [p.to_list() for p in pieces], [[rows[i : i + 2]] for i in (0, 2, 4)]
      )

  def test_numbers_and_arrays(self):
    with tf.Graph().as_default():
      batch = {"rate": 0.5, "name": "a", "x": np.arange(6), "none": None}
      found = micro_batches.split_batch(batch, 3)
      self.assertEqual(
        [(p["rate"], p["name"], p["none"]) for p in found.inputs],
        [(0.5, "a", None)] * 3,
      )
      pieces = _evaluated([p["x"] for p in found.inputs], {})
    np.testing.assert_array_equal(pieces, [[0, 1], [2, 3], [4, 5]])

  def test_the_model_keeps_its_names(self):
    with tf.Graph().as_default() as graph:
      x, value = _tensor(np.ones([6, 5], np.float32), static=False)
      y, _ = _tensor(value, static=False)
      with v1.name_scope("outer"):
        micro_batches.split_batch([x, y, np.arange(6)], 3)
      names = {op.name.partition("/")[0] for op in graph.get_operations()}
    self.assertEqual(names, {"Placeholder", "Placeholder_1", "estimator_mp"})


class SizesTest(parameterized.TestCase):
  """Sizes that the graph does not know are compared in each step."""

  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  def _fails(self, inputs, feed, rules=(), count=2):
    """Returns what a step says of inputs; each piece of them waits for it."""
    found = micro_batches.split_batch(inputs, count, rules)
    texts = set()
    for tensor in tf.nest.flatten(found.inputs, expand_composites=True):
      # All but the constant shapes of sparse pieces.
      if tensor is not None and tf.get_static_value(tensor) is None:
        with self.assertRaises(tf.errors.InvalidArgumentError) as raised:
          _evaluated(tensor, feed)
        texts.add(batch_size.message_of_check(raised.exception.message))
    (text,) = texts
    return text

  @parameterized.named_parameters(
    ("first", {"a": 8, "x": 24}, "features/a"),
    ("last", {"x": 24, "z": 8}, "features/z"),
    ("longer", {"a": 48, "x": 24}, "features/a"),
    ("one_more", {"a": 25, "x": 24}, "features/a"),
    ("of_three", {"a": 8, "b": 8, "x": 24, "y": 24, "z": 24}, "features/a"),
    ("middle", {"a": 24, "b": 24, "x": 1, "y": 24, "z": 24}, "features/x"),
  )
  def test_the_one_that_differs_is_named(self, sizes, other):
    text = self._fails(*_batch_of_sizes({"features": sizes, "labels": 24}))
    size = sizes[other.partition("/")[2]]
    self.assertEqual(text, _difference("labels", 24, other, size))

  def test_a_matrix_is_likelier_than_a_vector(self):
    vector, feed = _unknown(np.zeros([4]))
    x, of_x = _unknown(np.zeros([24, 3]))
    text = self._fails({"a": vector, "x": x}, feed | of_x)
    self.assertEqual(text, _difference("x", 24, "a", 4))

  def test_without_labels(self):
    sizes = {"a": 8, "b": 24, "c": 24}
    text = self._fails(*_batch_of_sizes({"features": sizes, "labels": None}))
    expected = _difference("features/b", 24, "features/a", 8)
    self.assertEqual(text, expected)

  @parameterized.named_parameters(
    ("sparse", lambda: _sparse(5)),
    ("ragged", lambda: _ragged([[1], [2, 3], [], [4], [5]], static=False)),
    ("nested", lambda: _nested(5)),
  )
  def test_other_inputs(self, make):
    other, feed = make()
    x, value = _tensor(np.zeros([6, 3]), static=False)
    inputs = {"features": [other], "labels": {"y": x}}
    text = self._fails(inputs, feed | {x: value})
    name = "features/0/q/0" if isinstance(other, dict) else "features/0"
    self.assertEqual(text, _difference("labels/y", 6, name, 5))

  @parameterized.named_parameters(
    ("dense", lambda: _unknown(np.zeros([5, 3]))),
    ("longer", lambda: _unknown(np.zeros([8, 3]))),
    ("sparse", lambda: _sparse(5)),
    ("ragged", lambda: _ragged([[1], [2, 3], [], [4], [5]], static=False)),
  )
  def test_beside_a_known_batch(self, make):
    """Sixes are known, and what is not known has another size."""
    other, feed = make()
    x, value = _tensor(np.zeros([6, 3]))
    text = self._fails({"a": other, "x": x}, feed | {x: value})
    size = 8 if "longer" in self.id() else 5
    self.assertEqual(text, _difference("a", size, "x", 6))

  def test_a_known_vector_is_not_the_batch(self):
    """Weights of four classes, and batches that the graph does not know."""
    weights, weight_value = _tensor(np.ones([4]))
    x, x_value = _unknown(np.zeros([24, 3]))
    y, y_value = _unknown(np.zeros([24]))
    inputs = {"features": {"weights": weights, "x": x}, "labels": y}
    feed = {weights: weight_value} | x_value | y_value
    text = self._fails(inputs, feed)
    self.assertEqual(text, _difference("labels", 24, "features/weights", 4))
    with self.assertRaises(ValueError) as raised:
      micro_batches.split_batch(inputs, 3)
    self.assertEqual(
      str(raised.exception),
      "num_micro_batches=3 does not divide the batch of 4; use 1, 2 or 4; "
      "or, if features/weights holds no examples, say so: "
      'batch_axis=[("^features/weights$", None)]',
    )
    with self.assertRaises(ValueError) as raised:
      micro_batches.split_batch(inputs, 1, num_replicas=3)
    self.assertEqual(
      str(raised.exception),
      "data:3 does not divide the batch of 4; use a batch of 6, or as many "
      "replicas as divide it; or, if features/weights holds no examples, "
      'say so: batch_axis=[("^features/weights$", None)]',
    )
    rules = (("^features/weights$", None),)
    found = micro_batches.split_batch(inputs, 3, rules)
    pieces = _evaluated([p["features"] for p in found.inputs], feed)
    self.assertEqual([len(p["x"]) for p in pieces], [8, 8, 8])
    self.assertEqual([len(p["weights"]) for p in pieces], [4, 4, 4])

  def test_examples_on_another_axis(self):
    time, value = _tensor(np.zeros([6, 5, 3]), static=False, axis=1)
    y, y_value = _tensor(np.zeros([6]), static=False)
    text = self._fails(
      {"x": time, "labels": y}, {time: value, y: y_value}, (("x", 1),)
    )
    self.assertEqual(text, _difference("labels", 6, "x", 5))

  @parameterized.named_parameters(("one", 1), ("two", 2))
  def test_a_batch_without_examples(self, count):
    inputs, feed = {}, {}
    for i in range(count):
      inputs[str(i)], value = _tensor(np.zeros([0, 3]), static=False)
      feed[inputs[str(i)]] = value
    self.assertEqual(
      self._fails(inputs, feed),
      "the batch has no examples, so it cannot be cut; let input_fn leave "
      "out such batches",
    )

  def test_sizes_that_the_graph_knows_are_not_compared_again(self):
    x, _ = _tensor(np.zeros([6, 3]))
    found = micro_batches.split_batch([x, x], 2)
    self.assertEmpty(found.whole.ops)

  def test_the_host_compares(self):
    """Only shapes are read where tensors are, so that these stay there."""
    x, _ = _tensor(np.zeros([6, 3]), static=False)
    ragged, _ = _ragged([[1], [2]], static=False)
    sparse, _ = _sparse(6)
    found = micro_batches.split_batch(
      [x, ragged, sparse], 2, host="/device:CPU:1"
    )
    (check,) = [
      op
      for op in v1.get_default_graph().get_operations()
      if op.type == "Assert"
    ]
    self.assertIn(check, found.whole.ops)
    for op in found.whole.ops:
      is_shape = op.type == "Shape" and op.inputs[0] is x
      self.assertEqual(op.device, "" if is_shape else "/device:CPU:1", op.name)


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
        [found.inputs, found.mean_weights, found.sum_weights], {x: value}
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
    self.assertEqual(found.mean_weights, (0.25,) * 4)
    self.assertEqual(found.sum_weights, (1.0,) * 4)

  @tiers.slow
  @hypothesis.given(
    strategies.lists(
      strategies.lists(strategies.integers(0, 9), max_size=3),
      min_size=1,
      max_size=9,
    ),
    strategies.integers(2, 6),
    strategies.sampled_from(["dense", "ragged", "sparse"]),
  )
  @drawn.examples(40)
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
          found.mean_weights,
          found.sum_weights,
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
      "no_example",
      2,
      [0],
      "the batch has no examples, so it cannot be cut; let input_fn leave out "
      "such batches",
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

  def test_rounds(self):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [20])
      with self.assertRaises(ValueError) as raised:
        micro_batches.split_batch(x, 8, num_rounds=2)
    self.assertEqual(
      str(raised.exception),
      "num_micro_batches=4 with gradient_accumulation_steps=2 does not divide "
      "the batch of 20; let their product be 1, 2, 4, 5, 10 or 20",
    )

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
      _difference("features/x", 8, "features/mask", 3),
    )

  @parameterized.named_parameters(
    ("labels", {"features": {"a": 8, "x": 24}, "labels": 24}, "features/a"),
    ("no_labels", {"features": {"a": 8, "x": 24, "y": 24}}, "features/a"),
    (
      "tie",
      {"features": {"a": 8, "b": 8, "x": 24}, "labels": 24},
      "features/a",
    ),
  )
  def test_the_known_size_that_differs_is_named(self, sizes, other):
    with tf.Graph().as_default():
      batch = tf.nest.map_structure(
        lambda size: v1.placeholder(tf.float32, [size, 3]), sizes
      )
      with self.assertRaises(ValueError) as raised:
        micro_batches.split_batch(batch, 2)
    usual = "labels" if "labels" in sizes else "features/x"
    self.assertEqual(str(raised.exception), _difference(usual, 24, other, 8))

  def test_something_that_is_no_tensor(self):
    with tf.Graph().as_default():
      batch = {"x": v1.placeholder(tf.float32, [6]), "y": {1, 2}}
      with self.assertRaises(ValueError) as raised:
        micro_batches.split_batch(batch, 2)
    self.assertEqual(
      str(raised.exception),
      "y is a set, which cannot be cut; let input_fn return tensors, nested in "
      "dicts, lists and tuples",
    )

  def test_unknown_rank_of_what_belongs_to_the_whole_batch(self):
    with tf.Graph().as_default():
      batch = {
        "table": v1.placeholder(tf.float32),
        "x": v1.placeholder(tf.float32, [6]),
      }
      found = micro_batches.split_batch(batch, 2, [("table", None)])
    self.assertIs(found.inputs[1]["table"], batch["table"])

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
      sharding_options.ShardingOptions(batch_axis=[("y", None), rule])
    self.assertStartsWith(str(raised.exception), start)
    self.assertEndsWith(
      str(raised.exception),
      'an expression and an axis; write pairs such as ("features/mask", None)',
    )

  def test_malformed_expression(self):
    with self.assertRaises(ValueError) as raised:
      sharding_options.ShardingOptions(batch_axis=[("(", 0)])
    self.assertEqual(
      str(raised.exception),
      "batch_axis has '(', which is no regular expression: missing ), "
      "unterminated subpattern at position 0",
    )

  def test_well_formed_rules_become_tuples(self):
    self.assertEqual(
      sharding_options.ShardingOptions(
        batch_axis=[["a", 1], ("b", None)]
      ).batch_axis,
      (("a", 1), ("b", None)),
    )


if __name__ == "__main__":
  absltest.main()
