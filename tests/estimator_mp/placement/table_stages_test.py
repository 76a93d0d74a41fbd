"""Tables are where memory is left, unless sending their rows takes too long."""

from estimator_mp.placement import table_stages
from tests.estimator_mp import drawn

import hypothesis
import numpy as np
from absl.testing import absltest, parameterized
from hypothesis import strategies

_BYTES = strategies.integers(0, 9)


def _tables(sizes, home=0, sent_seconds=0.0):
  """Returns tables that one stage uses and has at first."""
  return [
    table_stages.Table(size, home, {home: sent_seconds}) for size in sizes
  ]


@strategies.composite
def _cases(draw):
  """Draws the bytes of two to four stages, and tables with a home each."""
  memory = draw(strategies.lists(_BYTES, min_size=2, max_size=4))
  homes = strategies.integers(0, len(memory) - 1)
  found = draw(strategies.lists(strategies.tuples(_BYTES, homes), max_size=8))
  return memory, [table_stages.Table(size, home, {}) for size, home in found]


def _held(memory, found, stages):
  held = np.array(memory, dtype=float)
  for table, stage in zip(found, stages, strict=True):
    held[stage] += table.num_bytes
  return held


class SpreadTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("equal_ones", [0, 0], [4, 4, 4, 4], [8, 8]),
    ("unequal_ones", [0, 0], [5, 2, 1], [3, 5]),
    ("where_layers_leave_room", [6, 1], [2, 2, 1], [7, 5]),
    ("over_three", [0, 0, 0], [3, 3, 3], [3, 3, 3]),
    ("one_that_fills_any_stage", [1, 0], [9], [10, 0]),
    ("nearly_even", [10, 10], [1], [11, 10]),
    ("none", [3, 1], [], [3, 1]),
  )
  def test_bytes(self, memory, sizes, expected):
    found = _tables(sizes)
    stages = table_stages.spread([1.0] * len(memory), memory, found)
    self.assertSequenceEqual([*_held(memory, found, stages)], expected)

  @hypothesis.given(_cases())
  @drawn.examples(200)
  def test_the_fullest_stage_is_no_fuller_than_at_home(self, case):
    memory, found = case
    stages = table_stages.spread([1.0] * len(memory), memory, found)
    homes = [table.home for table in found]
    self.assertLessEqual(
      _held(memory, found, stages).max(), _held(memory, found, homes).max()
    )

  def test_rows_that_take_longer_than_the_model_stay(self):
    near, far = (
      table_stages.spread(
        [5.0, 5.0], [0, 0], _tables([4, 4], sent_seconds=seconds)
      )
      for seconds in (1.0, 9.0)
    )
    self.assertCountEqual(near, [0, 1])
    self.assertEqual(far, [0, 0])

  def test_latency_is_paid_once_for_each_pair_of_stages(self):
    found = _tables([2] * 4)

    def fullest(latency):
      stages = table_stages.spread([5.0, 5.0], [0, 0], found, None, latency)
      return _held([0, 0], found, stages).max()

    # At home 8 of 8 bytes are on one stage, and half of the time.
    self.assertEqual(fullest(4.9), 4)
    self.assertEqual(fullest(5.1), 8)

  def test_as_many_moves_as_leave_the_least_load(self):
    found = _tables([1] * 10, sent_seconds=0.9)
    stages = table_stages.spread([5.0, 5.0], [0, 0], found)
    # After k moves the load is the larger of 1 - k / 10 and (5 + 0.9 k) / 10.
    self.assertEqual(sum(stages), 3)
    stages = table_stages.spread([5.0, 5.0], [0, 0], found, slack=0.15)
    self.assertEqual(sum(stages), 4)

  def test_time_counts_nothing_above_the_memory_limit(self):
    found = _tables([4, 4], sent_seconds=9.0)
    # No stage can have less than 4.
    for limit, expected in ((8, [0, 0]), (7, [0, 1]), (3, [0, 1])):
      stages = table_stages.spread([5.0, 5.0], [0, 0], found, limit)
      self.assertCountEqual(stages, expected)

  def test_tables_that_several_stages_use_are_sent_to_each(self):
    (table,) = (table_stages.Table(4, 0, {0: 1.0, 1: 1.0, 2: 1.0}),)
    # On stage 1 or 2 as at home: two others get its rows.
    stages = table_stages.spread([9.0, 9.0, 1.0], [4, 2, 0], [table], slack=0.1)
    self.assertEqual(stages, [2])


if __name__ == "__main__":
  absltest.main()
