"""Sizes are what they are for any numbers that symbols stand for."""

import operator

from estimator_mp.sizes import polynomials
from tests.estimator_mp import drawn
from tests.estimator_mp.sizes import numbers

import hypothesis
from absl.testing import absltest, parameterized
from hypothesis import strategies

n, t = polynomials.symbol("n"), polynomials.symbol("t")
_NUMBERS = {"n": 7, "t": 11}

_SIZES = strategies.recursive(
  strategies.sampled_from([0, 1, 2, 3, n, t]),
  lambda sizes: strategies.builds(
    lambda f, left, right: f(left, right),
    strategies.sampled_from([operator.add, operator.sub, operator.mul]),
    sizes,
    sizes,
  ),
  max_leaves=8,
)


def _at(size):
  """Returns a size where symbols are numbers."""
  return numbers.value_of(size, _NUMBERS)


class PolynomialsTest(parameterized.TestCase):
  @hypothesis.given(_SIZES, _SIZES)
  @drawn.examples(100)
  def test_arithmetic_is_that_of_numbers(self, left, right):
    for f in (operator.add, operator.sub, operator.mul):
      self.assertEqual(_at(f(left, right)), f(_at(left), _at(right)))
    if left == right:
      self.assertEqual(hash(left), hash(right))
      self.assertEqual(_at(left), _at(right))

  @hypothesis.given(_SIZES, _SIZES)
  @drawn.examples(100)
  def test_a_product_is_divided_by_its_factors(self, left, right):
    hypothesis.assume(right != 0)
    self.assertEqual(polynomials.divide(left * right, right), left)

  @hypothesis.given(_SIZES, _SIZES)
  @drawn.examples(100)
  def test_a_quotient_times_the_divisor_is_the_dividend(self, left, right):
    quotient = polynomials.quotient(left, right)
    if quotient is not None:
      self.assertEqual(quotient * right, left)

  @parameterized.parameters(
    (n, 2), (n, t), (n + 1, n), (n * n, n + 1), (3, n), (1, 0), (n, n - n)
  )
  def test_no_quotient(self, dividend, divisor):
    self.assertIsNone(polynomials.quotient(dividend, divisor))
    with self.assertRaises(polynomials.UnknownSizeError):
      polynomials.divide(dividend, divisor)

  def test_what_is_a_number_is_an_int(self):
    self.assertIs(type(n - n), int)
    self.assertIs(type(n - (n - 3)), int)
    self.assertIs(type(polynomials.product([])), int)
    self.assertEqual(polynomials.product([n, 2, t]), 2 * n * t)

  def test_which_is_larger_is_not_known(self):
    with self.assertRaises(polynomials.UnknownSizeError):
      sorted([n, t])
    with self.assertRaises(polynomials.UnknownSizeError):
      max(3, n)

  @parameterized.parameters(
    (2 * n + 1, "2*n + 1"),
    (n * t - n, "n*t - n"),
    (-n, "-n"),
    (1 - n * n * 3, "-3*n*n + 1"),
    (t + n, "n + t"),
  )
  def test_is_written_as_in_algebra(self, size, text):
    self.assertEqual(str(size), text)

  def test_symbols_are_those_it_depends_on(self):
    self.assertEqual((n * t + n).symbols, {"n", "t"})
    self.assertEqual((n * t + n - n * t).symbols, {"n"})


if __name__ == "__main__":
  absltest.main()
