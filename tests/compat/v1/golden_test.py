"""What TensorFlow 1.15.5 gave, compat's view of today's TensorFlow gives.

Names, shapes and initial values of variables, results and gradients; record.py
has written the golden files. On TensorFlow 2.15, of each area the first case
and every fourth after it.
"""

import collections
import functools
import importlib
import os
import pkgutil

import compat

compat.install(v1=True, v1_packages=["tests.compat.v1"])

from tests.compat.v1 import cases, recording  # noqa: E402
from tests.estimator_mp import versions  # noqa: E402

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
# What TensorFlow makes of a graph is not compat's, and takes a quarter of the
# time.
_OPTIMIZED = bool(os.environ.get("MP_ALL_CASES"))


def _all_cases():
  for area in _AREAS:
    module = importlib.import_module(f"{cases.__name__}.{area}")
    of_area = [*recording.cases_of(module).items()]
    for name, case in of_area[:: 4 if versions.SOME else 1]:
      yield f"_{area}_{name}", area, name, case


@functools.cache
def _golden(area):
  """Returns what an area's cases gave: by the names of cases, and of values.

  A file is read once: it has thousands of arrays, and an area many cases.
  """
  found = collections.defaultdict(dict)
  with np.load(os.path.join(_GOLDEN, f"{area}.npz")) as arrays:
    for key, value in arrays.items():
      case, _, name = key.partition("/")
      found[case][name] = value
  return dict(found)


class GoldenTest(parameterized.TestCase):
  @parameterized.named_parameters(_all_cases())
  def test_as_on_1_15(self, area, name, case):
    wanted = _golden(area).get(name, {})
    found = recording.record(tf, random_seed, case, _OPTIMIZED)
    self.assertCountEqual(found, wanted)
    for key, value in wanted.items():
      with self.subTest(key):
        self.assertEqual(found[key].shape, value.shape)
        if value.dtype.kind in "fc":
          scale = np.max(np.abs(value), initial=1e-3, where=np.isfinite(value))
          np.testing.assert_allclose(
            found[key], value, rtol=_RELATIVE, atol=_RELATIVE * scale
          )
        else:
          np.testing.assert_array_equal(found[key], value)


class EveryCaseIsRecordedTest(absltest.TestCase):
  def test_no_case_is_missing_or_gone(self):
    for area in _AREAS:
      module = importlib.import_module(f"{cases.__name__}.{area}")
      self.assertCountEqual(
        recording.cases_of(module), _golden(area).keys(), area
      )


if __name__ == "__main__":
  absltest.main()
