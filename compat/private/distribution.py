"""TensorFlow's distribute coordinator, which tf.estimator stands on.

Tested on TensorFlow 2.15.1 and 2.21.0.

- `distribute_coordinator` starts the servers of a cluster, and says which task
  a process is; publicly only Estimator, which 2.16 removed, called it.
- `DistributeConfig` is the class of RunConfig's `experimental_distribute`; only
  tf.contrib had it as a public name.
"""

import importlib
from typing import Any


def distribute_coordinator() -> Any:
  """Returns the module that runs one function on a cluster's tasks."""
  return importlib.import_module(
    "tensorflow.python.distribute.distribute_coordinator"
  )


def current_worker_context() -> Any:
  """Returns what the distribute coordinator says of the task it runs."""
  return importlib.import_module(
    "tensorflow.python.distribute.distribute_coordinator_context"
  ).get_current_worker_context()


def distribute_config() -> Any:
  """Returns the class of RunConfig's experimental_distribute."""
  return importlib.import_module(
    "tensorflow.python.distribute.distribute_config"
  ).DistributeConfig
