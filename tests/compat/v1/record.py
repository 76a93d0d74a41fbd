"""Writes golden/*.npz: what the cases give on TensorFlow 1.15.5 itself.

    PYENV_VERSION=3.7.16 python3.7 -m venv v115
    v115/bin/pip install "tensorflow==1.15.5" "protobuf<3.21"
    v115/bin/python -m tests.compat.v1.record [AREA | AREA/CASE ...]

from the root of the repository; an area is a module of cases/, all without one.
golden_test.py compares today's TensorFlow with them.
"""

import importlib
import os
import pkgutil
import sys

from tests.compat.v1 import cases, recording

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import random_seed

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")


def main():
  """Records the areas on the command line."""
  assert tf.__version__ == "1.15.5", tf.__version__
  every = [one.name for one in pkgutil.iter_modules(cases.__path__)]
  for wanted in sys.argv[1:] or every:
    area, _, only = wanted.partition("/")
    module = importlib.import_module("%s.%s" % (cases.__name__, area))
    path = os.path.join(GOLDEN, area + ".npz")
    arrays = {}
    if only:
      with np.load(path) as known:
        arrays = {
          key: value
          for key, value in known.items()
          if not key.startswith(only + "/")
        }
    for name, case in recording.cases_of(module).items():
      if only in ("", name):
        for key, value in recording.record(tf, random_seed, case).items():
          arrays["%s/%s" % (name, key)] = value
    np.savez_compressed(path, **arrays)
    print(wanted, len(arrays), "arrays")


if __name__ == "__main__":
  main()
