"""Gantt: which cell is drawn where on its device, as plain data."""

import pathlib

from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.observe import gantt, step_trace
from tests.estimator_mp.observe import simulated

from absl.testing import absltest, parameterized

_FORWARD = schedule_lib.Phase.FORWARD


def _trace(*runs, schedule=("gpipe", 2, 2)):
  """Returns a trace by the cells and times of the kernels of its devices."""
  made = orders.make_schedule(*schedule)
  kernels = tuple(
    step_trace.Kernel(
      "op", "MatMul", made.device_of(cell.stage) if cell else 0, *times, cell
    )
    for cell, *times in runs
  )
  names = tuple(f"/device:CPU:{k}" for k in range(made.num_devices))
  return step_trace.StepTrace(1, names, kernels, made, {}, (0,) * len(names))


def _lanes(*runs, device=0, **of_trace):
  """Returns the micro-batches of the lanes of each stage of a device."""
  row = gantt.lay_out(_trace(*runs, **of_trace), device)
  return {
    stage: [[span.cell.micro_batch for span in lane] for lane in lanes]
    for stage, lanes in row.items()
  }


def _forward(stage, micro_batch):
  return schedule_lib.Cell(stage, micro_batch, _FORWARD)


class LayOutTest(absltest.TestCase):
  def test_cells_one_after_the_other_share_a_lane(self):
    lanes = _lanes((_forward(0, 0), 0, 10), (_forward(0, 1), 10, 20))
    self.assertEqual(lanes, {0: [[0, 1]]})

  def test_a_short_overlap_needs_no_lane(self):
    lanes = _lanes((_forward(0, 0), 0, 10), (_forward(0, 1), 9, 19))
    self.assertEqual(lanes, {0: [[0, 1]]})

  def test_cells_at_the_same_time_have_lanes(self):
    lanes = _lanes((_forward(0, 0), 0, 10), (_forward(0, 1), 5, 15))
    self.assertEqual(lanes, {0: [[0], [1]]})

  def test_a_stage_without_cells_has_a_lane(self):
    lanes = _lanes((_forward(0, 0), 0, 10), device=1)
    self.assertEqual(lanes, {1: [[]]})

  def test_stages_of_a_device_are_below_each_other(self):
    lanes = _lanes(
      (_forward(1, 0), 0, 10),
      (_forward(3, 0), 4, 14),
      (_forward(3, 1), 5, 15),
      schedule=("interleaved", 2, 2, 2),
      device=1,
    )
    self.assertEqual([*lanes.items()], [(1, [[0]]), (3, [[0], [1]])])

  def test_stages_of_a_v_are_on_the_device_that_they_come_back_to(self):
    lanes = _lanes(
      (_forward(0, 0), 0, 10),
      (_forward(3, 0), 10, 20),
      schedule=("zbv", 2, 2, 2),
    )
    self.assertEqual([*lanes.items()], [(0, [[0]]), (3, [[0]])])

  def test_what_is_in_no_cell_is_kept_apart(self):
    trace = _trace((_forward(0, 0), 0, 10), (None, 8, 12), (None, 11, 20))
    self.assertEqual(gantt.other_intervals(trace, 0), [(8, 20)])


class PictureTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = pathlib.Path(self.create_tempdir().full_path)

  def _draw(self, trace):
    paths = gantt.write_pictures(trace, str(self.folder), "step")
    png, svg = (pathlib.Path(path).read_bytes() for path in paths)
    self.assertEqual(png[1:4], b"PNG")
    return png, svg

  def test_two_runs_write_the_same(self):
    trace = simulated.trace(orders.make_schedule("zb1p", 2, 4))
    self.assertEqual(self._draw(trace), self._draw(trace))

  def test_each_cell_has_its_number(self):
    _, svg = self._draw(simulated.trace(orders.make_schedule("1f1b", 2, 3)))
    for number in range(3):  # Forward and backward, on both devices.
      self.assertEqual(svg.count(f"<!-- {number} -->".encode()), 4)

  def test_without_a_pipeline(self):
    kernel = step_trace.Kernel("op", "MatMul", 0, 0, 10)
    trace = step_trace.StepTrace(
      1, ("/device:CPU:0",), (kernel,), None, {}, (2000,)
    )
    _, svg = self._draw(trace)
    for text in ("1 device, no pipeline", "CPU:0", "2.00 kB peak"):
      self.assertIn(f"<!-- {text} -->".encode(), svg)
    self.assertNotIn(b"idle", svg)


class LegendTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("two_phases", "1f1b", "forward", "backward"),
    ("three_phases", "zb1p", "forward", "backward", "weights"),
  )
  def test_each_phase_that_ran_looks_its_own_way(self, name, *phases):
    trace = simulated.trace(orders.make_schedule(name, 1, 1))
    entries = gantt.legend(trace)
    self.assertEqual(
      [entry.get_label() for entry in entries],
      [*phases, "waiting", "device busy", "other ops, such as updates"],
    )
    looks = {
      (x.get_facecolor(), x.get_edgecolor(), x.get_hatch()) for x in entries
    }
    self.assertLen(looks, len(entries))


if __name__ == "__main__":
  absltest.main()
