"""Sizes where their symbols are numbers."""

import math

from estimator_mp.sizes import polynomials


def value_of(size, numbers):
  """Returns a size as a number; None if a symbol of it is not known.

  Args:
    size: A size.
    numbers: The numbers that symbols stand for.
  """
  terms = polynomials.terms_of(size)
  if not all(name in numbers for term in terms for name in term):
    return None
  return sum(
    count * math.prod(numbers[name] for name in term)
    for term, count in terms.items()
  )
