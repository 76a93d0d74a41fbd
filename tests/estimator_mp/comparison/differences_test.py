"""Differences of arrays, as plain numbers."""

import math

from estimator_mp.comparison import differences

import numpy as np
from absl.testing import absltest, parameterized

_NAN, _INF = math.nan, math.inf


class DifferenceTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("equal", [1.0, 2.0], [1.0, 2.0], 0.0),
    ("of_the_largest", [1.0, 2.5], [1.0, 2.0], 0.25),
    ("numbers", 3, 4, 0.25),
    ("complex", [3 + 4j], [0j + 5], math.hypot(2, 4) / 5),
    ("shape", [1.0], [1.0, 1.0], _INF),
    ("strings", np.array(["a"]), np.array(["b"]), _INF),
    ("equal_strings", np.array(["a"]), np.array(["a"]), 0.0),
    ("nan_in_the_same_place", [_NAN, 1.5], [_INF, 1.0], 0.5),
    ("nan_in_one", [_NAN, 1.0], [1.0, 1.0], _INF),
    ("of_zero", [1e-9], [0.0], _INF),
  )
  def test_difference(self, found, expected, difference):
    gap = differences.difference(found, expected)
    if difference == _INF:
      self.assertGreater(gap, 1e100)
    else:
      self.assertAlmostEqual(gap, difference)

  def test_least(self):
    self.assertAlmostEqual(differences.difference([1e-9], [0.0], 1e-3), 1e-6)

  def test_small_ones_are_compared_beside_large_ones_of_their_kind(self):
    found = differences.differences(
      {"large": np.array([1.0]), "small": np.array([2e-6]), "new": np.ones(1)},
      {"large": np.array([1.0]), "small": np.array([1e-6])},
      {"large": "trainable", "small": "trainable", "new": "new"},
    )
    self.assertEqual(found["large"], 0.0)
    self.assertAlmostEqual(found["small"], 1e-3)
    self.assertEqual(found["new"], _INF)

  def test_norm(self):
    arrays = {"a": np.array([3.0]), "b": np.array([[4.0]])}
    self.assertEqual(differences.norm(arrays), 5.0)
    self.assertIsNone(differences.norm({}))


if __name__ == "__main__":
  absltest.main()
