"""Which tests run where.

What gates a change runs each model, each mesh and each way of making a graph,
but not each with every other: `covering` and `thorough` say what is left out.
On TensorFlow 2.15 less is: what that TensorFlow may do in another way.

  MP_ALL_CASES=1 python -m tests.estimator_mp.equality.sharding_test

runs all of them on any TensorFlow.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any

import estimator_mp  # noqa: F401

import tensorflow  # noqa: F401

_ALL = bool(os.environ.get("MP_ALL_CASES"))
# Tests of old programs see another version here: compat's view is that of 1.15.
_VERSION = sys.modules["tensorflow"].__version__
SOME = _VERSION.startswith("2.15.") and not _ALL


def newest_only(test: Any) -> Any:
  """Leaves out a test method, or a class of tests, on TensorFlow 2.15.

  It is the outermost decorator of a test.
  """
  return None if SOME else test


def thorough(test: Any) -> Any:
  """Leaves out a test method, or a class of tests, unless all cases are run.

  It is for what repeats, with more, what another test has shown. It is the
  outermost decorator of a test.
  """
  return test if _ALL else None


def some(cases: Iterable[Any], *kept: str) -> list[Any]:
  """All cases; on TensorFlow 2.15 those that are kept.

  Args:
    cases: Names, or tuples that begin with one.
    *kept: Some of the names.
  """
  by_name = {x if isinstance(x, str) else x[0]: x for x in cases}
  some_of_them = [by_name[name] for name in kept]
  return some_of_them if SOME else [*by_name.values()]


def covering(
  cases: Iterable[Any], *kept: str, oldest: Iterable[str] | None = None
) -> list[Any]:
  """The cases that are kept; all of them only where all cases are run.

  Args:
    cases: Names, or tuples that begin with one.
    *kept: Names that together have each model, mesh and option once.
    oldest: Those of them that run on TensorFlow 2.15, if not all.
  """
  by_name = {x if isinstance(x, str) else x[0]: x for x in cases}
  covered = {name: by_name[name] for name in kept}
  if _ALL:
    return [*by_name.values()]
  return some(covered.values(), *(covered if oldest is None else oldest))


def steps(gating: int, whole: int) -> int:
  """How many steps a test trains.

  Args:
    gating: What gates a change: as many as show another result each.
    whole: Where all cases are run.
  """
  return whole if _ALL else gating


def first(values: Iterable[Any]) -> list[Any]:
  """All values; on TensorFlow 2.15 the first one.

  Args:
    values: Of what a case is tried with, such as ways to cut a tensor.
  """
  every = [*values]
  return every[:1] if SOME else every
