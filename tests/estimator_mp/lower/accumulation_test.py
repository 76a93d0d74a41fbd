"""Accumulation: in which order, and where, gradients are added up."""

import estimator_mp  # noqa: F401
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules.schedule import Cell, Phase
from estimator_mp.graph import clones as clones_lib
from estimator_mp.lower import accumulation
from estimator_mp.pipeline.cells import Pass

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _backward(stage, micro_batch=None):
  """Returns the backward pass through a stage, or a cell of it."""
  if micro_batch is None:
    return Pass(stage, Phase.BACKWARD)
  return Cell(stage, micro_batch, Phase.BACKWARD)


class AccumulationTest(parameterized.TestCase):
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
    added = self._accumulation(orders.make_schedule("gpipe", 2, 3))
    gradient = self._gradient("g")
    (total,) = added.totals(gradient, {gradient.op: _backward(1)})
    self.assertEqual(self._terms(total), ["g_0", "g_1", "g_2"])
    self.assertEqual(
      added.sums_of_replica(0),
      {_backward(1, 1): [total.op.inputs[0].op], _backward(1, 0): [total.op]},
    )

  def test_each_replica_adds_its_own(self):
    added = self._accumulation(orders.make_schedule("1f1b", 2, 2), 2)
    gradient = self._gradient("g")
    totals = added.totals(gradient, {gradient.op: _backward(0)})
    self.assertEqual(
      [self._terms(total) for total in totals], [["g_1", "g_0"], ["g_3", "g_2"]]
    )
    self.assertEqual(
      added.sums_of_replica(1), {_backward(0, 1): [totals[1].op]}
    )

  def test_sums_on_another_device_than_their_pass_are_known(self):
    added = self._accumulation(orders.make_schedule("gpipe", 2, 2))
    gradient = self._gradient("g")
    (total,) = added.totals(
      gradient, {gradient.op: _backward(0)}, {gradient.op}
    )
    self.assertEqual(self._terms(total), ["g_0", "g_1"])
    self.assertEqual(added.sums_of_replica(0), {})
    self.assertEqual(added.sums_elsewhere(0), {_backward(0, 0): [total.op]})

  def test_where_the_backward_pass_is_split_sums_end_the_second_part(self):
    added = self._accumulation(orders.make_schedule("zb1p", 2, 3))
    gradient = self._gradient("g")
    (total,) = added.totals(gradient, {gradient.op: Pass(1, Phase.WEIGHT)})
    self.assertEqual(self._terms(total), ["g_2", "g_1", "g_0"])
    self.assertEqual(
      added.sums_of_replica(0),
      {
        Cell(1, 1, Phase.WEIGHT): [total.op.inputs[0].op],
        Cell(1, 2, Phase.WEIGHT): [total.op],
      },
    )

  def test_a_gradient_of_no_stage_is_added_by_numbers(self):
    added = self._accumulation(orders.make_schedule("gpipe", 2, 2))
    (total,) = added.totals(self._gradient("g"), {})
    self.assertEqual(self._terms(total), ["g_1", "g_0"])
    self.assertEqual(added.sums_of_replica(0), {})

  def test_what_all_share_is_multiplied(self):
    added = self._accumulation(orders.make_schedule("1f1b", 1, 3))
    shared = v1.placeholder(tf.float32, [], "shared")
    (total,) = added.totals(shared, {})
    self.assertEqual(total.op.type, "Mul")
    self.assertEqual(tf.get_static_value(total.op.inputs[1]), 3.0)


if __name__ == "__main__":
  absltest.main()
