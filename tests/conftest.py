"""pytest for tests that are absl's.

  pip install -e '.[test]'
  pytest tests/estimator_mp/graph

TensorFlow is imported with compat installed, as in our own programs. All files
of one call share a process, so a few that change it (XLA's flags, TensorFlow
2's behaviour) want a call of their own; `python -m tests.suite` gives each file
a process.
"""

import sys

import estimator_mp  # noqa: F401

from absl import flags


def pytest_configure(config):
  """absl's tests read flags, which no main function parses here."""
  del config
  flags.FLAGS(sys.argv[:1])
