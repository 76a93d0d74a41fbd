"""Where examples are in a tensor, and how slices of it are merged: as data."""

from estimator_mp.capture import micro_batches
from estimator_mp.pipeline import example_axes, merges
from estimator_mp.pipeline import slices as graph_slice
from estimator_mp.pipeline.example_axes import Kind
from estimator_mp.pipeline.merges import Merge

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class _Slices:
  """The analysis of a model of one slice."""

  def __init__(self, size, batch_axis=()):
    """Starts with features: x [B, 10], y [B, 5, 3], t [3, B], s sparse."""
    inputs = {
      "x": v1.placeholder(tf.float32, [size, 10]),
      "y": v1.placeholder(tf.float32, [size, None, 3]),
      "t": v1.placeholder(tf.float32, [3, size]),
      "s": v1.sparse_placeholder(tf.float32, [size, 7]),
    }
    self._seen = 0
    axes = [*batch_axis, ("^t$", 1)]
    self.batches = micro_batches.split_batch(inputs, 4, axes)
    first = self.batches.inputs[0]
    self.x, self.y, self.t, self.s = (first[name] for name in "xyts")
    roots = tf.nest.flatten(list(first.values()), expand_composites=True)
    self.finder = graph_slice.SliceFinder(roots)
    self._size = self.batches.size
    self._axes = example_axes.ExampleAxes(
      self.batches.cut, self.finder.differs, self._size
    )
    self._rules = merges.MergeRules(
      self._axes, self.finder.differs, self._size, 4
    )

  def _read(self):
    ops = tf.compat.v1.get_default_graph().get_operations()
    self.finder.add(ops[self._seen :])
    self._seen = len(ops)

  def layout(self, tensor):
    self._read()
    return self._axes.of(tensor)

  def merge(self, tensor):
    self._read()
    return self._rules.of(tensor)

  def terms(self, loss, word=None):
    self._read()
    return self._rules.terms(loss, word)


def _kernel(*shape):
  return v1.get_variable(f"kernel_{len(v1.global_variables())}", shape)


# The tensor of a slice, and the kind, axis and size for each example.
_LAYOUTS = {
  "feature": (lambda s: s.x, Kind.ROWS, 0, 1),
  "other_axis": (lambda s: s.t, Kind.ROWS, 1, 1),
  "transposed": (lambda s: tf.transpose(s.t), Kind.ROWS, 0, 1),
  "layer": (lambda s: tf.matmul(s.x, _kernel(10, 6)), Kind.ROWS, 0, 1),
  "steps": (lambda s: tf.reshape(s.x, [-1, 2]), Kind.ROWS, 0, 5),
  "steps_first": (
    lambda s: tf.reshape(tf.transpose(s.t), [-1]),
    Kind.ROWS,
    0,
    3,
  ),
  "steps_last": (lambda s: tf.reshape(s.t, [-1]), Kind.MIXED, None, 3),
  "mean_of_one_column": (
    lambda s: tf.reduce_mean(s.x[:, :1], 0),
    Kind.NONE,
    None,
    0,
  ),
  "mean_of_time": (lambda s: tf.reduce_mean(s.y, 0), Kind.NONE, None, 0),
  "sum": (lambda s: tf.reduce_sum(s.x), Kind.NONE, None, 0),
  "two_batches": (lambda s: tf.concat([s.x, -s.x], 0), Kind.MIXED, None, 2),
  "after_two_batches": (
    lambda s: tf.nn.relu(tf.concat([s.x, -s.x], 0)),
    Kind.MIXED,
    None,
    2,
  ),
  "two_features": (lambda s: tf.concat([s.x, -s.x], 1), Kind.ROWS, 0, 1),
  "reversed": (
    lambda s: tf.reverse(s.x, [0]),
    *(Kind.MIXED, None, 1),
    *(False, True),  # Is moved.
  ),
  "with_reversed": (lambda s: s.x * tf.reverse(s.x, [0]), Kind.PAIRS, None, 0),
  "with_rolled": (
    lambda s: s.x - tf.tanh(tf.roll(s.x, 1, 0)),
    Kind.PAIRS,
    None,
    0,
  ),
  "with_shuffled": (
    lambda s: s.x - tf.random.shuffle(s.x, seed=1),
    Kind.MIXED,
    None,
    1,
  ),
  "with_reversed_columns": (
    lambda s: s.x * tf.reverse(s.x, [1]),
    Kind.MIXED,
    None,
    1,
  ),
  "all_but_one": (lambda s: s.x[1:], Kind.MIXED, None, 0),
  "first_one": (lambda s: s.x[0], Kind.NONE, None, 0),
  "pairs": (
    lambda s: tf.matmul(s.x, s.x, transpose_b=True),
    Kind.PAIRS,
    None,
    0,
  ),
  "row_sums_of_pairs": (
    lambda s: tf.reduce_sum(tf.matmul(s.x, s.x, transpose_b=True), 1),
    Kind.PAIRS,
    None,
    0,
  ),
  "masked": (
    lambda s: tf.boolean_mask(s.x, s.x[:, 0] > 0),
    Kind.UNKNOWN,
    None,
    0,
    True,
  ),
  "after_masked": (
    lambda s: tf.nn.relu(tf.boolean_mask(s.x, s.x[:, 0] > 0)),
    Kind.UNKNOWN,
    None,
    0,
    True,
  ),
  "of_a_loop": (
    lambda s: tf.scan(lambda a, t: a + t, tf.transpose(s.x)),
    Kind.UNKNOWN,
    None,
    0,
  ),
  "sparse_values": (lambda s: s.s.values, Kind.PARTS, None, 0),
  "sparse_product": (
    lambda s: tf.sparse.sparse_dense_matmul(s.s, _kernel(7, 2)),
    Kind.ROWS,
    0,
    1,
  ),
  "weights": (lambda s: _kernel(24, 10), Kind.NONE, None, 0),
}

_MERGES = {
  "mean": (lambda s: tf.reduce_mean(s.x), Merge.MEAN),
  "scaled_mean": (lambda s: 3.0 * tf.reduce_mean(s.x) + 1.0, Merge.MEAN),
  "sum": (lambda s: tf.reduce_sum(s.x), Merge.SUM),
  "squares": (lambda s: tf.nn.l2_loss(s.x), Merge.SUM),
  "largest": (lambda s: tf.reduce_max(s.x), Merge.MAX),
  "root_of_mean": (lambda s: tf.sqrt(tf.reduce_mean(s.x)), Merge.AGAIN),
  "ratio_of_sums": (
    lambda s: tf.reduce_sum(s.x) / tf.reduce_sum(s.t),
    Merge.AGAIN,
  ),
  "sum_of_examples": (lambda s: tf.reduce_sum(s.x, 1), Merge.CONCAT),
  "sum_of_means": (
    lambda s: tf.reduce_sum(tf.reduce_mean(s.x, 0)),
    Merge.MEAN,
  ),
  "mean_of_masked": (
    lambda s: tf.reduce_mean(tf.boolean_mask(s.x, s.x[:, 0] > 0)),
    Merge.AGAIN,
  ),
  "mean_of_a_loop": (
    lambda s: tf.reduce_mean(tf.scan(lambda a, t: a + t, tf.transpose(s.x))),
    Merge.MEAN,
  ),
  "sum_of_a_loop": (
    lambda s: tf.reduce_sum(tf.scan(lambda a, t: a + t, tf.transpose(s.x))),
    Merge.AGAIN,
  ),
  "of_pairs": (
    lambda s: tf.reduce_mean(tf.matmul(s.x, s.x, transpose_b=True)),
    Merge.AGAIN,
  ),
  "of_weights": (lambda s: tf.nn.l2_loss(_kernel(3, 3)), Merge.FIRST),
}
_SIZES = (("dynamic", None), ("static", 24))


def _cases(table):
  return [
    (f"{name}_{size}", *entry, number)
    for name, entry in table.items()
    for size, number in _SIZES
  ]


class LayoutTest(parameterized.TestCase):
  @parameterized.named_parameters(_cases(_LAYOUTS))
  def test_layout(self, make, *expected):
    *layout, size = expected
    with tf.Graph().as_default():
      slices = _Slices(size)
      found = slices.layout(make(slices))
    self.assertEqual(found, example_axes.Layout(*layout))

  def test_model_for_one_size(self):
    """What cannot be built for another size is told by its first dimension."""
    with tf.Graph().as_default():
      slices = _Slices(24)
      rows = tf.reshape(slices.x, [6, 2, 5])
      self.assertEqual(
        slices.layout(rows), example_axes.Layout(Kind.ROWS, 0, 1)
      )
      column = tf.reduce_sum(rows, [0, 2])
      self.assertEqual(slices.layout(column).kind, Kind.NONE)


class MergeTest(parameterized.TestCase):
  @parameterized.named_parameters(_cases(_MERGES))
  def test_merge(self, make, merge, size):
    with tf.Graph().as_default():
      slices = _Slices(size)
      self.assertEqual(slices.merge(make(slices)), merge)

  def test_number_of_examples(self):
    with tf.Graph().as_default():
      slices = _Slices(None)
      self.assertEqual(slices.merge(tf.shape(slices.x)[0]), Merge.COUNT)
      self.assertEqual(slices.merge(tf.shape(slices.x)[1]), Merge.FIRST)
      self.assertEqual(slices.merge(tf.size(slices.x)), Merge.COUNT)

  def test_deep_model(self):
    """Deeper than Python's stack."""
    with tf.Graph().as_default():
      slices = _Slices(None)
      tensor = tf.reduce_mean(slices.x)
      for _ in range(1500):
        tensor = tf.sin(tensor)
      self.assertEqual(slices.merge(tensor), Merge.AGAIN)


class TermsTest(absltest.TestCase):
  def _terms(self, make, word=None, size=None):
    with tf.Graph().as_default():
      slices = _Slices(size)
      loss = make(slices)
      terms = slices.terms(loss, word)
      return terms, terms.merges[loss.name]

  def test_sum_beside_a_mean(self):
    terms, merge = self._terms(
      lambda s: tf.add(tf.reduce_sum(s.x, name="sum"), tf.reduce_mean(s.x))
    )
    self.assertEqual(merge, Merge.MEAN)
    self.assertEqual([t.tensor.name for t in terms.sums], ["sum:0"])
    self.assertEmpty(terms.asked)

  def test_weights_of_examples(self):
    terms, merge = self._terms(
      lambda s: tf.reduce_sum(s.x) / tf.reduce_sum(s.t, name="weights")
    )
    self.assertEqual(merge, Merge.SUM)
    self.assertEqual([t.tensor.name for t in terms.statistics], ["weights:0"])

  def test_by_number_of_elements(self):
    terms, merge = self._terms(
      lambda s: tf.reduce_sum(s.x) / tf.cast(tf.size(s.x), tf.float32)
    )
    self.assertEqual(merge, Merge.MEAN)
    self.assertEmpty(terms.statistics)

  def test_divisors_that_the_graph_knows(self):
    """A slice of 24 in four has 6 examples of 10 elements."""
    for divisor, expected in (
      (lambda s: tf.cast(tf.size(s.x), tf.float32), Merge.MEAN),
      (lambda s: tf.cast(tf.shape(s.x)[0], tf.float32), Merge.MEAN),
      (lambda s: 7.0, Merge.SUM),
      (lambda s: 6.0, Merge.UNKNOWN),
      (lambda s: 24.0, Merge.UNKNOWN),
    ):
      terms, merge = self._terms(
        lambda s, d=divisor: tf.reduce_sum(s.x) / d(s), size=24
      )
      self.assertEqual(merge, expected)
    self.assertEqual(terms.asked[0].op.type, "RealDiv")
    terms, merge = self._terms(
      lambda s: tf.reduce_sum(s.x) / 24.0, Merge.SUM, 24
    )
    self.assertEqual(merge, Merge.SUM)

  def test_what_is_not_linear(self):
    for make in (
      lambda s: tf.sqrt(tf.reduce_mean(s.x), name="unknown"),
      lambda s: tf.reduce_max(s.x, name="unknown"),
      lambda s: tf.multiply(
        tf.matmul(s.x, _kernel(10, 1))[0, 0],
        tf.reduce_mean(s.x),
        name="unknown",
      ),
    ):
      terms, merge = self._terms(make)
      self.assertEqual(merge, Merge.UNKNOWN)
      self.assertNotEmpty(terms.asked)
      terms, merge = self._terms(make, Merge.MEAN)
      self.assertEqual(merge, Merge.MEAN)


if __name__ == "__main__":
  absltest.main()
