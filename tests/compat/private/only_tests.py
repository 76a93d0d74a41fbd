"""Private names of TensorFlow that only tests use.

Tested on TensorFlow 2.15.1 and 2.21.0.

- `Graph._unsafe_unfinalize` lets a test do what programs do that add ops to a
  finalized graph.
- `Estimator._session_config` is what a plain Estimator gives its sessions.
"""

from typing import Any

import tensorflow as tf


def unfinalize(graph: tf.Graph) -> None:
  """Lets ops be made again in a finalized graph."""
  graph._unsafe_unfinalize()


def session_config_of(estimator: Any) -> tf.compat.v1.ConfigProto:
  """Returns the ConfigProto of an Estimator's sessions."""
  return estimator._session_config
