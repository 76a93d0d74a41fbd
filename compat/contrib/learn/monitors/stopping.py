"""Monitors that decide when training ends."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from compat.contrib.learn.monitors.base import BaseMonitor, EveryN

import tensorflow as tf

_LOG = logging.getLogger("tensorflow")


class StopAtStep(BaseMonitor):
  """Stops at a step."""

  def __init__(
    self, num_steps: int | None = None, last_step: int | None = None
  ):
    """Makes the monitor.

    Args:
      num_steps: how many steps to make.
      last_step: the last step to make, in the place of num_steps.

    Raises:
      ValueError: unless one of the two is given.
    """
    super().__init__()
    if (num_steps is None) == (last_step is None):
      raise ValueError("Give StopAtStep one of num_steps and last_step.")
    self._num_steps = num_steps
    self._last_step = last_step

  @property
  def run_on_all_workers(self) -> bool:
    """It does."""
    return True

  def step_begin(self, step: int) -> list[Any]:
    """Counts from the first step that it is told of."""
    super().step_begin(step)
    if self._last_step is None:
      assert self._num_steps is not None
      self._last_step = step + self._num_steps - 1
    return []

  def step_end(self, step: int, output: Mapping[str, Any]) -> bool:
    """Returns whether this was the last step."""
    super().step_end(step, output)
    assert self._last_step is not None
    return step >= self._last_step


class ValidationMonitor(EveryN):
  """Evaluates checkpoints as they are written, and may stop training early."""

  def __init__(
    self,
    x: Any = None,
    y: Any = None,
    input_fn: Callable[..., Any] | None = None,
    batch_size: int | None = None,
    eval_steps: int | None = None,
    every_n_steps: int = 100,
    metrics: Any = None,
    hooks: Any = None,
    early_stopping_rounds: int | None = None,
    early_stopping_metric: str = "loss",
    early_stopping_metric_minimize: bool = True,
    name: str | None = None,
    check_interval_secs: float | None = 5,
  ):
    """Makes the monitor.

    Args:
      x: features to evaluate on, as `Estimator.evaluate` takes them.
      y: labels.
      input_fn: gives both, in their place.
      batch_size: of x and y.
      eval_steps: how many batches to evaluate on; None is all.
      every_n_steps: steps from one look for a new checkpoint to the next.
      metrics: what to compute; see `Estimator.evaluate`.
      hooks: for evaluating.
      early_stopping_rounds: training stops when the metric has not been better
        for so many steps; None is never.
      early_stopping_metric: the metric's name.
      early_stopping_metric_minimize: whether smaller is better.
      name: of this evaluation, in its summaries' folder.
      check_interval_secs: the least number of seconds between two looks.

    Raises:
      ValueError: if there is nothing to evaluate on, or x and input_fn.
    """
    super().__init__(every_n_steps=every_n_steps, first_n_steps=-1)
    if (x is None) == (input_fn is None):
      raise ValueError("Give ValidationMonitor one of x and input_fn.")
    self.x, self.y, self.input_fn = x, y, input_fn
    self.batch_size = batch_size
    self.eval_steps = eval_steps
    self.metrics = metrics
    self.hooks = hooks
    self.early_stopping_rounds = early_stopping_rounds
    self.early_stopping_metric = early_stopping_metric
    self.early_stopping_metric_minimize = early_stopping_metric_minimize
    self.name = name
    self._best_value_step: int | None = None
    self._best_value: Any = None
    self._best_metrics: Any = None
    self._early_stopped = False
    self._latest_path: str | None = None
    self._latest_path_step: int | None = None
    self._last_checkpoint_check_time: float | None = None
    self._check_interval_secs = check_interval_secs

  @property
  def early_stopped(self) -> bool:
    """Whether it stopped training."""
    return self._early_stopped

  @property
  def best_step(self) -> int | None:
    """The step at which the metric was best."""
    return self._best_value_step

  @property
  def best_value(self) -> Any:
    """The best value of the metric."""
    return self._best_value

  @property
  def best_metrics(self) -> Any:
    """All that evaluating the best step gave."""
    return self._best_metrics

  def _found_new_checkpoint(self, step: int) -> bool:
    """Looks for a checkpoint that it has not evaluated, and remembers it."""
    now = time.time()
    before, interval = (
      self._last_checkpoint_check_time,
      self._check_interval_secs,
    )
    if before is not None and interval is not None and now - before < interval:
      return False
    self._last_checkpoint_check_time = now
    latest = tf.train.latest_checkpoint(self._estimator.model_dir)
    if latest is None or latest == self._latest_path:
      return False
    self._latest_path, self._latest_path_step = latest, step
    return True

  def _evaluate(self) -> Any:
    if isinstance(self._estimator, tf.compat.v1.estimator.Estimator):
      if self.input_fn is None:
        raise ValueError(
          "ValidationMonitor needs an input_fn with a tf.estimator.Estimator; "
          "it was given x."
        )
      return self._estimator.evaluate(
        self.input_fn, self.eval_steps, self.hooks, name=self.name
      )
    return self._estimator.evaluate(
      x=self.x,
      y=self.y,
      input_fn=self.input_fn,
      batch_size=self.batch_size,
      steps=self.eval_steps,
      metrics=self.metrics,
      hooks=self.hooks,
      name=self.name,
    )

  def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
    """Evaluates, if there is a new checkpoint."""
    super().every_n_step_end(step, outputs)
    if self._estimator is None:
      raise ValueError("ValidationMonitor has no estimator; see set_estimator.")
    if not self._found_new_checkpoint(step):
      return False
    found = self._evaluate()
    values = ", ".join(f"{key} = {found[key]}" for key in sorted(found))
    _LOG.info("Validation (step %d): %s", step, values)
    return self._is_worse_for_long(step, found)

  def _is_worse_for_long(self, step: int, found: Mapping[str, Any]) -> bool:
    if self.early_stopping_rounds is None:
      return False
    if self.early_stopping_metric not in found:
      raise ValueError(
        f"early_stopping_metric={self.early_stopping_metric!r} is none of "
        f"{', '.join(sorted(found))}."
      )
    value = found[self.early_stopping_metric]
    if self._best_value is None or self._is_better(value):
      self._best_value, self._best_metrics = value, dict(found)
      self._best_value_step = step
    assert self._best_value_step is not None
    if step - self._best_value_step < self.early_stopping_rounds:
      return False
    _LOG.info(
      "Stopping at step %d. Best step: %d with %s = %s.",
      step,
      self._best_value_step,
      self.early_stopping_metric,
      self._best_value,
    )
    self._early_stopped = True
    return True

  def _is_better(self, value: Any) -> bool:
    if self.early_stopping_metric_minimize:
      return bool(value < self._best_value)
    return bool(value > self._best_value)
