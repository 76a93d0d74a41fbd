"""The schedule "auto": never slower than one with a name, within its limit."""

import dataclasses
import itertools

from estimator_mp.config.schedules import checks, orders
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.pipeline import auto_schedule, simulation

import hypothesis
from absl.testing import absltest, parameterized
from hypothesis import strategies

_TIMES = strategies.floats(0.1, 9)
_NAMED = ("gpipe", "1f1b", "zb1p", "zb2p")


def _even(num_stages, forward=1.0, backward=1.0, weight=1.0, send=0.0):
  """Returns the costs of equal stages."""
  return auto_schedule.Costs(
    (forward,) * num_stages,
    (backward,) * num_stages,
    (weight,) * num_stages,
    (send,) * (num_stages - 1),
  )


@strategies.composite
def _costs(draw, num_stages):
  times = strategies.lists(_TIMES, min_size=num_stages, max_size=num_stages)
  sends = strategies.floats(0, 2)
  return auto_schedule.Costs(
    *(tuple(draw(times)) for _ in Phase),
    tuple(draw(sends) for _ in range(num_stages - 1)),
  )


def _made(num_stages, num_micro_batches, most=None, rounds=1):
  return orders.repeat(
    orders.make_schedule(
      "auto", num_stages, num_micro_batches, max_live_micro_batches=most
    ),
    rounds,
  )


class FastestTest(parameterized.TestCase):
  @hypothesis.given(
    strategies.data(),
    strategies.integers(1, 5),
    strategies.integers(1, 9),
    strategies.integers(1, 10),
  )
  def test_it_is_no_slower_than_those_with_names(
    self, data, num_stages, num_micro_batches, most
  ):
    costs = data.draw(_costs(num_stages))
    found = auto_schedule.fastest(
      _made(num_stages, num_micro_batches, most), costs
    )
    checks.check(found)
    self.assertLessEqual(max(schedule_lib.live_micro_batches(found)), most)
    for name in _NAMED:
      named = orders.make_schedule(name, num_stages, num_micro_batches)
      if max(schedule_lib.live_micro_batches(named)) <= most:
        self.assertLessEqual(
          costs.simulate(found).makespan,
          costs.simulate(named).makespan * (1 + 1e-6),
          name,
        )

  @hypothesis.given(
    strategies.data(),
    strategies.integers(1, 4),
    strategies.integers(1, 6),
    strategies.integers(1, 3),
  )
  def test_micro_batches_pass_in_their_order(
    self, data, num_stages, num_micro_batches, rounds
  ):
    """Sums of gradients are made before the order is known."""
    made = _made(num_stages, num_micro_batches, rounds=rounds)
    found = auto_schedule.fastest(made, data.draw(_costs(num_stages)))
    checks.check(found)
    self.assertEqual(
      dataclasses.replace(found, rows=()), dataclasses.replace(made, rows=())
    )
    for stage, phase in itertools.product(range(num_stages), Phase):
      expected = [*range(rounds * num_micro_batches)]
      self.assertEqual(found.micro_batches(stage, phase), expected)
      self.assertEqual(made.micro_batches(stage, phase), expected)

  @hypothesis.given(
    strategies.integers(1, 6),
    strategies.integers(1, 9),
    strategies.integers(1, 8),
  )
  def test_before_costs_are_known_the_limit_is_kept(
    self, num_stages, num_micro_batches, most
  ):
    made = _made(num_stages, num_micro_batches, most)
    checks.check(made)
    self.assertLessEqual(max(schedule_lib.live_micro_batches(made)), most)

  def test_by_default_it_holds_what_1f1b_does(self):
    found = auto_schedule.fastest(_made(4, 8), _even(4))
    self.assertLessEqual(max(schedule_lib.live_micro_batches(found)), 4)
    timeline = _even(4).simulate(found)
    self.assertAlmostEqual(timeline.makespan, 27)

  def test_more_that_may_be_held_is_used(self):
    costs = _even(4, 1, 1.2, 0.8)
    expected = {4: 28.2, 7: 27.0}
    for most, time in expected.items():
      found = auto_schedule.fastest(_made(4, 8, most), costs)
      self.assertAlmostEqual(costs.simulate(found).makespan, time)

  def test_less_that_may_be_held_costs_less_than_an_order_without_costs(self):
    costs = _even(4)
    made = _made(4, 8, 2)
    found = auto_schedule.fastest(made, costs)
    self.assertLess(
      costs.simulate(found).makespan, 0.8 * costs.simulate(made).makespan
    )

  def test_a_slow_stage_is_kept_busy(self):
    """It waits for its first micro-batch, and others for its last gradient."""
    costs = auto_schedule.Costs((1, 3, 1), (1, 3, 1), (1, 3, 1), ())
    found = auto_schedule.fastest(_made(3, 6), costs)
    timeline = costs.simulate(found)
    self.assertLessEqual(timeline.makespan, 6 * 9 + 1 + 1)

  def test_sends_take_their_time(self):
    schedule = orders.make_schedule("1f1b", 3, 1)
    costs = _even(3, send=0.5)
    self.assertAlmostEqual(costs.simulate(schedule).makespan, 9 + 4 * 0.5)
    on_one = orders.make_schedule("zbv", 1, 1, 2)
    self.assertAlmostEqual(
      simulation.simulate(on_one, 2, 2, 2, sends=[5]).makespan, 6
    )


if __name__ == "__main__":
  absltest.main()
