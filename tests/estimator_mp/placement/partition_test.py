"""The partition is the best of all cuts."""

import itertools

from estimator_mp.placement import partition as partition_lib
from tests.estimator_mp import drawn

import hypothesis
from absl.testing import absltest
from hypothesis import strategies

_SMALL = strategies.integers(0, 9)


@strategies.composite
def _sequences(draw):
  """Sequences of up to 12 elements with small whole costs."""
  n = draw(strategies.integers(1, 12))
  numbers = strategies.lists(_SMALL, min_size=n, max_size=n)
  flags = strategies.lists(strategies.booleans(), min_size=n, max_size=n)
  inner = draw(strategies.lists(_SMALL, min_size=n - 1, max_size=n - 1))
  return partition_lib.SequenceCosts(
    seconds=draw(numbers),
    memory_bytes=draw(numbers),
    transfer_seconds=[0, *inner, 0],
    layers=draw(flags),
  )


def _all_cuts(costs, num_stages, memory_limit):
  """Yields the (slowest stage, fullest one, sent) of each allowed cut."""
  n = len(costs.seconds)
  for inner in itertools.combinations(range(1, n), num_stages - 1):
    cuts = (0, *inner, n)
    if _is_allowed(costs, cuts, memory_limit):
      yield _quality(costs, cuts)


def _is_allowed(costs, cuts, memory_limit):
  return all(
    any(costs.layers[begin:end])
    and (
      memory_limit is None or sum(costs.memory_bytes[begin:end]) <= memory_limit
    )
    for begin, end in itertools.pairwise(cuts)
  )


def _quality(costs, cuts):
  slowest = max(
    partition_lib.stage_seconds(costs, begin, end)
    for begin, end in itertools.pairwise(cuts)
  )
  fullest = max(
    sum(costs.memory_bytes[begin:end])
    for begin, end in itertools.pairwise(cuts)
  )
  return slowest, fullest, sum(costs.transfer_seconds[cut] for cut in cuts)


class PartitionTest(absltest.TestCase):
  @hypothesis.given(
    _sequences(),
    strategies.integers(1, 4),
    strategies.none() | strategies.integers(1, 60),
  )
  @drawn.examples(300)
  def test_best_of_all_cuts(self, costs, num_stages, memory_limit):
    possible = list(_all_cuts(costs, num_stages, memory_limit))
    try:
      cuts = partition_lib.partition(costs, num_stages, memory_limit)
    except ValueError:
      self.assertEmpty(possible)
      return
    self.assertTrue(_is_allowed(costs, cuts, memory_limit))
    self.assertEqual(_quality(costs, cuts), min(possible))

  @hypothesis.given(_sequences(), strategies.integers(1, 4))
  @drawn.examples(100)
  def test_slack_is_kept_in_time_and_in_memory(self, costs, num_stages):
    hypothesis.assume(sum(costs.layers) >= num_stages)
    possible = list(_all_cuts(costs, num_stages, None))
    slowest = 1.5 * min(possible)[0] + 1e-6
    fast = [found for found in possible if found[0] <= slowest]
    fullest = 1.5 * min(found[1] for found in fast) + 1e-6
    chosen = _quality(
      costs, partition_lib.partition(costs, num_stages, slack=0.5)
    )
    self.assertLessEqual(chosen[0], slowest)
    self.assertLessEqual(chosen[1], fullest)
    even = [found[2] for found in fast if found[1] <= fullest]
    self.assertLessEqual(chosen[2], min(even) + 1e-6)

  def test_equal_costs_give_equal_stages(self):
    costs = partition_lib.SequenceCosts(
      [1.0] * 12, [1.0] * 12, [0.0] * 13, [True] * 12
    )
    self.assertEqual(partition_lib.partition(costs, 4), (0, 3, 6, 9, 12))

  def test_a_model_without_layers_is_an_error(self):
    costs = partition_lib.SequenceCosts(
      [1.0] * 3, [1.0] * 3, [0.0] * 4, [False] * 3
    )
    with self.assertRaisesRegex(
      ValueError, r"has 0 layer\(s\) .* 2 stages .* at most 1"
    ):
      partition_lib.partition(costs, 2)


if __name__ == "__main__":
  absltest.main()
