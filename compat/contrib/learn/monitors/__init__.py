"""tf.contrib.learn.monitors: what is told of each step of `fit`.

A monitor runs as a hook in `Estimator.fit`, in an `Experiment`, and in
`tf.estimator.Estimator.train` after `replace_monitors_with_hooks`.
"""

from compat.contrib import absent
from compat.contrib.learn.monitors.base import (
  BaseMonitor,
  EveryN,
  RunHookAdapterForMonitors,
  replace_monitors_with_hooks,
)
from compat.contrib.learn.monitors.saving import (
  CheckpointSaver,
  ExportMonitor,
  StepCounter,
  SummarySaver,
)
from compat.contrib.learn.monitors.stopping import (
  StopAtStep,
  ValidationMonitor,
)
from compat.contrib.learn.monitors.watching import (
  CaptureVariable,
  GraphDump,
  LoggingTrainable,
  NanLoss,
  PrintTensor,
  get_default_monitors,
)

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)

NanLossDuringTrainingError = tf.compat.v1.train.NanLossDuringTrainingError
SessionLog = tf.compat.v1.SessionLog
Summary = tf.compat.v1.Summary

__all__ = [
  "BaseMonitor",
  "CaptureVariable",
  "CheckpointSaver",
  "EveryN",
  "ExportMonitor",
  "GraphDump",
  "LoggingTrainable",
  "NanLoss",
  "NanLossDuringTrainingError",
  "PrintTensor",
  "RunHookAdapterForMonitors",
  "SessionLog",
  "StepCounter",
  "StopAtStep",
  "Summary",
  "SummarySaver",
  "ValidationMonitor",
  "get_default_monitors",
  "replace_monitors_with_hooks",
]
