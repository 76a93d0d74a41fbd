"""Schedules, as data: order, live micro-batches, time."""

import contextlib
import dataclasses
import functools
import itertools
import pathlib
import random
from unittest import mock

from estimator_mp.config.schedules import checks, orders
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.pipeline import simulation
from tests.estimator_mp import drawn

import hypothesis
from absl.testing import absltest, parameterized
from hypothesis import strategies

_FORWARD = schedule_lib.Phase.FORWARD
_BACKWARD = schedule_lib.Phase.BACKWARD
_WEIGHT = schedule_lib.Phase.WEIGHT
_SIGNS = {_FORWARD: "", _BACKWARD: "-", _WEIGHT: "+"}

_TIMES = strategies.integers(1, 9)

hypothesis.settings.register_profile("schedules", drawn.examples(30))
hypothesis.settings.load_profile("schedules")


@functools.cache
def _fitting(name, num_stages):
  """Returns the numbers, up to some, that a name and K stages go with."""
  found = []
  for numbers in itertools.product(range(1, 9), range(1, 4)):
    with contextlib.suppress(ValueError):
      orders.make_schedule(name, num_stages, *numbers)
      found.append(numbers)
  return found


@strategies.composite
def _schedules(draw):
  """Schedules that enforce an order, of all names."""
  return draw(_schedules_of(*_ordered()))


def _ordered(**attributes):
  """Returns the names of schedules that enforce an order."""
  return [
    name
    for name, order in orders.ORDERS.items()
    if order.row
    and all(getattr(order, x) == value for x, value in attributes.items())
  ]


@strategies.composite
def _schedules_of(draw, *names):
  """Schedules of some names."""
  name = draw(strategies.sampled_from(names))
  num_stages = draw(strategies.integers(1, 4))
  numbers = draw(strategies.sampled_from(_fitting(name, num_stages)))
  return orders.make_schedule(name, num_stages, *numbers)


def _text(schedule):
  """Returns a line per device: "0.3" is micro-batch 3 on stage 0.

  Before it is "-" for the backward pass, and "+" for gradients of weights.
  """
  return [
    " ".join(f"{_SIGNS[x.phase]}{x.stage}.{x.micro_batch}" for x in row)
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
    (
      "zb1p",
      ("zb1p", 3, 4),
      [
        "0.0 0.1 0.2 -0.0 +0.0 0.3 -0.1 +0.1 -0.2 +0.2 -0.3 +0.3",
        "1.0 1.1 -1.0 1.2 -1.1 +1.0 1.3 -1.2 +1.1 -1.3 +1.2 +1.3",
        "2.0 -2.0 2.1 -2.1 2.2 -2.2 +2.0 2.3 -2.3 +2.1 +2.2 +2.3",
      ],
    ),
    (
      "zb1p_fewer_micro_batches_than_stages",
      ("zb1p", 3, 1),
      ["0.0 -0.0 +0.0", "1.0 -1.0 +1.0", "2.0 -2.0 +2.0"],
    ),
    (
      "zb2p",
      ("zb2p", 2, 4),
      [
        "0.0 0.1 0.2 -0.0 +0.0 0.3 -0.1 +0.1 -0.2 +0.2 -0.3 +0.3",
        "1.0 -1.0 1.1 -1.1 1.2 -1.2 +1.0 1.3 -1.3 +1.1 +1.2 +1.3",
      ],
    ),
    (
      "zbv",
      ("zbv", 2, 3, 2),
      [
        "0.0 0.1 0.2 3.0 -3.0 +3.0 3.1 -3.1 +3.1"
        " -0.0 +0.0 3.2 -3.2 +3.2 -0.1 +0.1 -0.2 +0.2",
        "1.0 2.0 1.1 2.1 -2.0 +2.0 1.2 -1.0 +1.0 2.2 -2.1 +2.1"
        " -1.1 -2.2 -1.2 +1.1 +2.2 +1.2",
      ],
    ),
    ("zbv_one_device", ("zbv", 1, 1, 2), ["0.0 1.0 -1.0 +1.0 -0.0 +0.0"]),
    ("none", ("none", 3, 4), []),
  )
  def test_rows(self, arguments, expected):
    self.assertEqual(_text(orders.make_schedule(*arguments)), expected)

  @hypothesis.given(_schedules(), strategies.integers(1, 3))
  def test_is_a_permutation_in_the_order_of_dependencies(
    self, schedule, rounds
  ):
    schedule = orders.repeat(schedule, rounds)
    checks.check(schedule)
    every = [cell for row in schedule.rows for cell in row]
    self.assertCountEqual(every, schedule.cells())
    passes = schedule.num_stages * schedule.num_micro_batches
    self.assertLen(every, (3 if schedule.splits_backward else 2) * passes)
    position = {
      cell: i for i, cell in enumerate(checks.running_order(schedule))
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
        if schedule.splits_backward:
          weight = position[schedule_lib.Cell(stage, m, _WEIGHT)]
          self.assertLess(backward, weight)

  @parameterized.named_parameters(
    ("gpipe", ("gpipe", 2, 3), 1, [0, 1, 2], [2, 1, 0]),
    ("1f1b", ("1f1b", 2, 3), 1, [0, 1, 2], [0, 1, 2]),
    ("none", ("none", 2, 3), 1, [0, 1, 2], [0, 1, 2]),
    ("virtual", ("interleaved", 2, 4, 2), 3, [0, 1, 2, 3], [0, 1, 2, 3]),
  )
  def test_micro_batches_of_a_stage(self, arguments, stage, forward, backward):
    schedule = orders.make_schedule(*arguments)
    self.assertEqual(schedule.micro_batches(stage, _FORWARD), forward)
    self.assertEqual(schedule.micro_batches(stage, _BACKWARD), backward)

  @parameterized.parameters(("1f1b", 1), ("interleaved", 2), ("zbv", 2))
  def test_has_the_fewest_stages_that_it_may_have(self, name, number):
    expected = orders.make_schedule(name, 2, 4, number)
    self.assertEqual(expected, orders.make_schedule(name, 2, 4))

  def test_a_v_comes_back_to_the_first_device(self):
    schedule = orders.make_schedule("zbv", 3, 2, 2)
    self.assertEqual(schedule.devices_of_stages, (0, 1, 2, 2, 1, 0))
    around = orders.make_schedule("interleaved", 3, 3, 2)
    self.assertEqual(around.devices_of_stages, (0, 1, 2, 0, 1, 2))

  def test_a_new_order_is_one_entry(self):
    def row(schedule, device):
      numbers = range(schedule.num_micro_batches)
      return tuple(
        schedule_lib.Cell(device, m, phase)
        for phase in schedule.phases
        for m in numbers
      )

    order = orders.Order("backwards in the order of forwards", "M", row)
    with mock.patch.dict(orders.ORDERS, fifo=order):
      schedule = orders.make_schedule("fifo", 2, 3)
      with self.assertRaisesRegex(ValueError, "'fifo' has 1 stage per dev"):
        orders.make_schedule("fifo", 2, 3, 2)
    checks.check(schedule)
    self.assertEqual(_text(schedule)[1], "1.0 1.1 1.2 -1.0 -1.1 -1.2")
    self.assertAlmostEqual(
      simulation.simulate(schedule).speed_up,
      simulation.speed_up_bound(schedule),
    )

  def test_rounds_come_one_after_the_other(self):
    schedule = orders.make_schedule("1f1b", 2, 2)
    twice = orders.repeat(schedule, 2)
    self.assertEqual(
      _text(twice),
      [
        "0.0 0.1 -0.0 -0.1 0.2 0.3 -0.2 -0.3",
        "1.0 -1.0 1.1 -1.1 1.2 -1.2 1.3 -1.3",
      ],
    )
    self.assertEqual((twice.num_micro_batches, twice.num_rounds), (4, 2))


# How many of M micro-batches stage k of K holds.
_HELD = {
  "gpipe": lambda m, size, k: m,
  "1f1b": lambda m, size, k: min(m, size - k),
  "zb1p": lambda m, size, k: min(m, size),
  "zb2p": lambda m, size, k: min(m, 2 * size - 1),
}


class LiveTest(parameterized.TestCase):
  @hypothesis.given(
    strategies.integers(1, 8),
    strategies.integers(1, 20),
    strategies.integers(1, 3),
  )
  def test_as_many_as_the_paper_says(self, size, num_micro_batches, rounds):
    for name, held in _HELD.items():
      schedule = orders.make_schedule(name, size, num_micro_batches)
      self.assertEqual(
        schedule_lib.live_micro_batches(orders.repeat(schedule, rounds)),
        tuple(held(num_micro_batches, size, k) for k in range(size)),
        name,
      )

  @hypothesis.given(
    strategies.integers(1, 8),
    strategies.integers(1, 20),
    strategies.integers(1, 3),
  )
  def test_zbv_holds_no_more_layers_than_1f1b_on_its_first_stage(
    self, num_stages, num_micro_batches, rounds
  ):
    """A stage has half the layers of one that is alone on its device."""
    schedule = orders.repeat(
      orders.make_schedule("zbv", num_stages, num_micro_batches, 2),
      rounds,
    )
    most = 2 * min(num_micro_batches, num_stages)
    live = schedule_lib.live_micro_batches(schedule)
    self.assertLessEqual(max(live), most)
    if num_micro_batches >= 2 * num_stages - 1:
      self.assertEqual(live, (most,) * num_stages)

  @parameterized.named_parameters(
    ("interleaved", "interleaved", 4, 8, 2, (11, 9, 7, 5)),
    ("interleaved_few", "interleaved", 4, 4, 2, (8, 8, 7, 5)),
    ("none", "none", 2, 5, 1, (5, 5)),
  )
  def test_live(self, name, num_stages, num_micro_batches, virtual, expected):
    schedule = orders.make_schedule(
      name, num_stages, num_micro_batches, virtual
    )
    self.assertEqual(schedule_lib.live_micro_batches(schedule), expected)


class TimeTest(parameterized.TestCase):
  @hypothesis.given(
    _schedules_of(*_ordered(splits_backward=False)),
    _TIMES,
    _TIMES,
    strategies.integers(1, 3),
  )
  def test_equal_stages_reach_the_bound(
    self, schedule, forward, backward, rounds
  ):
    timeline = simulation.simulate(
      orders.repeat(schedule, rounds), forward, backward
    )
    size, virtual = schedule.num_devices, schedule.num_virtual_stages
    slots = schedule.num_micro_batches + (size - 1) / virtual
    self.assertAlmostEqual(
      timeline.makespan, rounds * slots * (forward + backward)
    )
    self.assertAlmostEqual(
      timeline.speed_up, simulation.speed_up_bound(schedule)
    )
    self.assertAlmostEqual(
      timeline.bubble,
      1 - simulation.speed_up_bound(schedule) / schedule.num_devices,
    )

  @parameterized.named_parameters(
    ("1f1b_4_8", ("1f1b", 4, 8), 32 / 11, 3 / 11),
    ("interleaved_4_8_2", ("interleaved", 4, 8, 2), 32 / 9.5, 3 / 19),
    ("gpipe_1", ("gpipe", 1, 5), 1.0, 0.0),
  )
  def test_bound(self, arguments, speed_up, bubble):
    schedule = orders.make_schedule(*arguments)
    self.assertAlmostEqual(simulation.speed_up_bound(schedule), speed_up)
    self.assertAlmostEqual(
      1 - simulation.speed_up_bound(schedule) / schedule.num_devices, bubble
    )

  def test_interleaved_is_faster_by_the_predicted_factor(self):
    plain = simulation.simulate(orders.make_schedule("1f1b", 4, 8))
    interleaved = simulation.simulate(
      orders.make_schedule("interleaved", 4, 8, 3)
    )
    self.assertAlmostEqual(plain.makespan / interleaved.makespan, 11 / 9)

  @hypothesis.given(
    strategies.data(),
    strategies.randoms(use_true_random=False),
    strategies.lists(_TIMES, min_size=3, max_size=3),
    strategies.integers(1, 3),
  )
  def test_no_order_is_faster_than_the_bound(
    self, data, random_, times, rounds
  ):
    for split in (False, True):
      names = _ordered(splits_backward=split)
      schedule = data.draw(_schedules_of(*names))
      shuffled = _any_order(schedule, random_)
      checks.check(shuffled)
      for order in (shuffled, orders.repeat(schedule, rounds)):
        timeline = simulation.simulate(order, *times)
        bound = simulation.speed_up_bound(order, *times)
        self.assertLessEqual(timeline.speed_up, bound + 1e-9)
        self.assertGreaterEqual(
          timeline.bubble, 1 - bound / order.num_devices - 1e-9
        )

  @hypothesis.given(_schedules(), strategies.data())
  def test_stages_that_differ_have_a_bound(self, schedule, data):
    times = [
      data.draw(
        strategies.lists(
          _TIMES, min_size=schedule.num_stages, max_size=schedule.num_stages
        )
      )
      for _ in range(3)
    ]
    self.assertLessEqual(
      simulation.simulate(schedule, *times).speed_up,
      simulation.speed_up_bound(schedule, *times) + 1e-9,
    )

  def test_rounds_without_an_order_have_the_bound_of_one(self):
    schedule = orders.make_schedule("none", 3, 4)
    self.assertAlmostEqual(
      simulation.speed_up_bound(orders.repeat(schedule, 2)),
      simulation.speed_up_bound(orders.make_schedule("none", 3, 8)),
    )

  @hypothesis.given(
    strategies.sampled_from([("zb2p", 1), ("zbv", 2)]),
    strategies.integers(1, 6),
    strategies.integers(0, 9),
    _TIMES,
  )
  def test_no_device_waits_once_it_has_begun(
    self, name_and_virtual, size, more, time
  ):
    """Where phases take the same time, and micro-batches are not too few."""
    name, virtual = name_and_virtual
    schedule = orders.make_schedule(name, size, 2 * size - 1 + more, virtual)
    timeline = simulation.simulate(schedule, time, time, time)
    for row in schedule.rows:
      for before, after in itertools.pairwise(row):
        self.assertAlmostEqual(timeline.ends[before], timeline.starts[after])
    self.assertAlmostEqual(
      timeline.makespan - timeline.busy / size, (size - 1) * time / virtual
    )
    self.assertAlmostEqual(
      timeline.speed_up, simulation.speed_up_bound(schedule, time, time, time)
    )

  @parameterized.named_parameters(
    ("zb1p", "zb1p", 1, 4.2), ("zb2p", "zb2p", 1, 3.0), ("zbv", "zbv", 2, 1.8)
  )
  def test_what_is_idle_where_phases_differ(self, name, virtual, idle):
    """The paper has (K - 1) * (F + B - W) for zb1p; device K-1 waits 3 F."""
    for num_micro_batches in (8, 16, 32):
      timeline = simulation.simulate(
        orders.make_schedule(name, 4, num_micro_batches, virtual),
        1,
        1.2,
        0.8,
      )
      self.assertAlmostEqual(timeline.makespan, num_micro_batches * 3 + idle)

  @hypothesis.given(
    strategies.integers(1, 6), strategies.integers(0, 12), _TIMES
  )
  def test_zb1p_has_a_third_of_the_bubble_of_1f1b(self, size, more, time):
    def bubble(name):
      schedule = orders.make_schedule(name, size, size + more)
      timeline = simulation.simulate(schedule, time, time, time)
      return timeline.makespan - timeline.busy / size

    self.assertAlmostEqual(bubble("zb1p"), (size - 1) * time)
    self.assertAlmostEqual(bubble("1f1b"), 3 * bubble("zb1p"))

  def test_a_pass_that_is_not_split_takes_the_time_of_both(self):
    schedule = orders.make_schedule("1f1b", 4, 8)
    self.assertEqual(
      simulation.simulate(schedule, 1, 1.2, 0.8),
      simulation.simulate(schedule, 1, 2.0),
    )

  def test_stages_that_differ(self):
    schedule = orders.make_schedule("gpipe", 2, 2)
    timeline = simulation.simulate(schedule, [1, 3], backward=[2, 6])
    cell = schedule_lib.Cell(1, 1, _FORWARD)
    self.assertEqual((timeline.starts[cell], timeline.ends[cell]), (4, 7))
    self.assertEqual((timeline.makespan, timeline.busy), (21, 24))

  def test_as_many_times_as_stages(self):
    schedule = orders.make_schedule("interleaved", 2, 2, 2)
    with self.assertRaisesWithLiteralMatch(
      ValueError, "backward has 2 times for 4 stages; give one for each"
    ):
      simulation.simulate(schedule, backward=[1, 2])

  def test_no_order_has_no_time(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "schedule 'none' enforces no order, so there is none to simulate; use "
      "gpipe, 1f1b, interleaved, zb1p, zb2p, zbv or auto",
    ):
      simulation.simulate(orders.make_schedule("none", 2, 2))


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


def _order(rows, device, *indices):
  rows[device] = [rows[device][i] for i in indices]


# From a right schedule to a wrong one, and what is said of it.
_WRONG = (
  (
    "missing",
    ("1f1b", 2, 2),
    lambda rows: rows[1].pop(),
    "lacks the backward of micro-batch 1 on stage 1 on device 1",
  ),
  (
    "twice",
    ("1f1b", 2, 2),
    lambda rows: rows[0].append(rows[0][0]),
    "has the forward of micro-batch 0 on stage 0 twice",
  ),
  (
    "unknown",
    ("1f1b", 2, 2),
    lambda rows: rows[0].append(schedule_lib.Cell(0, 2, _FORWARD)),
    "has the forward of micro-batch 2 on stage 0, but only 2 stages and 2 "
    "micro-batches",
  ),
  (
    "not_split",
    ("1f1b", 2, 2),
    lambda rows: rows[0].append(schedule_lib.Cell(0, 1, _WEIGHT)),
    "has the weight of micro-batch 1 on stage 0, but it does not split the "
    "backward pass",
  ),
  (
    "weight_missing",
    ("zb1p", 2, 2),
    lambda rows: rows[1].pop(),
    "lacks the weight of micro-batch 1 on stage 1 on device 1",
  ),
  (
    "weight_before_backward",
    ("zb1p", 1, 1),
    lambda rows: _order(rows, 0, 0, 2, 1),
    "never ends: device 0 waits at the weight of micro-batch 0 on stage 0 for "
    "the backward of micro-batch 0 on stage 0, which comes later on device 0",
  ),
  (
    "wrong_device",
    ("1f1b", 2, 2),
    lambda rows: rows.reverse(),
    "has the forward of micro-batch 0 on stage 1 on device 0; it belongs on "
    "device 1",
  ),
  (
    "row_missing",
    ("1f1b", 2, 2),
    lambda rows: rows.pop(),
    "has 1 rows for 2 devices; give each device one row",
  ),
  (
    "backward_before_forward",
    ("1f1b", 2, 2),
    lambda rows: _order(rows, 1, 1, 0, 2, 3),
    "never ends: device 1 waits at the backward of micro-batch 0 on stage 1 "
    "for the forward of micro-batch 0 on stage 1, which comes later on device "
    "1",
  ),
  (
    "cycle_over_two_devices",
    ("1f1b", 2, 2),
    lambda rows: (_order(rows, 0, 0, 2, 1, 3), _order(rows, 1, 2, 3, 0, 1)),
    "never ends: device 0 waits at the backward of micro-batch 0 on stage 0 "
    "for the backward of micro-batch 0 on stage 1, which comes later on device "
    "1",
  ),
)


class CheckTest(parameterized.TestCase):
  @parameterized.named_parameters(*_WRONG)
  def test_wrong_rows(self, arguments, change, expected):
    schedule = orders.make_schedule(*arguments)
    rows = [*map(list, schedule.rows)]
    change(rows)
    wrong = dataclasses.replace(schedule, rows=tuple(map(tuple, rows)))
    with self.assertRaisesWithLiteralMatch(
      ValueError, f"schedule {arguments[0]!r} {expected}"
    ):
      checks.check(wrong)

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
      checks.check(swapped)
    else:
      with self.assertRaisesRegex(ValueError, "never ends: device"):
        checks.check(swapped)


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
    for name in orders.NAMES:
      order = orders.ORDERS[name]
      row = f"| `{name}` | {order.summary} | {order.held} |"
      self.assertIn(row, text.replace(" (default)", ""))


class ArgumentsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "name",
      ("pipedream", 2, 2),
      "schedule='pipedream' is unknown; use one of none, gpipe, 1f1b, "
      "interleaved, zb1p, zb2p, zbv, auto",
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
      "schedule='1f1b' has 1 stage per device, but num_virtual_stages=2; leave "
      "it out, or use schedule='interleaved'",
    ),
    (
      "a_limit_of_none",
      ("auto", 2, 2, 1, 0),
      "max_live_micro_batches=0 is too small; use 1 or more",
    ),
    (
      "a_limit_of_a_named_one",
      ("zb2p", 2, 2, 1, 3),
      "max_live_micro_batches=3 is for schedule='auto', but schedule='zb2p' "
      "holds what its order says; leave it out, or use schedule='auto'",
    ),
    (
      "a_v_of_one_stage",
      ("zbv", 2, 2, 1),
      "schedule='zbv' has 2 stages per device, but num_virtual_stages=1; leave "
      "it out, or use schedule='zb1p'",
    ),
    (
      "virtual_stages_split",
      ("zb1p", 2, 2, 2),
      "schedule='zb1p' has 1 stage per device, but num_virtual_stages=2; leave "
      "it out, or use schedule='zbv'",
    ),
    (
      "one_virtual_stage",
      ("interleaved", 2, 2, 1),
      "schedule='interleaved' has 2 stages or more per device, but "
      "num_virtual_stages=1; leave it out, or use schedule='1f1b'",
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
      orders.make_schedule(*arguments)

  def test_no_round(self):
    schedule = orders.make_schedule("gpipe", 2, 2)
    with self.assertRaisesWithLiteralMatch(
      ValueError, "rounds=0 is too small; use 1 or more"
    ):
      orders.repeat(schedule, 0)


if __name__ == "__main__":
  absltest.main()
