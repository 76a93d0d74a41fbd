"""The ledger: what was made in a graph, by whom and for what."""

from estimator_mp.graph.ledger import Ledger, Role, made_in

import tensorflow as tf
from absl.testing import absltest


def _op(name):
  return tf.no_op(name)


class LedgerTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())
    self._before = _op("before")
    self._ledger = Ledger(self._graph)

  def test_each_new_op_is_read_once(self):
    first = _op("first")
    self.assertEqual(self._ledger.read_new(), [first])
    second = _op("second")
    self.assertEqual(self._ledger.read_new(), [second])
    self.assertEmpty(self._ledger.read_new())
    self.assertEqual(self._ledger.all_made(), [first, second])

  def test_what_is_apart_is_not_read(self):
    for role in (Role.CUT, Role.PASS, Role.MIRROR):
      with self._ledger.creating(role):
        _op(role.value)
    with self._ledger.creating(Role.SLICE, self._before):
      of_slice = _op("of_slice")
    self.assertEqual(self._ledger.read_new(), [of_slice])

  def test_role_and_what_an_op_was_made_for(self):
    own = _op("own")
    with self._ledger.creating(Role.PART, own):
      part = _op("part")
    with self._ledger.creating(Role.SLICE, part):
      of_slice = _op("of_slice")
    self.assertIsNone(self._ledger.role(own))
    self.assertIs(self._ledger.role(part), Role.PART)
    self.assertEqual(self._ledger.with_role(Role.SLICE), [of_slice])
    self.assertEqual(self._ledger.made_for, {part: own, of_slice: part})

  def test_the_inner_of_two_blocks_counts(self):
    one, other = _op("one"), _op("other")
    with self._ledger.creating(Role.PART, one):
      outer = _op("outer")
      with self._ledger.creating(Role.SLICE, other):
        inner = _op("inner")
    self.assertEqual(self._ledger.made_for, {outer: one, inner: other})
    self.assertIs(self._ledger.role(inner), Role.SLICE)

  def test_what_is_entered_keeps_its_role(self):
    op = _op("op")
    self._ledger.enter([op], Role.PASS)
    self._ledger.enter([op], Role.MIRROR, self._before)
    self.assertIs(self._ledger.role(op), Role.PASS)
    self.assertEmpty(self._ledger.made_for)

  def test_requests_are_numbered(self):
    numbers = []
    for name in ("first", "second"):
      with self._ledger.answering() as number:
        numbers.append(number)
        _op(name)
      _op(f"after_{name}")
    self.assertEqual(numbers, [0, 1])
    requests = {op.name: x for op, x in self._ledger.request_of.items()}
    self.assertEqual(requests, {"first": 0, "second": 1})

  def test_ops_of_a_block(self):
    with made_in(self._graph) as made:
      self.assertEmpty(made)
      inside = _op("inside")
    _op("outside")
    self.assertEqual(made, [inside])


if __name__ == "__main__":
  absltest.main()
