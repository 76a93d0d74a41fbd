"""Runs the tests of some files in one process.

  python -m tests.suite tests/estimator_mp/graph
  python -m tests.suite tests/estimator_mp/{config,cluster} tests/tiers_test.py

To start TensorFlow takes longer than most test files do. Folders and files are
named from the root of the repository; absl gets the other arguments.
"""

import pathlib
import sys

from absl.testing import absltest

# Not resolved: in a test of Bazel's, files are links.
_ROOT = pathlib.Path(__file__).parents[1]


def _take_paths(arguments):
  """Takes the arguments that are no flags; returns their test files."""
  found = []
  while arguments[1:] and not arguments[1].startswith("-"):
    path = _ROOT / arguments.pop(1)
    found += sorted(path.glob("*_test.py")) if path.is_dir() else [path]
  missing = [str(path) for path in found if not path.exists()]
  if missing or not found:
    raise FileNotFoundError(f"no test file: {missing or arguments}")
  return found


_FILES = _take_paths(sys.argv)


def load_tests(loader, tests, pattern):
  """Is what unittest calls for the tests of the main module."""
  del tests, pattern
  return loader.loadTestsFromNames(
    ".".join(path.relative_to(_ROOT).with_suffix("").parts) for path in _FILES
  )


if __name__ == "__main__":
  absltest.main()
