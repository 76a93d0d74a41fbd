"""Gantt: which cell is drawn where on its device, as plain data."""

from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.observe import gantt, step_trace
from tests.estimator_mp.observe import simulated

from absl.testing import absltest, parameterized

_FORWARD = schedule_lib.Phase.FORWARD


def _row(*runs, schedule=("gpipe", 2, 2), device=0):
  """Returns the row of a device, by the cells and times of its kernels."""
  kernels = tuple(
    step_trace.Kernel("op", "MatMul", device, start, end, cell)
    for cell, start, end in runs
  )
  made = orders.make_schedule(*schedule)
  names = tuple(f"/device:CPU:{k}" for k in range(made.num_devices))
  trace = step_trace.StepTrace(1, names, kernels, made, {}, (0,) * len(names))
  return gantt.lay_out(trace, device)


def _forward(stage, micro_batch):
  return schedule_lib.Cell(stage, micro_batch, _FORWARD)


class LayOutTest(absltest.TestCase):
  def test_cells_one_after_the_other_share_a_lane(self):
    row = _row((_forward(0, 0), 0, 10), (_forward(0, 1), 10, 20))
    self.assertEqual(row.stages, (0,))
    self.assertEqual(row.lanes_per_stage, 1)
    self.assertEqual([lane for _, lane in row.spans], [0, 0])
    self.assertEqual(row.height, row.lane_height)

  def test_a_short_overlap_needs_no_lane(self):
    row = _row((_forward(0, 0), 0, 10), (_forward(0, 1), 9, 19))
    self.assertEqual(row.lanes_per_stage, 1)

  def test_cells_at_the_same_time_have_lanes(self):
    row = _row((_forward(0, 0), 0, 10), (_forward(0, 1), 5, 15))
    self.assertEqual(row.lanes_per_stage, 2)
    self.assertEqual([lane for _, lane in row.spans], [0, 1])
    self.assertEqual(row.height, 2 * row.lane_height)

  def test_stages_of_a_device_are_below_each_other(self):
    row = _row(
      (_forward(1, 0), 0, 10),
      (_forward(3, 0), 4, 14),
      (_forward(3, 1), 5, 15),
      schedule=("interleaved", 2, 2, 2),
      device=1,
    )
    self.assertEqual(row.stages, (1, 3))
    self.assertEqual(row.lanes_per_stage, 2)
    self.assertEqual(
      [(span.cell.stage, lane) for span, lane in row.spans],
      [(1, 0), (3, 2), (3, 3)],
    )

  def test_stages_of_a_v_are_on_the_device_that_they_come_back_to(self):
    row = _row(
      (_forward(0, 0), 0, 10),
      (_forward(3, 0), 10, 20),
      schedule=("zbv", 2, 2, 2),
    )
    self.assertEqual(row.stages, (0, 3))
    self.assertEqual(row.lanes_per_stage, 1)
    self.assertEqual([lane for _, lane in row.spans], [0, 1])

  def test_what_is_in_no_cell_is_kept_apart(self):
    row = _row((_forward(0, 0), 0, 10), (None, 8, 12), (None, 11, 20))
    self.assertEqual(row.other, ((8, 20),))


class LegendTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("two_phases", "1f1b", "forward", "backward"),
    ("three_phases", "zb1p", "forward", "backward", "weights"),
  )
  def test_each_phase_that_ran_looks_its_own_way(self, name, *phases):
    trace = simulated.trace(orders.make_schedule(name, 1, 1))
    texts, *looks = zip(*gantt.legend(trace), strict=True)
    self.assertEqual(
      [*texts],
      [*phases, "waiting", "device busy", "other ops, such as updates"],
    )
    self.assertLen({*zip(*looks, strict=True)}, len(texts))


if __name__ == "__main__":
  absltest.main()
