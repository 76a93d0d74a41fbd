"""Ordering: which control edges small graphs get."""

import estimator_mp  # noqa: F401
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules.schedule import Cell, Phase
from estimator_mp.lower import ordering
from estimator_mp.pipeline.cells import Ends, Pass

import tensorflow as tf
from absl.testing import absltest


class OrderCellsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self._graph = self.enterContext(tf.Graph().as_default())

  def _ends(
    self, num_stages, num_micro_batches, phases=(Phase.FORWARD, Phase.BACKWARD)
  ):
    """Makes two ops for each cell of the schedule: its first, and its last."""
    self._made = {}
    for micro_batch in range(num_micro_batches):
      for stage in range(num_stages):
        for phase in phases:
          for end in ("first", "last"):
            with tf.device(f"/cpu:{stage}"):
              name = f"{phase.name.lower()}_{stage}/{micro_batch}/{end}"
              self._made[name] = tf.no_op(name)
    return {
      Pass(stage, phase): Ends(
        *(
          (self._made[f"{phase.name.lower()}_{stage}/0/{end}"],)
          for end in ("first", "last")
        )
      )
      for stage in range(num_stages)
      for phase in phases
    }

  def _op_of(self, micro_batch, op):
    return self._made[op.name.replace("/0/", f"/{micro_batch}/")]

  def _order(self, schedule, ends, sums=None, op_of=None, sums_elsewhere=None):
    ordering.order_cells(
      schedule, ends, op_of or self._op_of, sums or {}, sums_elsewhere or {}
    )

  def _waits(self, name):
    """Returns what an op waits for, through ops that only stand for others."""
    found = []
    for before in self._graph.get_operation_by_name(name).control_inputs:
      if before.name.startswith("estimator_mp/schedule/"):
        found += self._waits(before.name)
      else:
        found.append(before.name)
    return sorted(found)

  def test_a_device_runs_its_row(self):
    schedule = orders.make_schedule("1f1b", 1, 2)
    self._order(schedule, self._ends(1, 2))
    waits = {
      name: self._waits(name) for name in self._made if name.endswith("first")
    }
    self.assertEqual(
      waits,
      {
        "forward_0/0/first": [],
        "backward_0/0/first": ["forward_0/0/last"],
        "forward_0/1/first": ["backward_0/0/last", "forward_0/0/last"],
        "backward_0/1/first": [
          "backward_0/0/last",
          "forward_0/0/last",
          "forward_0/1/last",
        ],
      },
    )

  def test_each_device_waits_for_itself_alone(self):
    schedule = orders.make_schedule("gpipe", 2, 2)
    self._order(schedule, self._ends(2, 2))
    for stage in (0, 1):
      ends = self._waits(f"backward_{stage}/0/first")
      self.assertEqual({x[x.index("_") + 1] for x in ends}, {str(stage)})

  def test_sums_of_gradients_are_the_end_of_a_backward_cell(self):
    schedule = orders.make_schedule("gpipe", 1, 2)
    ends = self._ends(1, 2)
    total = tf.no_op("sum")
    self._order(schedule, ends, {Cell(0, 1, Phase.BACKWARD): [total]})
    self.assertIn("sum", self._waits("backward_0/0/first"))
    self.assertEqual(
      self._waits("sum"), ["forward_0/0/last", "forward_0/1/last"]
    )

  def test_sums_on_another_device_follow_the_cell_and_hold_up_nobody(self):
    """A table on stage 1 that stage 0 looks up."""
    schedule = orders.make_schedule("1f1b", 2, 2)
    ends = self._ends(2, 2)
    with tf.device("/cpu:1"):
      total = tf.no_op("sum")
    self._order(
      schedule, ends, sums_elsewhere={Cell(0, 1, Phase.BACKWARD): [total]}
    )
    self.assertIn("backward_0/1/last", self._waits("sum"))
    for name in self._made:
      self.assertNotIn("sum", self._waits(name))

  def test_sums_follow_what_another_phase_has_left(self):
    """Of a gradient that is made in a part of the backward pass alone."""
    schedule = orders.make_schedule("zb1p", 1, 2)
    ends = self._ends(1, 2)  # None of that phase.
    total = tf.no_op("sum")
    self._order(schedule, ends, {Cell(0, 1, Phase.WEIGHT): [total]})
    self.assertIn("backward_0/1/last", self._waits("sum"))

  def test_what_a_micro_batch_does_without_is_left_out(self):
    schedule = orders.make_schedule("gpipe", 1, 2)
    ends = self._ends(1, 2)
    self._order(
      schedule,
      ends,
      op_of=lambda m, op: None if m == 1 else self._op_of(m, op),
    )
    self.assertEqual(self._waits("backward_0/0/first"), ["forward_0/0/last"])

  def test_a_cell_ends_even_if_it_does_without_what_it_begins_with(self):
    """A micro-batch that keeps what others begin by computing again."""
    schedule = orders.make_schedule("gpipe", 1, 2)
    ends = self._ends(1, 2)
    self._order(
      schedule,
      ends,
      op_of=lambda m, op: (
        None
        if (m, op.name) == (1, "backward_0/0/first")
        else self._op_of(m, op)
      ),
    )
    self.assertIn("backward_0/1/last", self._waits("backward_0/0/first"))

  def test_without_an_order_nothing_waits(self):
    schedule = orders.make_schedule("none", 2, 2)
    self._order(schedule, self._ends(2, 2))
    self.assertFalse(
      any(op.control_inputs for op in self._graph.get_operations())
    )


if __name__ == "__main__":
  absltest.main()
