"""Sizes of dimensions: integers, or polynomials over names of unknown sizes.

A batch may have any number of examples, say `n`. Tensors that depend on it
have sizes such as `3*n` or `n*t + 1`. As polynomials they are compared, divided
and told apart from sizes that only happen to be equal.

A size is an `int` wherever it is a number, and a `Polynomial` otherwise, so

    n = polynomials.symbol("n")
    2 * n + n == 3 * n
    polynomials.divide(6 * n, 3) == 2 * n
    n - n == 0                             # an int
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias


class UnknownSizeError(ArithmeticError):
  """A result depends on numbers that symbols stand for."""


# The symbols of a term, sorted; one that stands there twice is squared.
_Monomial: TypeAlias = tuple[str, ...]


class Polynomial:
  """A sum of products of symbols, with integer coefficients; not an integer.

  Polynomials are immutable. They are equal if they are for all numbers that
  symbols may stand for. Which of two is larger depends on those, so that a
  comparison by `<` raises `UnknownSizeError`.
  """

  __slots__ = ("_hash", "_terms")

  def __init__(self, terms: Mapping[_Monomial, int]):
    self._terms = dict(terms)
    self._hash = hash(frozenset(self._terms.items()))

  def to_json(self) -> list[list[int | str]]:
    """Returns its terms for JSON: a coefficient, and symbols, of each."""
    return [[count, *term] for term, count in self._terms.items()]

  @classmethod
  def from_json(cls, value: Any) -> Polynomial:
    """Returns the polynomial of a result of `to_json`.

    Raises:
      ValueError: If it is none.
    """
    is_one = isinstance(value, list) and all(
      isinstance(term, list) and term and type(term[0]) is int for term in value
    )
    if not is_one:
      raise ValueError(f"{value!r} is no size: an int, or [[count, name..]..]")
    return cls({tuple(map(str, term)): int(count) for count, *term in value})

  @property
  def terms(self) -> Mapping[_Monomial, int]:
    """From products of symbols to their coefficients, none of which is 0."""
    return self._terms

  @property
  def symbols(self) -> frozenset[str]:
    """The symbols that it depends on."""
    return frozenset(symbol for term in self._terms for symbol in term)

  def __hash__(self) -> int:
    return self._hash

  def __eq__(self, other: object) -> bool:
    return isinstance(other, Polynomial) and self._terms == other._terms

  def __add__(self, other: Size) -> Size:
    return _sum(self, other, 1)

  __radd__ = __add__

  def __sub__(self, other: Size) -> Size:
    return _sum(self, other, -1)

  def __rsub__(self, other: Size) -> Size:
    return _sum(other, self, -1)

  def __neg__(self) -> Size:
    return _sum(0, self, -1)

  def __mul__(self, other: Size) -> Size:
    product: dict[_Monomial, int] = {}
    for left, count in self._terms.items():
      for right, other_count in terms_of(other).items():
        term = tuple(sorted(left + right))
        product[term] = product.get(term, 0) + count * other_count
    return _size(product)

  __rmul__ = __mul__

  def __lt__(self, other: Size) -> bool:
    raise UnknownSizeError(f"{self} is compared with {other}")

  __le__ = __gt__ = __ge__ = __lt__

  def __str__(self) -> str:
    written = ""
    for term, count in sorted(
      self._terms.items(), key=lambda x: (-len(x[0]), x[0])
    ):
      factors = [str(abs(count))] if abs(count) != 1 or not term else []
      sign = "-" if count < 0 else "+"
      written += f" {sign} {'*'.join([*factors, *term])}"
    return written[3:] if written.startswith(" + ") else f"-{written[3:]}"

  __repr__ = __str__


# A number, or a function of the numbers that symbols may stand for.
Size: TypeAlias = int | Polynomial


def symbol(name: str) -> Polynomial:
  """Returns the size that a name stands for.

  Args:
    name: Its name.
  """
  return Polynomial({(name,): 1})


def terms_of(size: Size) -> Mapping[_Monomial, int]:
  """Returns the coefficients of a size by products of symbols.

  Args:
    size: A size; a number is the coefficient of the empty product.
  """
  if isinstance(size, Polynomial):
    return size.terms
  return {(): int(size)} if size else {}


def product(sizes: Iterable[Size]) -> Size:
  """Returns the product of sizes; 1 if there are none.

  Args:
    sizes: The factors.
  """
  result: Size = 1
  for size in sizes:
    result = result * size
  return result


def divide(dividend: Size, divisor: Size) -> Size:
  """Returns an exact quotient.

  Args:
    dividend: A size.
    divisor: Another one.

  Raises:
    UnknownSizeError: The quotient is no polynomial with integer coefficients,
      or the divisor is 0.
  """
  quotient: Size = 0
  leading, count = _leading(divisor, dividend)
  remainder = dividend
  # The leading term of the rest goes in each turn, as in a division of numbers.
  while (terms := terms_of(remainder)) != {}:
    term = max(terms, key=_degree)
    left = list(term)
    for name in leading:
      if name not in left:
        raise UnknownSizeError(f"{dividend} is divided by {divisor}")
      left.remove(name)
    if terms[term] % count:
      raise UnknownSizeError(f"{dividend} is divided by {divisor}")
    part = _size({tuple(left): terms[term] // count})
    quotient = quotient + part
    remainder = remainder - part * divisor
  return quotient


def quotient(dividend: Size, divisor: Size) -> Size | None:
  """Returns an exact quotient; None if there is none.

  Args:
    dividend: A size.
    divisor: Another one.
  """
  try:
    return divide(dividend, divisor)
  except UnknownSizeError:
    return None


def _leading(divisor: Size, dividend: Size) -> tuple[_Monomial, int]:
  terms = terms_of(divisor)
  if not terms:
    raise UnknownSizeError(f"{dividend} is divided by 0")
  term = max(terms, key=_degree)
  return term, terms[term]


def _degree(term: _Monomial) -> tuple[int, _Monomial]:
  """An order of products that multiplying both with another one keeps."""
  return len(term), tuple(sorted(term, reverse=True))


def _sum(left: Size, right: Size, sign: int) -> Size:
  total = dict(terms_of(left))
  for term, count in terms_of(right).items():
    total[term] = total.get(term, 0) + sign * count
  return _size(total)


def _size(terms: Mapping[_Monomial, int]) -> Size:
  """Returns the size of a sum of terms: a number if it is one."""
  left = {term: count for term, count in terms.items() if count}
  if not left:
    return 0
  return left[()] if set(left) == {()} else Polynomial(left)
