"""Cases are few, and have every pair that there can be."""

import itertools

from tests import pairwise
from tests.estimator_mp import drawn

import hypothesis
from absl.testing import absltest
from hypothesis import strategies as st


def _pairs(case):
  return {*itertools.combinations(case.items(), 2)}


class PairsTest(absltest.TestCase):
  @drawn.examples(50)
  @hypothesis.given(st.data())
  def test_all_pairs_that_go_together(self, data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    factors = {f"f{i}": range(size) for i, size in enumerate(sizes)}
    every = [
      dict(zip(factors, values, strict=True))
      for values in itertools.product(*factors.values())
    ]
    refused = data.draw(st.lists(st.sampled_from(every), max_size=8))
    left = [case for case in every if case not in refused]
    hypothesis.assume(left)
    chosen = pairwise.pairs(factors, lambda **case: case not in refused)
    self.assertEqual(
      set().union(*map(_pairs, chosen)), set().union(*map(_pairs, left))
    )
    self.assertContainsSubset(
      [tuple(x.values()) for x in chosen], [tuple(x.values()) for x in left]
    )

  def test_they_are_few(self):
    factors = {f"f{i}": range(4) for i in range(6)}
    self.assertLess(len(pairwise.pairs(factors)), 2 * 4 * 4)

  def test_a_name_has_all_values(self):
    case = {"mesh": "data:2,stage:2", "rounds": 2, "split": None}
    self.assertEqual(pairwise.name(case), "data_2_stage_2_2_None")


class OfEachTest(absltest.TestCase):
  def test_the_case_with_the_most_new_pairs(self):
    cases = [
      {"a": a, "b": b, "c": c} for a in (1, 2) for b in (1, 2) for c in (1, 2)
    ]
    self.assertEqual(
      pairwise.of_each("a", cases),
      [{"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 1, "c": 2}],
    )


if __name__ == "__main__":
  absltest.main()
