"""Accumulation: in which order, and where, gradients are added up."""

import estimator_mp  # noqa: F401
from estimator_mp.config import schedule as schedule_lib
from estimator_mp.graph import clones as clones_lib
from estimator_mp.lower import accumulation

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class AccumulationTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.enterContext(tf.Graph().as_default())

  def _accumulation(self, schedule, num_replicas=1):
    count = schedule.num_micro_batches * num_replicas
    homes = [clones_lib.Home(f"clone_{number}") for number in range(1, count)]
    self._clones = clones_lib.Clones(homes)
    return accumulation.Accumulation(self._clones, schedule)

  def _gradient(self, name):
    """Returns a gradient, with one of its own for each further micro-batch."""
    first, *others = (
      v1.placeholder(tf.float32, [None], f"{name}_{number}")
      for number in range(self._clones.count + 1)
    )
    self._clones.pair(first, others)
    return first

  def _terms(self, total):
    """Returns the names of what is added, the last one first."""
    terms = []
    while total.op.type != "Placeholder":
      total, term = total.op.inputs
      terms.append(term.op.name)
    return [*terms, total.op.name]

  def test_gradients_are_added_as_they_come(self):
    """In GPipe the last micro-batch goes back first."""
    added = self._accumulation(schedule_lib.make_schedule("gpipe", 2, 3))
    gradient = self._gradient("g")
    (total,) = added.totals(gradient, {gradient.op: 1})
    self.assertEqual(self._terms(total), ["g_0", "g_1", "g_2"])
    self.assertEqual(
      added.sums_of_replica(0),
      {(1, 1): [total.op.inputs[0].op], (1, 0): [total.op]},
    )

  def test_each_replica_adds_its_own(self):
    added = self._accumulation(schedule_lib.make_schedule("1f1b", 2, 2), 2)
    gradient = self._gradient("g")
    totals = added.totals(gradient, {gradient.op: 0})
    self.assertEqual(
      [self._terms(total) for total in totals], [["g_1", "g_0"], ["g_3", "g_2"]]
    )
    self.assertEqual(added.sums_of_replica(1), {(0, 1): [totals[1].op]})

  def test_a_gradient_of_no_stage_is_added_by_numbers(self):
    added = self._accumulation(schedule_lib.make_schedule("gpipe", 2, 2))
    (total,) = added.totals(self._gradient("g"), {})
    self.assertEqual(self._terms(total), ["g_1", "g_0"])
    self.assertEqual(added.sums_of_replica(0), {})

  def test_what_all_share_is_multiplied(self):
    added = self._accumulation(schedule_lib.make_schedule("1f1b", 1, 3))
    shared = v1.placeholder(tf.float32, [], "shared")
    (total,) = added.totals(shared, {})
    self.assertEqual(total.op.type, "Mul")
    self.assertEqual(tf.get_static_value(total.op.inputs[1]), 3.0)

  def test_rows_of_a_sparse_gradient_are_put_together(self):
    added = self._accumulation(schedule_lib.make_schedule("1f1b", 1, 2), 2)
    rows = tf.IndexedSlices(self._gradient("v"), self._gradient("i"))
    totals = added.totals(rows, {})
    self.assertLen(totals, 2)
    for total, numbers in zip(totals, ((0, 1), (2, 3)), strict=True):
      for name, tensor in (("v", total.values), ("i", total.indices)):
        parts = [x.op.name for x in tensor.op.inputs[:-1]]
        self.assertEqual(parts, [f"{name}_{number}" for number in numbers])


if __name__ == "__main__":
  absltest.main()
