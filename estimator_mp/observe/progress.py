"""ProgressHook: a training run as lines, or as a bar on a terminal."""

import contextlib
import datetime
import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from estimator_mp.cluster import run_log
from estimator_mp.planning import sharding_plan

import tensorflow as tf

if TYPE_CHECKING:
  import tqdm

# The first steps of a session also optimise the graph and fill the input
# pipeline; they say nothing about the speed of the others.
_WARM_UP_STEPS = 2
_BAR_REFRESH_SECONDS = 0.1
_BAR_FORMAT = "{percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} steps{postfix}"


class ProgressHook(tf.estimator.SessionRunHook):
  """Shows placement, steps, loss, steps/s and time left; measures the speed.

  On a terminal it is a bar, for which tqdm is needed, and the logs of
  TensorFlow and of the cluster are written above it. Elsewhere it is a line
  each `log_every` steps. The loss is fetched only in steps that show it.

  The time of a step is the time of its `Session.run`. Give the hook before a
  `CheckpointSaverHook` of your own: the time that saving and evaluating take
  is then not counted.

  If the stream cannot be written to, as when the reader of a pipe has ended,
  training ends in order after the step, with a checkpoint.

  Attributes:
    step: The global step after the last step that ran.
    error: The error that writing has raised; None if there was none.
  """

  def __init__(
    self, train_steps: int, log_every: int = 100, stream: TextIO | None = None
  ):
    """Makes the hook.

    Args:
      train_steps: The global step at which training ends.
      log_every: Steps between two lines where `stream` is no terminal.
      stream: Where to show progress; standard output by default.

    Raises:
      ValueError: If the stream is a terminal, and tqdm is not installed.
    """
    self._train_steps = train_steps
    self._log_every = log_every
    self._stream = stream or sys.stdout
    self._bar: tqdm.tqdm | None = None
    self._around_bar = contextlib.ExitStack()
    self._loss: tf.Tensor | None = None
    self._global_step: tf.Tensor | None = None
    self._first_step = 0
    self.step = 0
    self.error: OSError | None = None
    self._seconds = 0.0
    self._started = 0.0
    self._shown = -math.inf
    self._shows_this_step = False
    if self._stream.isatty() and importlib.util.find_spec("tqdm") is None:
      raise ValueError(
        "a bar of progress needs tqdm; pip install 'estimator-mp[train]', or "
        "send the output through a pipe, such as | cat"
      )

  @property
  def steps_per_second(self) -> float | None:
    """The speed of this session's steps; None before its third step.

    The first two steps are left out, as is the time between steps, in which
    checkpoints are saved and evaluated.
    """
    steps = self.step - self._first_step - _WARM_UP_STEPS
    return steps / self._seconds if steps > 0 and self._seconds else None

  def write(self, text: str) -> None:
    """Writes a line above the bar, or after the lines so far.

    Args:
      text: The line, without its end.
    """
    with self._writing():
      if self._bar is not None:
        self._bar.write(text, file=self._stream)
      else:
        print(text, file=self._stream)
      self._stream.flush()

  def close(self) -> None:
    """Ends the bar, if there is one; `end` does so after complete training."""
    bar, self._bar = self._bar, None
    self._around_bar.close()
    if bar is not None:
      with self._writing():
        bar.close()

  @contextlib.contextmanager
  def _writing(self) -> Iterator[None]:
    """Keeps the error if the stream cannot be written to."""
    try:
      yield
    except OSError as error:
      self.error = error
      with contextlib.suppress(OSError, ValueError):
        # Later writes, also when the process ends, go to the null device.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

  def begin(self) -> None:
    """Shows the placement of a sharded model, and finds its loss.

    Estimator puts the loss into the collection of losses.
    """
    graph = tf.compat.v1.get_default_graph()
    if sharding_plan.get_plan(graph) is not None:
      self.write(f"\n{sharding_plan.get_placement(graph).table()}\n")
    losses = tf.compat.v1.losses.get_losses()
    self._loss = losses[-1] if losses else None
    self._global_step = tf.compat.v1.train.get_global_step()

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator
  ) -> None:
    """Reads the step that the session starts from."""
    self._first_step = self.step = int(session.run(self._global_step))
    self._seconds = 0.0
    self._shown = -math.inf
    if self._stream.isatty():
      import tqdm
      from tqdm.contrib import logging as tqdm_logging

      self.close()
      logs = [x for x in (tf.get_logger(), run_log.LOG) if x.handlers]
      self._around_bar.enter_context(tqdm_logging.logging_redirect_tqdm(logs))
      with self._writing():
        self._bar = tqdm.tqdm(
          total=self._train_steps,
          initial=self.step,
          file=self._stream,
          bar_format=_BAR_FORMAT,
          dynamic_ncols=True,
        )

  def before_run(
    self, run_context: tf.estimator.SessionRunContext
  ) -> tf.estimator.SessionRunArgs:
    """Starts the clock, and asks for the loss if this step shows it."""
    self._started = time.monotonic()
    self._shows_this_step = self._shows(self.step + 1)
    fetches = self._loss if self._shows_this_step else None
    return tf.estimator.SessionRunArgs(fetches)

  def after_run(
    self,
    run_context: tf.estimator.SessionRunContext,
    run_values: tf.estimator.SessionRunValues,
  ) -> None:
    """Stops the clock, and shows the step if it is time to."""
    seconds = time.monotonic() - self._started
    self.step += 1
    if self.step > self._first_step + _WARM_UP_STEPS:
      self._seconds += seconds
    if self._shows_this_step:
      self._shown = self._started
      self._show(run_values.results)
    if self.error is not None:
      run_context.request_stop()

  def end(self, session: tf.compat.v1.Session) -> None:
    """Ends the bar."""
    self.close()

  def _shows(self, step: int) -> bool:
    if step in (self._first_step + 1, self._train_steps):
      return True
    if self._bar is not None:
      return self._started - self._shown >= _BAR_REFRESH_SECONDS
    return step % self._log_every == 0

  def _show(self, loss: float | None) -> None:
    facts = []
    if loss is not None:
      facts.append(f"loss {loss:.4f}")
    speed = self.steps_per_second
    if speed:
      left = math.ceil((self._train_steps - self.step) / speed)
      facts += [f"{speed:.1f} steps/s", f"{datetime.timedelta(0, left)} left"]
    if self._bar is not None:
      self._bar.n = self.step
      with self._writing():
        self._bar.set_postfix_str(", ".join(facts))
    else:
      self.write(", ".join([f"step {self.step}/{self._train_steps}", *facts]))


def _all_metrics(metrics: Mapping[str, Any]) -> str:
  """Returns the values of an evaluation in a line."""
  return ", ".join(
    f"{name} {value:.4f}"
    for name, value in sorted(metrics.items())
    if name != tf.compat.v1.GraphKeys.GLOBAL_STEP
  )


class EvaluationReport(tf.estimator.Exporter):
  """Shows each evaluation among the lines of a `ProgressHook`.

  It is one of an `EvalSpec`'s exporters, which are told of each evaluation, and
  exports nothing.
  """

  name = "evaluation_report"

  def __init__(
    self,
    progress: ProgressHook,
    summary: Callable[[Mapping[str, Any]], str] = _all_metrics,
  ):
    """Makes an exporter.

    Args:
      progress: The hook of the training.
      summary: Returns the metrics of an evaluation as text; by default all.
    """
    self._progress = progress
    self._summary = summary

  def export(
    self,
    estimator: tf.estimator.Estimator,
    export_path: str,
    checkpoint_path: str,
    eval_result: Mapping[str, Any],
    is_the_final_export: bool,
  ) -> None:
    """Shows an evaluation."""
    self._progress.write(
      f"evaluation at step {eval_result['global_step']}:"
      f" {self._summary(eval_result)}"
    )
