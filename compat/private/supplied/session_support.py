"""Stands in for `tensorflow.python.tpu.session_support`.

TPUEstimator watches over TPU workers with it, and only when it uses TPUs: with
use_tpu=False nothing here is called. Each name refuses with the way out.
"""

from typing import Any

from compat.private.supplied import unsupported


def start_worker_watchdog(*args: Any, **kwargs: Any) -> None:
  """Refuses: there is no TPU worker to watch."""
  del args, kwargs
  unsupported.refuse_tpu("The TPU worker watchdog")


class GracefulShutdownHook:
  """Refuses: there is no TPU worker to shut down."""

  def __init__(self, *args: Any, **kwargs: Any):
    del args, kwargs
    unsupported.refuse_tpu(f"The hook {type(self).__name__}")


class ResetComputation(GracefulShutdownHook):
  """Refuses: there is no TPU computation to reset."""


class ShutdownAllWorkers(GracefulShutdownHook):
  """Refuses: there is no TPU worker to shut down."""


class ShutdownLameWorkers(GracefulShutdownHook):
  """Refuses: there is no TPU worker to shut down."""
