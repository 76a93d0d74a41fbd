"""Runs all tests of a folder in one process.

  python -m tests.estimator_mp.suite graph
  python -m tests.estimator_mp.suite ../model_fns/ranking

To start TensorFlow takes longer than most test files do. In a test of Bazel's,
the folder holds the files that the target names.
"""

import os
import pathlib
import sys

from absl.testing import absltest

# Bazel's targets have the folder as an argument; absl gets the other arguments.
_FOLDER = sys.argv.pop(1) if sys.argv[1:] else ""


def load_tests(loader, tests, pattern):
  """Is what unittest calls for the tests of the main module."""
  del tests, pattern
  home = pathlib.Path(__file__).parent
  # Not resolved: in a test of Bazel's, files are links.
  folder = pathlib.Path(os.path.normpath(home / _FOLDER))
  modules = sorted(path.stem for path in folder.glob("*_test.py"))
  if not modules:
    raise ValueError(f"there is no test in {folder}")
  package = ".".join(folder.relative_to(home.parents[1]).parts)
  return loader.loadTestsFromNames([f"{package}.{name}" for name in modules])


if __name__ == "__main__":
  absltest.main()
