"""Names of tf.contrib.checkpoint, which is tf.train.Checkpoint now.

Refused are `NumpyState` (a tf.Variable, or tf.compat.v1.train.experimental.
PythonState) and `split_dependency`.
"""

from compat.contrib import packages
from compat.contrib.checkpoint.trees import (
  UniqueNameTracker,
  dot_graph_from_checkpoint,
)
from compat.private import kept_names

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = packages.getter(__name__, kept_names.PLACES["checkpoint"])

CheckpointManager = tf.train.CheckpointManager
Checkpointable = tf.__internal__.tracking.AutoTrackable
CheckpointableBase = tf.__internal__.tracking.Trackable
PythonStateWrapper = tf.compat.v1.train.experimental.PythonState

__all__ = [
  "CheckpointManager",
  "Checkpointable",
  "CheckpointableBase",
  "PythonStateWrapper",
  "UniqueNameTracker",
  "dot_graph_from_checkpoint",
]
