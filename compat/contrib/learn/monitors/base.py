"""The classes that monitors are made of, and the hook that runs them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

# Of a tensor to fetch: the tensor, or its name.
Fetch = Any


class BaseMonitor:
  """Is told when training begins, of each step, and when it ends."""

  def __init__(self) -> None:
    """Makes a monitor that has not begun."""
    self._begun = False
    self._current_epoch: int | None = None
    self._current_step: int | None = None
    self._max_steps: int | None = None
    self._estimator: Any = None

  @property
  def run_on_all_workers(self) -> bool:
    """Whether it runs on other workers than the chief, too."""
    return False

  def set_estimator(self, estimator: Any) -> None:
    """Tells which model is trained.

    Args:
      estimator: the model.

    Raises:
      ValueError: if there is none.
    """
    if estimator is None:
      raise ValueError("A monitor needs the estimator that it watches.")
    self._estimator = estimator

  def begin(self, max_steps: int | None = None) -> None:
    """Tells that training begins.

    Args:
      max_steps: the last step, if it is known.

    Raises:
      ValueError: if it has begun already.
    """
    if self._begun:
      raise ValueError("begin was called twice without end.")
    self._max_steps = max_steps
    self._begun = True

  def end(self, session: Any = None) -> None:
    """Tells that training has ended.

    Args:
      session: the session, still open.

    Raises:
      ValueError: if it had not begun.
    """
    del session
    if not self._begun:
      raise ValueError("end was called without begin.")
    self._max_steps = None
    self._begun = False

  def epoch_begin(self, epoch: int) -> None:
    """Tells that an epoch begins; nothing in tf.contrib calls it."""
    if self._current_epoch is not None:
      raise ValueError("epoch_begin was called twice without epoch_end.")
    if epoch < 0:
      raise ValueError(f"epoch={epoch} must not be negative.")
    self._current_epoch = epoch

  def epoch_end(self, epoch: int) -> None:
    """Tells that an epoch has ended; nothing in tf.contrib calls it."""
    if self._current_epoch != epoch:
      raise ValueError(
        f"epoch_end was called with {epoch}, but the epoch that began is "
        f"{self._current_epoch}."
      )
    self._current_epoch = None

  def step_begin(self, step: int) -> list[Fetch]:
    """Tells that a step begins.

    Args:
      step: its number.

    Returns:
      Tensors, or their names, that step_end wants the values of.

    Raises:
      ValueError: if the step is negative or does not follow another's end.
    """
    if step < 0:
      raise ValueError(f"step={step} must not be negative.")
    if self._current_step is not None:
      raise ValueError(
        f"step_begin was called with {step}, but step {self._current_step} has "
        "not ended."
      )
    self._current_step = step
    return []

  def step_end(self, step: int, output: Mapping[str, Any]) -> bool:
    """Tells that a step has run.

    Args:
      step: its number.
      output: values by the names of the tensors.

    Returns:
      Whether training should stop.

    Raises:
      ValueError: if another step began.
    """
    del output
    if self._current_step != step:
      raise ValueError(
        f"step_end was called with {step}, but the step that began is "
        f"{self._current_step}."
      )
    self._current_step = None
    return False

  def post_step(self, step: int, session: Any) -> None:
    """Tells of a step that all monitors know the end of."""


class EveryN(BaseMonitor):
  """A monitor that looks at the first steps, and then at every n-th.

  A class below it has `every_n_step_begin`, `every_n_step_end` or
  `every_n_post_step`. The last step is looked at, too, if it is known.
  """

  def __init__(self, every_n_steps: int = 100, first_n_steps: int = 1):
    """Makes the monitor.

    Args:
      every_n_steps: steps from one look to the next.
      first_n_steps: how many steps to look at in the beginning.
    """
    super().__init__()
    self._every_n_steps = every_n_steps
    self._first_n_steps = first_n_steps
    self._last_successful_step: int | None = None
    self._last_active_step = 0
    self._every_n_step_begin_called = False

  def every_n_step_begin(self, step: int) -> list[Fetch]:
    """Is called before a step that is looked at; returns what to fetch."""
    del step
    return []

  def every_n_step_end(self, step: int, outputs: Mapping[str, Any]) -> bool:
    """Is called after such a step; returns whether training should stop."""
    del step, outputs
    return False

  def every_n_post_step(self, step: int, session: Any) -> None:
    """Is called when all monitors know of the end of such a step."""

  def step_begin(self, step: int) -> list[Fetch]:
    """Asks every_n_step_begin, if the step is looked at."""
    super().step_begin(step)
    self._every_n_step_begin_called = (
      step <= self._first_n_steps
      or step >= self._every_n_steps + self._last_active_step
      or step == self._max_steps
    )
    if not self._every_n_step_begin_called:
      return []
    self._last_active_step = step
    return self.every_n_step_begin(step)

  def step_end(self, step: int, output: Mapping[str, Any]) -> bool:
    """Asks every_n_step_end, if the step is looked at."""
    super().step_end(step, output)
    if self._every_n_step_begin_called:
      return self.every_n_step_end(step, output)
    return False

  def post_step(self, step: int, session: Any) -> None:
    """Calls every_n_post_step, if the step is looked at."""
    super().post_step(step, session)
    if self._every_n_step_begin_called:
      self.every_n_post_step(step, session)
    self._last_successful_step = step

  def end(self, session: Any = None) -> None:
    """Looks at the last step, if it has not been."""
    super().end(session)
    last = self._last_successful_step
    if last is not None and last != self._last_active_step:
      self.every_n_post_step(last, session)


class RunHookAdapterForMonitors(tf.compat.v1.train.SessionRunHook):
  """The hook that tells monitors of each step."""

  def __init__(self, monitors: Sequence[BaseMonitor]):
    """Makes the hook.

    Args:
      monitors: those to tell, in this order.
    """
    self._monitors = monitors

  def begin(self) -> None:
    """Tells the monitors that training begins."""
    self._last_step: int | None = None
    self._global_step = tf.compat.v1.train.get_global_step()
    for monitor in self._monitors:
      monitor.begin(max_steps=None)

  def before_run(self, run_context: Any) -> Any:
    """Asks the monitors what they want to know of this step."""
    if self._last_step is None:
      step = run_context.session.run(self._global_step)
      self._last_step = int(step) + 1
    wanted = [
      fetch
      for monitor in self._monitors
      for fetch in monitor.step_begin(self._last_step) or []
    ]
    graph = run_context.session.graph
    self._wanted = {
      fetch if isinstance(fetch, str) else fetch.name: _element(graph, fetch)
      for fetch in wanted
    }
    return tf.compat.v1.train.SessionRunArgs(
      {"monitors": self._wanted, "step": self._global_step}
    )

  def after_run(self, run_context: Any, run_values: Any) -> None:
    """Tells the monitors what this step gave."""
    found = run_values.results["monitors"]
    step = self._last_step
    assert step is not None
    # All of them, also after one has said to stop.
    votes = [monitor.step_end(step, found) for monitor in self._monitors]
    if any(votes):
      run_context.request_stop()
    for monitor in self._monitors:
      monitor.post_step(step, run_context.session)
    self._last_step = int(run_values.results["step"]) + 1

  def end(self, session: Any) -> None:
    """Tells the monitors that training has ended."""
    self._last_step = None
    for monitor in self._monitors:
      monitor.end(session)


def _element(graph: tf.Graph, fetch: Fetch) -> Any:
  """The tensor or op of a name; tensors may be named without ":0"."""
  if not isinstance(fetch, str):
    return fetch
  return graph.as_graph_element(fetch)


def replace_monitors_with_hooks(
  monitors_or_hooks: Iterable[Any] | None, estimator: Any
) -> list[Any]:
  """Returns hooks in the place of monitors.

  Args:
    monitors_or_hooks: monitors and hooks, mixed.
    estimator: the model that the monitors are told of.

  Returns:
    The hooks as they were, and one hook for those of the monitors that run on
    this task.

  Raises:
    TypeError: if something is neither a monitor nor a hook.
  """
  hooks: list[Any] = []
  monitors: list[BaseMonitor] = []
  for one in monitors_or_hooks or []:
    if isinstance(one, tf.compat.v1.train.SessionRunHook):
      hooks.append(one)
    elif hasattr(one, "set_estimator"):
      monitors.append(one)
    else:
      raise TypeError(f"{one!r} is neither a monitor nor a SessionRunHook.")
  if not estimator.config.is_chief:
    monitors = [one for one in monitors if one.run_on_all_workers]
  for monitor in monitors:
    monitor.set_estimator(estimator)
  if monitors:
    hooks.append(RunHookAdapterForMonitors(monitors))
  return hooks
