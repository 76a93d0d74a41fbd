"""Schedules, as data: order, live micro-batches, time."""

import contextlib
import dataclasses
import functools
import itertools
import random

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
    ("none", ("none", 3, 4), []),
  )
  def test_rows(self, arguments, expected):
    self.assertEqual(_text(orders.make_schedule(*arguments)), expected)

  @hypothesis.given(_schedules(), strategies.integers(1, 3))
  def test_has_each_cell_once_in_an_order_that_runs(self, schedule, rounds):
    """What `check` refuses is in `test_a_swap_is_refused_or_runs`."""
    schedule = orders.repeat(schedule, rounds)
    checks.check(schedule)
    every = [cell for row in schedule.rows for cell in row]
    self.assertCountEqual(every, schedule.cells())
    passes = schedule.num_stages * schedule.num_micro_batches
    self.assertLen(every, (3 if schedule.splits_backward else 2) * passes)

  @parameterized.parameters(("1f1b", 1), ("interleaved", 2), ("zbv", 2))
  def test_has_the_fewest_stages_that_it_may_have(self, name, number):
    expected = orders.make_schedule(name, 2, 4, number)
    self.assertEqual(expected, orders.make_schedule(name, 2, 4))

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

  @hypothesis.given(
    strategies.data(),
    strategies.randoms(use_true_random=False),
    strategies.booleans(),
    strategies.integers(1, 3),
  )
  def test_no_order_is_faster_than_the_bound(
    self, data, random_, split, rounds
  ):
    """Where stages take the same time, and where each takes its own."""
    schedule = data.draw(_schedules_of(*_ordered(splits_backward=split)))
    size = schedule.num_stages
    of_stages = strategies.lists(_TIMES, min_size=size, max_size=size)
    times = [data.draw(_TIMES | of_stages) for _ in range(3)]
    shuffled = _any_order(schedule, random_)
    checks.check(shuffled)
    for order in (shuffled, orders.repeat(schedule, rounds)):
      timeline = simulation.simulate(order, *times)
      bound = simulation.speed_up_bound(order, *times)
      self.assertLessEqual(timeline.speed_up, bound + 1e-9)
      self.assertGreaterEqual(
        timeline.bubble, 1 - bound / order.num_devices - 1e-9
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
    with self.assertRaisesRegex(ValueError, "backward has 2 .* 4 stages"):
      simulation.simulate(schedule, backward=[1, 2])

  def test_no_order_has_no_time(self):
    with self.assertRaisesRegex(ValueError, "'none' .* 1f1b, .* or auto"):
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
  ("1f1b", lambda rows: rows[1].pop(), "lacks the backward of micro-batch 1"),
  ("zb1p", lambda rows: rows[1].pop(), "lacks the weight of micro-batch 1"),
  ("1f1b", lambda rows: rows[0].append(rows[0][0]), "stage 0 twice"),
  (
    "1f1b",
    lambda rows: rows[0].append(schedule_lib.Cell(0, 2, _FORWARD)),
    "micro-batch 2 on stage 0, but only 2 stages and 2 micro-batches",
  ),
  (
    "1f1b",
    lambda rows: rows[0].append(schedule_lib.Cell(0, 1, _WEIGHT)),
    "weight of micro-batch 1 on stage 0, but it does not split",
  ),
  ("1f1b", lambda rows: rows.reverse(), "stage 1 on device 0; .* device 1"),
  ("1f1b", lambda rows: rows.pop(), "1 rows for 2 devices"),
  (
    "1f1b",
    lambda rows: (_order(rows, 0, 0, 2, 1, 3), _order(rows, 1, 2, 3, 0, 1)),
    "device 0 waits at the backward of micro-batch 0 on stage 0 for the "
    "backward of micro-batch 0 on stage 1, which comes later on device 1",
  ),
)


class CheckTest(parameterized.TestCase):
  @parameterized.parameters(*_WRONG)
  def test_wrong_rows(self, name, change, expected):
    schedule = orders.make_schedule(name, 2, 2)
    rows = [*map(list, schedule.rows)]
    change(rows)
    wrong = dataclasses.replace(schedule, rows=tuple(map(tuple, rows)))
    with self.assertRaisesRegex(ValueError, f"^schedule '{name}' .*{expected}"):
      checks.check(wrong)

  @hypothesis.given(_schedules(), strategies.data())
  def test_a_swap_is_refused_or_runs(self, schedule, data):
    """check refuses exactly the rows in which some cell runs too early."""
    device = data.draw(strategies.integers(0, schedule.num_devices - 1))
    row = [*schedule.rows[device]]
    index = strategies.integers(0, len(row) - 1)
    i, j = data.draw(index), data.draw(index)
    row[i], row[j] = row[j], row[i]
    rows = [*schedule.rows]
    rows[device] = tuple(row)
    swapped = dataclasses.replace(schedule, rows=tuple(rows))
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


class ArgumentsTest(parameterized.TestCase):
  @parameterized.parameters(
    (("pipedream", 2, 2), "'pipedream' is unknown; .* 1f1b.* zbv, auto"),
    (("gpipe", 0, 2), "num_stages=0 is too small"),
    (("gpipe", 2, -1), "num_micro_batches=-1 is too small"),
    (("interleaved", 2, 2, 0), "num_virtual_stages=0 is too small"),
    (("1f1b", 2, 2, 2), "1 stage per .*num_virtual_stages=2; .*'interleaved'"),
    (("zb1p", 2, 2, 2), "1 stage per .*num_virtual_stages=2; .*'zbv'"),
    (("zbv", 2, 2, 1), "2 stages per .*num_virtual_stages=1; .*'zb1p'"),
    (("interleaved", 2, 2, 1), "or more .*num_virtual_stages=1; .*'1f1b'"),
    (("auto", 2, 2, 1, 0), "max_live_micro_batches=0 is too small"),
    (("zb2p", 2, 2, 1, 3), "max_live_micro_batches=3 .*'zb2p' .*'auto'$"),
    (("interleaved", 4, 6, 2), "4 devices .*num_micro_batches=6; use 4 or 8$"),
    (("interleaved", 4, 3, 2), "4 devices .*num_micro_batches=3; use 4$"),
  )
  def test_refused(self, arguments, text):
    with self.assertRaisesRegex(ValueError, text):
      orders.make_schedule(*arguments)

  def test_no_round(self):
    schedule = orders.make_schedule("gpipe", 2, 2)
    with self.assertRaisesRegex(ValueError, "rounds=0 is too small"):
      orders.repeat(schedule, 0)


if __name__ == "__main__":
  absltest.main()
