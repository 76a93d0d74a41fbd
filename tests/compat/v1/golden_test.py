"""What TensorFlow 1.15.5 gave, compat's view of today's TensorFlow gives.

Names, shapes and initial values of variables, results and gradients; record.py
has written the golden files. Of each area the cases that train and those that
only build a graph are one test. In the fast tier these are of each area the
first case and every sixteenth after it; on TensorFlow 2.15 every fourth of
them.
"""

import collections
import functools
import importlib
import os
import pkgutil
import traceback

import compat

compat.install(v1=True, v1_packages=["tests.compat.v1"])

from tests import tiers  # noqa: E402
from tests.compat.v1 import cases, recording  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402
from tensorflow.python.framework import random_seed  # noqa: E402

_GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
# One area only: GOLDEN_AREA=rnn.
_AREAS = [
  one.name
  for one in pkgutil.iter_modules(cases.__path__)
  if os.environ.get("GOLDEN_AREA", one.name) == one.name
]
_RELATIVE = 1e-5


@functools.cache
def _golden(area):
  """Returns what an area's cases gave: by the names of cases, and of values."""
  found = collections.defaultdict(dict)
  with np.load(os.path.join(_GOLDEN, f"{area}.npz")) as arrays:
    for key, value in arrays.items():
      case, _, name = key.partition("/")
      found[case][name] = value
  return dict(found)


@functools.cache
def _cases(area):
  """Returns an area's cases by name, of each kind: "graph" or "training"."""
  module = importlib.import_module(f"{cases.__name__}.{area}")
  of_area = [*recording.cases_of(module).items()]
  by_kind = collections.defaultdict(dict)
  by = 16 if tiers.FAST else 1
  for name, case in of_area[::by]:
    values = _golden(area).get(name, {})
    trains = any(value.startswith("after/") for value in values)
    by_kind["training" if trains else "graph"][name] = case
  return dict(by_kind)


def _mismatch(found, wanted):
  """Returns what is wrong with an array, or None."""
  if found.shape != wanted.shape:
    return f"shape {found.shape}, not {wanted.shape}"
  if wanted.dtype.kind not in "fc":
    differ = np.count_nonzero(found != wanted)
    return f"{differ} of {wanted.size} elements differ" if differ else None
  scale = np.max(np.abs(wanted), initial=1e-3, where=np.isfinite(wanted))
  limit = _RELATIVE * scale
  if np.allclose(found, wanted, rtol=_RELATIVE, atol=limit, equal_nan=True):
    return None
  finite = np.isfinite(found) & np.isfinite(wanted)
  if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
    return "not finite in other places"
  difference = np.abs(found[finite] - wanted[finite])
  allowed = limit + _RELATIVE * np.abs(wanted[finite])
  worst = np.argmax(difference - allowed)
  return f"differs by {difference[worst]:.3g}, limit {allowed[worst]:.3g}"


def _mismatches(some_cases, golden):
  """Yields a line for each case that raises, and each array that is wrong.

  Args:
    some_cases: Cases by name.
    golden: Arrays by their names, by the names of cases.
  """
  for name, case in some_cases.items():
    wanted = golden.get(name, {})
    try:
      # How TensorFlow rewrites a graph is not compat's: one array of rnn_cells,
      # nothing but rounding, then differs by 1.25 of its limit.
      found = recording.record(tf, random_seed, case, optimized=False)
      for key in sorted({*found, *wanted}):
        if key not in found:
          yield f"{name}: {key}: is missing"
        elif key not in wanted:
          yield f"{name}: {key}: was not recorded"
        elif wrong := _mismatch(found[key], wanted[key]):
          yield f"{name}: {key}: {wrong}"
    except Exception:  # The other cases still run.
      yield f"{name}: raised\n{traceback.format_exc(limit=-4)}"


class GoldenTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (f"_{area}_{kind}", area, kind) for area in _AREAS for kind in _cases(area)
  )
  def test_as_on_1_15(self, area, kind):
    wrong = [*_mismatches(_cases(area)[kind], _golden(area))]
    if wrong:
      self.fail("\n".join([f"{len(wrong)} mismatches", *wrong]))


class MismatchesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("equal", [1.0, -2.0], [1.0, -2.0], None),
    ("within_the_limit", [1.0, -2.00003], [1.0, -2.0], None),
    (
      "beyond_it",
      [1.0, -2.00005],
      [1.0, -2.0],
      "differs by 5e-05, limit 4e-05",
    ),
    ("not_finite", [np.nan, -np.inf], [np.nan, -np.inf], None),
    ("nan", [np.nan, 1.0], [1.0, 1.0], "not finite in other places"),
    ("sign", [np.inf, 1.0], [-np.inf, 1.0], "not finite in other places"),
    (
      "beyond_it_beside_nan",
      [np.nan, 1.5],
      [np.nan, 1.0],
      "differs by 0.5, limit 2e-05",
    ),
    ("complex", [1 + 1j], [1 - 1j], "differs by 2, limit 2.83e-05"),
    ("shape", [[1.0]], [1.0], "shape (1, 1), not (1,)"),
    ("numbers", [1, 2, 3], [1, 3, 2], "2 of 3 elements differ"),
    ("strings", [b"a"], [b"b"], "1 of 1 elements differ"),
    ("no_elements", [], [], None),
  )
  def test_of_an_array(self, found, wanted, wrong):
    self.assertEqual(_mismatch(np.array(found), np.array(wanted)), wrong)

  def test_each_mismatch_is_a_line_and_all_cases_run(self):
    def raises():
      raise ValueError("oh")

    one = {"results/x": np.array(1.0), "results/y": np.array(2.0)}
    wrong = [
      *_mismatches(
        {
          "a": lambda: {"x": 1.0, "y": 2.0},
          "b": raises,
          "c": lambda: {"x": 1.5, "z": tf.constant(1)},
        },
        {"a": one, "b": one, "c": one},
      )
    ]
    self.assertLen(wrong, 4)
    self.assertStartsWith(wrong[0], "b: raised\nTraceback")
    self.assertEndsWith(wrong[0], "ValueError: oh\n")
    self.assertEqual(
      wrong[1:],
      [
        "c: results/x: differs by 0.5, limit 2e-05",
        "c: results/y: is missing",
        "c: results/z: was not recorded",
      ],
    )


class EveryCaseIsRecordedTest(absltest.TestCase):
  def test_no_case_is_missing_or_gone(self):
    for area in _AREAS:
      module = importlib.import_module(f"{cases.__name__}.{area}")
      self.assertCountEqual(
        recording.cases_of(module), _golden(area).keys(), area
      )


if __name__ == "__main__":
  absltest.main()
