"""Which cases run where.

The fast tier (`./bazelw test //...`) runs what is quick, and of what takes long
one of each kind; all tests (`--config=all`) run every case. On TensorFlow 2.15
less is run: what that TensorFlow may do in another way.

  MP_TIER=fast python -m tests.estimator_mp.equality.sharding_test

runs what the fast tier runs of a file; without MP_TIER all of it runs.
"""

import os
from collections.abc import Iterable
from importlib import metadata
from typing import Any

FAST = os.environ.get("MP_TIER") == "fast"


def _version() -> str:
  """The version of TensorFlow, which is not imported for it."""
  for name in ("tensorflow", "tensorflow-cpu"):
    try:
      return metadata.version(name)
    except metadata.PackageNotFoundError:
      pass
  raise ModuleNotFoundError("TensorFlow is not installed")


OLDEST = _version().startswith("2.15.")


def slow(test: Any) -> Any:
  """Leaves a test method, or a class of tests, out of the fast tier.

  It is the outermost decorator of a test.
  """
  return None if FAST else test


def newest_only(test: Any) -> Any:
  """Leaves out a test method, or a class of tests, on TensorFlow 2.15.

  It is the outermost decorator of a test.
  """
  return None if OLDEST else test


def sample(cases: Iterable[Any]) -> list[Any]:
  """The first case in the fast tier; else all, and `thin` on TensorFlow 2.15.

  Args:
    cases: Of a test that takes long, the most telling one first.
  """
  return [*cases][:1] if FAST else thin(cases)


def thin(cases: Iterable[Any], by: int = 3) -> list[Any]:
  """All cases; on TensorFlow 2.15 the first, and every third after it.

  Args:
    cases: What a test is tried with.
    by: Another number than three.
  """
  return [*cases][:: by if OLDEST else 1]


def steps(fast: int, whole: int) -> int:
  """How many steps a test trains.

  Args:
    fast: In the fast tier: as many as show another result each.
    whole: Where all cases are run.
  """
  return fast if FAST else whole
