"""A case is fast, or it is not.

The fast tier (`./bazelw test //...`) runs what is quick, and of what takes long
one of each kind; `--config=all` runs every case.

  MP_TIER=fast python -m tests.estimator_mp.equality.sharding_test

runs what the fast tier runs of a file; without MP_TIER all of it runs.
"""

import os
from collections.abc import Iterable
from typing import Any

_TIER = os.environ.get("MP_TIER", "all")
if _TIER not in ("fast", "all"):
  raise SystemExit(f"MP_TIER={_TIER!r} is no tier: use fast, or all")
FAST = _TIER == "fast"


def slow(test: Any) -> Any:
  """Leaves a test method, or a class of tests, out of the fast tier.

  It is the outermost decorator of a test.
  """
  return None if FAST else test


def sample(cases: Iterable[Any]) -> list[Any]:
  """The first case in the fast tier; else all.

  Args:
    cases: Of a test that takes long, the most telling one first.
  """
  return [*cases][:1] if FAST else [*cases]
