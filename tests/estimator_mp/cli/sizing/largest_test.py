"""The largest size that fits, wherever one begins."""

import itertools

from estimator_mp.cli.sizing import planning

from absl.testing import absltest


class LargestTest(absltest.TestCase):
  def test_is_found_from_any_guess(self):
    for limit, guess in itertools.product(range(20), range(1, 20)):
      found = planning.largest(lambda n, most=limit: n <= most, guess)
      self.assertEqual(found, limit, guess)

  def test_a_good_guess_takes_two_trials(self):
    tried = []

    def fits(number):
      tried.append(number)
      return number <= 37

    self.assertEqual(planning.largest(fits, 37), 37)
    self.assertEqual(tried, [37, 38])

  def test_nothing_is_tried_twice_or_below_one(self):
    tried = []

    def fits(number):
      tried.append(number)
      return number <= 5

    self.assertEqual(planning.largest(fits, 100), 5)
    self.assertLen(set(tried), len(tried))
    self.assertGreaterEqual(min(tried), 1)


if __name__ == "__main__":
  absltest.main()
