"""Indices of rows that are counted over the whole batch, as terms."""

from estimator_mp.plan import places
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_EXAMPLES, _ROWS = 4, 3


class PlacesTest(graph_case.GraphCase):
  """Of 4 examples with 3 rows each, two words each are taken."""

  def setUp(self):
    super().setUp()
    self._taken = v1.placeholder(tf.int32, [_EXAMPLES, 2], "taken")

  def _offsets(self, rows=_ROWS, start=0):
    offsets = tf.range(_EXAMPLES) * rows + start
    return tf.reshape(offsets, [-1, 1])

  def _terms(self, indices, rows=_ROWS):
    return places.terms_of(indices, lambda x: x, _EXAMPLES, rows)

  def test_offsets_are_added_to_what_each_example_takes(self):
    offsets = self._offsets()
    for indices in (self._taken + offsets, offsets + self._taken):
      taken, begin = self._terms(indices)
      self.assertIs(taken, self._taken)
      self.assertEqual(begin.shape.as_list(), [_EXAMPLES])

  def test_views_of_the_sum(self):
    flat = tf.reshape(self._taken + self._offsets(), [-1])
    found, _ = self._terms(tf.cast(flat, tf.int64))
    self.assertIs(found, self._taken)

  @parameterized.named_parameters(
    ("others_rows", lambda test: test._taken + test._offsets(start=1)),
    ("other_lengths", lambda test: test._taken + test._offsets(rows=2)),
    ("a_product", lambda test: test._taken * test._offsets()),
    ("no_offsets", lambda test: test._taken + 1),
    ("as_it_is", lambda test: test._taken),
    (
      "of_no_example",
      lambda test: test._taken + tf.reshape(test._offsets(), [4])[:2],
    ),
  )
  def test_whatever_else_is_not_understood(self, indices):
    self.assertIsNone(self._terms(indices(self)))

  def test_examples_of_one_row_take_nothing(self):
    indices = self._taken + self._offsets(1)
    self.assertIsNone(self._terms(indices, 1))

  def test_tensors_that_have_no_known_size(self):
    indices = self._taken + self._offsets()
    self.assertIsNone(
      places.terms_of(indices, lambda x: None, _EXAMPLES, _ROWS)
    )


if __name__ == "__main__":
  absltest.main()
