"""The largest size that fits, wherever one begins."""

import itertools

from estimator_mp.cli.sizing import planning

from absl.testing import absltest


class LargestTest(absltest.TestCase):
  def test_is_found_from_any_guess_without_a_trial_twice(self):
    for limit, guess in itertools.product(range(20), range(1, 20)):
      tried = []

      def fits(number, most=limit, tried=tried):
        tried.append(number)
        return number <= most

      self.assertEqual(planning.largest(fits, guess), limit, guess)
      self.assertLen({*tried}, len(tried))
      self.assertGreaterEqual(min(tried), 1)
      if guess == limit:  # A good guess takes two.
        self.assertEqual(tried, [guess, guess + 1])


if __name__ == "__main__":
  absltest.main()
