"""Schedules, as data: order, live micro-batches, time."""

import contextlib
import dataclasses
import functools
import itertools
import pathlib
import random
from unittest import mock

from estimator_mp.config import schedule as schedule_lib
from estimator_mp.pipeline import simulation

import hypothesis
from absl.testing import absltest, parameterized
from hypothesis import strategies

_FORWARD = schedule_lib.Phase.FORWARD
_BACKWARD = schedule_lib.Phase.BACKWARD

_TIMES = strategies.integers(1, 9)

hypothesis.settings.register_profile(
  "schedules", deadline=None, max_examples=30
)
hypothesis.settings.load_profile("schedules")


@functools.cache
def _fitting(name, num_stages):
  """Returns the numbers, up to some, that a name and K stages go with."""
  found = []
  for numbers in itertools.product(range(1, 9), range(1, 4)):
    with contextlib.suppress(ValueError):
      schedule_lib.make_schedule(name, num_stages, *numbers)
      found.append(numbers)
  return found


@strategies.composite
def _schedules(draw):
  """Schedules that enforce an order, of all names."""
  orders = schedule_lib.ORDERS
  name = draw(strategies.sampled_from([x for x in orders if orders[x].row]))
  num_stages = draw(strategies.integers(1, 4))
  numbers = draw(strategies.sampled_from(_fitting(name, num_stages)))
  return schedule_lib.make_schedule(name, num_stages, *numbers)


def _text(schedule):
  """Returns a line per device: "0.3" is micro-batch 3 on stage 0, "-" back."""
  return [
    " ".join(
      f"{'-' if cell.phase is _BACKWARD else ''}{cell.stage}.{cell.micro_batch}"
      for cell in row
    )
    for row in schedule.rows
  ]


def _with_row(schedule, device, row):
  rows = [*schedule.rows]
  rows[device] = tuple(row)
  return dataclasses.replace(schedule, rows=tuple(rows))


class OrderTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "gpipe",
      ("gpipe", 2, 3),
      ["0.0 0.1 0.2 -0.2 -0.1 -0.0", "1.0 1.1 1.2 -1.2 -1.1 -1.0"],
    ),
    (
      "1f1b",
      ("1f1b", 3, 4),
      [
        "0.0 0.1 0.2 -0.0 0.3 -0.1 -0.2 -0.3",
        "1.0 1.1 -1.0 1.2 -1.1 1.3 -1.2 -1.3",
        "2.0 -2.0 2.1 -2.1 2.2 -2.2 2.3 -2.3",
      ],
    ),
    (
      "1f1b_fewer_micro_batches_than_stages",
      ("1f1b", 3, 1),
      ["0.0 -0.0", "1.0 -1.0", "2.0 -2.0"],
    ),
    (
      "interleaved",
      ("interleaved", 2, 4, 2),
      [
        "0.0 0.1 2.0 2.1 0.2 -2.0 0.3 -2.1 2.2 -0.0 2.3 -0.1"
        " -2.2 -2.3 -0.2 -0.3",
        "1.0 1.1 3.0 -3.0 3.1 -3.1 1.2 -1.0 1.3 -1.1 3.2 -3.2 3.3 -3.3"
        " -1.2 -1.3",
      ],
    ),
    ("none", ("none", 3, 4), []),
  )
  def test_rows(self, arguments, expected):
    self.assertEqual(_text(schedule_lib.make_schedule(*arguments)), expected)

  @hypothesis.given(_schedules(), strategies.integers(1, 3))
  def test_is_a_permutation_in_the_order_of_dependencies(
    self, schedule, rounds
  ):
    schedule = schedule_lib.repeat(schedule, rounds)
    schedule_lib.check(schedule)
    every = [cell for row in schedule.rows for cell in row]
    self.assertCountEqual(every, schedule.cells())
    self.assertLen(every, 2 * schedule.num_stages * schedule.num_micro_batches)
    position = {
      cell: i for i, cell in enumerate(schedule_lib.running_order(schedule))
    }
    for stage in range(schedule.num_stages):
      for m in range(schedule.num_micro_batches):
        forward = position[schedule_lib.Cell(stage, m, _FORWARD)]
        backward = position[schedule_lib.Cell(stage, m, _BACKWARD)]
        self.assertLess(forward, backward)
        if stage:
          before = position[schedule_lib.Cell(stage - 1, m, _FORWARD)]
          after = position[schedule_lib.Cell(stage - 1, m, _BACKWARD)]
          self.assertLess(before, forward)
          self.assertLess(backward, after)

  @parameterized.named_parameters(
    ("gpipe", ("gpipe", 2, 3), 1, [0, 1, 2], [2, 1, 0]),
    ("1f1b", ("1f1b", 2, 3), 1, [0, 1, 2], [0, 1, 2]),
    ("none", ("none", 2, 3), 1, [0, 1, 2], [0, 1, 2]),
    ("virtual", ("interleaved", 2, 4, 2), 3, [0, 1, 2, 3], [0, 1, 2, 3]),
  )
  def test_micro_batches_of_a_stage(self, arguments, stage, forward, backward):
    schedule = schedule_lib.make_schedule(*arguments)
    self.assertEqual(schedule.micro_batches(stage, _FORWARD), forward)
    self.assertEqual(schedule.micro_batches(stage, _BACKWARD), backward)

  def test_a_new_order_is_one_entry(self):
    def row(schedule, device):
      numbers = range(schedule.num_micro_batches)
      return tuple(
        schedule_lib.Cell(device, m, phase)
        for phase in schedule_lib.Phase
        for m in numbers
      )

    order = schedule_lib.Order("backwards in the order of forwards", "M", row)
    with mock.patch.dict(schedule_lib.ORDERS, fifo=order):
      schedule = schedule_lib.make_schedule("fifo", 2, 3)
      with self.assertRaisesRegex(ValueError, "'fifo' has one stage per dev"):
        schedule_lib.make_schedule("fifo", 2, 3, 2)
    schedule_lib.check(schedule)
    self.assertEqual(_text(schedule)[1], "1.0 1.1 1.2 -1.0 -1.1 -1.2")
    self.assertAlmostEqual(
      simulation.simulate(schedule).speed_up,
      simulation.speed_up_bound(schedule),
    )

  def test_rounds_come_one_after_the_other(self):
    schedule = schedule_lib.make_schedule("1f1b", 2, 2)
    twice = schedule_lib.repeat(schedule, 2)
    self.assertEqual(
      _text(twice),
      [
        "0.0 0.1 -0.0 -0.1 0.2 0.3 -0.2 -0.3",
        "1.0 -1.0 1.1 -1.1 1.2 -1.2 1.3 -1.3",
      ],
    )
    self.assertEqual((twice.num_micro_batches, twice.num_rounds), (4, 2))


class LiveTest(parameterized.TestCase):
  @hypothesis.given(strategies.integers(1, 8), strategies.integers(1, 20))
  def test_gpipe_holds_all(self, num_stages, num_micro_batches):
    schedule = schedule_lib.make_schedule(
      "gpipe", num_stages, num_micro_batches
    )
    self.assertEqual(
      schedule_lib.live_micro_batches(schedule),
      (num_micro_batches,) * num_stages,
    )

  @hypothesis.given(
    strategies.integers(1, 8),
    strategies.integers(1, 20),
    strategies.integers(1, 3),
  )
  def test_1f1b_holds_as_many_as_stages_follow(
    self, num_stages, num_micro_batches, rounds
  ):
    schedule = schedule_lib.repeat(
      schedule_lib.make_schedule("1f1b", num_stages, num_micro_batches), rounds
    )
    self.assertEqual(
      schedule_lib.live_micro_batches(schedule),
      tuple(min(num_micro_batches, num_stages - k) for k in range(num_stages)),
    )

  @parameterized.named_parameters(
    ("interleaved", "interleaved", 4, 8, 2, (11, 9, 7, 5)),
    ("interleaved_few", "interleaved", 4, 4, 2, (8, 8, 7, 5)),
    ("none", "none", 2, 5, 1, (5, 5)),
  )
  def test_live(self, name, num_stages, num_micro_batches, virtual, expected):
    schedule = schedule_lib.make_schedule(
      name, num_stages, num_micro_batches, virtual
    )
    self.assertEqual(schedule_lib.live_micro_batches(schedule), expected)


class TimeTest(parameterized.TestCase):
  @hypothesis.given(_schedules(), _TIMES, _TIMES, strategies.integers(1, 3))
  def test_equal_stages_reach_the_bound(
    self, schedule, forward, backward, rounds
  ):
    timeline = simulation.simulate(
      schedule_lib.repeat(schedule, rounds), forward, backward
    )
    size, virtual = schedule.num_devices, schedule.num_virtual_stages
    slots = schedule.num_micro_batches + (size - 1) / virtual
    self.assertAlmostEqual(
      timeline.makespan, rounds * slots * (forward + backward)
    )
    self.assertAlmostEqual(
      timeline.speed_up, simulation.speed_up_bound(schedule)
    )
    self.assertAlmostEqual(timeline.bubble, simulation.bubble_bound(schedule))

  @parameterized.named_parameters(
    ("1f1b_4_8", ("1f1b", 4, 8), 32 / 11, 3 / 11),
    ("interleaved_4_8_2", ("interleaved", 4, 8, 2), 32 / 9.5, 3 / 19),
    ("gpipe_1", ("gpipe", 1, 5), 1.0, 0.0),
  )
  def test_bound(self, arguments, speed_up, bubble):
    schedule = schedule_lib.make_schedule(*arguments)
    self.assertAlmostEqual(simulation.speed_up_bound(schedule), speed_up)
    self.assertAlmostEqual(simulation.bubble_bound(schedule), bubble)

  @hypothesis.given(
    _schedules(), strategies.randoms(use_true_random=False), _TIMES, _TIMES
  )
  def test_no_order_is_faster_than_the_bound(
    self, schedule, random_, forward, backward
  ):
    shuffled = _any_order(schedule, random_)
    schedule_lib.check(shuffled)
    timeline = simulation.simulate(shuffled, forward, backward)
    self.assertLessEqual(
      timeline.speed_up, simulation.speed_up_bound(schedule) + 1e-9
    )

  def test_interleaved_is_faster_by_the_predicted_factor(self):
    plain = simulation.simulate(schedule_lib.make_schedule("1f1b", 4, 8))
    interleaved = simulation.simulate(
      schedule_lib.make_schedule("interleaved", 4, 8, 3)
    )
    self.assertAlmostEqual(plain.makespan / interleaved.makespan, 11 / 9)

  def test_stages_that_differ(self):
    schedule = schedule_lib.make_schedule("gpipe", 2, 2)
    timeline = simulation.simulate(schedule, [1, 3], backward=[2, 6])
    cell = schedule_lib.Cell(1, 1, _FORWARD)
    self.assertEqual((timeline.starts[cell], timeline.ends[cell]), (4, 7))
    self.assertEqual((timeline.makespan, timeline.busy), (21, 24))

  def test_as_many_times_as_stages(self):
    schedule = schedule_lib.make_schedule("interleaved", 2, 2, 2)
    with self.assertRaisesWithLiteralMatch(
      ValueError, "backward has 2 times for 4 stages; give one for each"
    ):
      simulation.simulate(schedule, backward=[1, 2])

  def test_no_order_has_no_time(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "schedule 'none' enforces no order, so there is none to simulate; use "
      "gpipe, 1f1b or interleaved",
    ):
      simulation.simulate(schedule_lib.make_schedule("none", 2, 2))


def _any_order(schedule: schedule_lib.Schedule, random_: random.Random):
  """Returns the same cells in some order that can run."""
  rows: list[list[schedule_lib.Cell]] = [[] for _ in schedule.rows]
  waiting = [*schedule.cells()]
  done: set[schedule_lib.Cell] = set()
  while waiting:
    ready = [c for c in waiting if done.issuperset(schedule.inputs_of(c))]
    cell = random_.choice(ready)
    waiting.remove(cell)
    done.add(cell)
    rows[schedule.device_of(cell.stage)].append(cell)
  return dataclasses.replace(schedule, rows=tuple(map(tuple, rows)))


class CheckTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self._schedule = schedule_lib.make_schedule("1f1b", 2, 2)

  def _expect(self, schedule, text):
    with self.assertRaisesWithLiteralMatch(ValueError, text):
      schedule_lib.check(schedule)

  def test_missing(self):
    row = self._schedule.rows[1]
    self._expect(
      _with_row(self._schedule, 1, row[:-1]),
      "schedule '1f1b' lacks the backward of micro-batch 1 on stage 1 on "
      "device 1",
    )

  def test_twice(self):
    row = self._schedule.rows[0]
    self._expect(
      _with_row(self._schedule, 0, [*row, row[0]]),
      "schedule '1f1b' has the forward of micro-batch 0 on stage 0 twice",
    )

  def test_unknown(self):
    cell = schedule_lib.Cell(0, 2, _FORWARD)
    self._expect(
      _with_row(self._schedule, 0, [*self._schedule.rows[0], cell]),
      "schedule '1f1b' has the forward of micro-batch 2 on stage 0, but only "
      "2 stages and 2 micro-batches",
    )

  def test_wrong_device(self):
    rows = self._schedule.rows[::-1]
    self._expect(
      dataclasses.replace(self._schedule, rows=rows),
      "schedule '1f1b' has the forward of micro-batch 0 on stage 1 on device "
      "0; it belongs on device 1",
    )

  def test_row_missing(self):
    self._expect(
      dataclasses.replace(self._schedule, rows=self._schedule.rows[:1]),
      "schedule '1f1b' has 1 rows for 2 devices; give each device one row",
    )

  def test_backward_before_forward(self):
    forward, backward, *rest = self._schedule.rows[1]
    self._expect(
      _with_row(self._schedule, 1, [backward, forward, *rest]),
      "schedule '1f1b' never ends: device 1 waits at the backward of "
      "micro-batch 0 on stage 1 for the forward of micro-batch 0 on stage 1, "
      "which comes later on device 1",
    )

  def test_cycle_over_two_devices(self):
    f0, f1, b0, b1 = self._schedule.rows[0]
    rows = ((f0, b0, f1, b1), _last_stage_in_the_order_1_0())
    self._expect(
      dataclasses.replace(self._schedule, rows=rows),
      "schedule '1f1b' never ends: device 0 waits at the backward of "
      "micro-batch 0 on stage 0 for the backward of micro-batch 0 on stage 1, "
      "which comes later on device 1",
    )

  @hypothesis.given(_schedules(), strategies.data())
  def test_a_swap_is_refused_or_runs(self, schedule, data):
    """check refuses exactly the rows in which some cell runs too early."""
    device = data.draw(strategies.integers(0, schedule.num_devices - 1))
    row = [*schedule.rows[device]]
    index = strategies.integers(0, len(row) - 1)
    i, j = data.draw(index), data.draw(index)
    row[i], row[j] = row[j], row[i]
    swapped = _with_row(schedule, device, row)
    if _can_run(swapped):
      schedule_lib.check(swapped)
    else:
      with self.assertRaisesRegex(ValueError, "never ends: device"):
        schedule_lib.check(swapped)


def _last_stage_in_the_order_1_0():
  return tuple(
    schedule_lib.Cell(1, m, phase)
    for m in (1, 0)
    for phase in (_FORWARD, _BACKWARD)
  )


def _can_run(schedule):
  """Looks for a cycle: a cell that is reached from itself."""
  waits_for = {cell: [*schedule.inputs_of(cell)] for cell in schedule.cells()}
  for row in schedule.rows:
    for before, after in itertools.pairwise(row):
      waits_for[after].append(before)
  for start in waits_for:
    reached, front = set(), [start]
    while front:
      for cell in waits_for[front.pop()]:
        if cell not in reached:
          reached.add(cell)
          front.append(cell)
    if start in reached:
      return False
  return True


class GuideTest(absltest.TestCase):
  def test_the_guide_has_them_all(self):
    guide = pathlib.Path(__file__).parents[3] / "docs" / "pipeline.md"
    text = guide.read_text(encoding="utf-8")
    for name, order in schedule_lib.ORDERS.items():
      row = f"| `{name}` | {order.summary} | {order.held} |"
      self.assertIn(row, text.replace(" (default)", ""))


class ArgumentsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "name",
      ("pipedream", 2, 2),
      "schedule='pipedream' is unknown; use one of none, gpipe, 1f1b, "
      "interleaved",
    ),
    ("stages", ("gpipe", 0, 2), "num_stages=0 is too small; use 1 or more"),
    (
      "micro_batches",
      ("gpipe", 2, -1),
      "num_micro_batches=-1 is too small; use 1 or more",
    ),
    (
      "no_virtual_stages",
      ("interleaved", 2, 2, 0),
      "num_virtual_stages=0 is too small; use 1 or more",
    ),
    (
      "virtual_stages",
      ("1f1b", 2, 2, 2),
      "schedule='1f1b' has one stage per device, but num_virtual_stages=2; "
      "use schedule='interleaved', or 1",
    ),
    (
      "one_virtual_stage",
      ("interleaved", 2, 2, 1),
      "schedule='interleaved' needs several stages per device, but "
      "num_virtual_stages=1; use 2 or more, or schedule='1f1b'",
    ),
    (
      "no_multiple",
      ("interleaved", 4, 6, 2),
      "schedule='interleaved' on 4 devices needs a multiple of 4 "
      "micro-batches, but num_micro_batches=6; use 4 or 8",
    ),
    (
      "too_few",
      ("interleaved", 4, 3, 2),
      "schedule='interleaved' on 4 devices needs a multiple of 4 "
      "micro-batches, but num_micro_batches=3; use 4",
    ),
  )
  def test_refused(self, arguments, text):
    with self.assertRaisesWithLiteralMatch(ValueError, text):
      schedule_lib.make_schedule(*arguments)

  def test_no_round(self):
    schedule = schedule_lib.make_schedule("gpipe", 2, 2)
    with self.assertRaisesWithLiteralMatch(
      ValueError, "rounds=0 is too small; use 1 or more"
    ):
      schedule_lib.repeat(schedule, 0)


if __name__ == "__main__":
  absltest.main()
