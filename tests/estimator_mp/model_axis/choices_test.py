"""Which of several decisions sends the least, as data."""

from estimator_mp.model_axis import choices
from estimator_mp.model_axis.decisions import (
  Partial,
  PerPart,
  Replicate,
  Shard,
)
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_ROWS, _COLUMNS = Shard(0, (2, 2)), Shard(1, (3, 3))


class ChoicesTest(graph_case.GraphCase):
  """A product of x [4, 6] and w [6, 8]: x has 96 bytes, w 192, y 128."""

  def setUp(self):
    super().setUp()
    x, w = (v1.placeholder(tf.float32, s) for s in ([4, 6], [6, 8]))
    self._op = tf.matmul(x, w).op
    inner = Shard(0, (3, 3))
    self._by_rows = PerPart((_ROWS, Replicate()), (_ROWS,))
    self._by_sum = PerPart((_COLUMNS, inner), (Partial(),))
    self._inner = inner

  def test_what_is_gathered(self):
    cases = (
      (self._by_rows, [_ROWS, None], 0),
      (self._by_rows, [_COLUMNS, None], 96),  # It is split otherwise.
      (self._by_rows, [_ROWS, self._inner], 192),
      (self._by_sum, [_COLUMNS, None], 0),
    )
    for decision, splits, expected in cases:
      found = choices.gathered(self._op, splits, decision)
      self.assertEqual(found, expected)

  def test_a_sum_is_sent_by_each_part(self):
    splits = [_COLUMNS, self._inner]
    self.assertEqual(choices.sent(self._op, splits, self._by_sum), 2 * 128)
    self.assertEqual(choices.sent(self._op, splits, self._by_rows), 96 + 192)

  def test_the_cheapest(self):
    both = [self._by_rows, self._by_sum]
    splits = [_COLUMNS, self._inner]
    self.assertEqual(choices.cheapest(self._op, splits, both), self._by_sum)
    self.assertEqual(
      choices.cheapest(self._op, [_ROWS, None], both), self._by_rows
    )
    self.assertIsNone(choices.cheapest(self._op, splits, []))

  def test_a_sum_that_sends_more_than_a_gather(self):
    """Only x is split, whose 96 bytes are less than the sum's."""
    found = choices.cheapest(self._op, [_COLUMNS, None], [self._by_sum])
    self.assertIsNone(found)

  def test_the_first_input_s_parts(self):
    op = tf.nn.bias_add(self._op.outputs[0], tf.zeros([8])).op
    expected = PerPart((_ROWS, Replicate()), (_ROWS,))
    self.assertEqual(choices.first_input(op, [_ROWS, None]), expected)
    for splits, across in (
      ([_ROWS, None], [0]),
      ([_ROWS, None], None),
      ([None, None], ()),
      ([_ROWS, Shard(0, (4, 4))], ()),
    ):
      self.assertIsNone(choices.first_input(op, splits, across))

  def test_the_least_gathered(self):
    def along(split):
      return self._by_rows if split == _ROWS else None

    splits = [_COLUMNS, None]
    found = choices.least_gathered(self._op, splits, along, [None, _ROWS])
    self.assertEqual(found, self._by_rows)
    self.assertIsNone(choices.least_gathered(self._op, splits, along))

  def test_splits_that_differ(self):
    splits = [None, _ROWS, _COLUMNS, Shard(0, (2, 2))]
    self.assertEqual(choices.different(splits), [_ROWS, _COLUMNS])


if __name__ == "__main__":
  absltest.main()
