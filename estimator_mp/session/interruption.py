"""Ctrl-C, SIGTERM, a closed output: end training in order, with a checkpoint.

The first signal asks training to stop after the step that is running, so that
a checkpoint can be saved. The second one ends the process at once.

Python runs signal handlers between two bytecodes, which may be a whole step
away. So the signals are read from a wake-up file descriptor by a thread of
their own, which works while TensorFlow computes.
"""

import contextlib
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from estimator_mp.cluster import arrivals

import tensorflow as tf

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger("tensorflow")


class TrainingInterrupted(SystemExit):
  """Training ended before its last step, after a checkpoint was saved.

  A program that does not catch it exits with the code.

  Attributes:
    exit_code: The exit code of the process: 130 for SIGINT (Ctrl-C), 143
      for SIGTERM.
    is_unheard: Whether standard output was closed by then.
  """

  def __init__(self, reason: str, exit_code: int):
    """Makes the exception.

    Args:
      reason: Why it ended, in a few words.
      exit_code: The exit code of the process.
    """
    super().__init__(reason)
    self.code = exit_code
    self.exit_code = exit_code
    self.is_unheard = False


class Interruption(tf.estimator.SessionRunHook):
  """Handles SIGINT and SIGTERM while it is entered as a context manager.

  Enter it in the main thread. The handlers that were there before are put back
  on every exit. It is a hook of training; evaluation and saving have hooks of
  their own, `LeaveEvaluation` and `LeaveAfterSaving`.
  """

  def __init__(
    self,
    announce: Callable[[str], None] = print,
    signals: Sequence[signal.Signals] = _SIGNALS,
  ):
    """Makes the context manager.

    Args:
      announce: Shows a line to the user; called from another thread.
      signals: Those that ask to stop.
    """
    self._announce = announce
    self._signals = signals
    self._reason: TrainingInterrupted | None = None
    self._has_signal = False
    self._stack = contextlib.ExitStack()

  @property
  def requested(self) -> bool:
    """Whether a signal, or `stop`, has asked to stop."""
    return self._reason is not None

  def stop(self, reason: TrainingInterrupted) -> None:
    """Asks to stop, as a signal does; the first one to ask gives the reason.

    Args:
      reason: The exception that training is to raise.
    """
    if self._reason is None:
      self._reason = reason

  def raise_if_requested(self) -> None:
    """Raises the reason if something has asked to stop."""
    if self._reason is not None:
      raise self._reason

  def after_run(
    self,
    run_context: tf.estimator.SessionRunContext,
    run_values: tf.estimator.SessionRunValues,
  ) -> None:
    """Ends training after the step that was running."""
    if self.requested:
      run_context.request_stop()

  def __enter__(self) -> "Interruption":
    file = self._stack.enter_context(arrivals.arriving(self._signals))
    self._thread = threading.Thread(
      target=self._watch, args=(file,), daemon=True
    )
    self._thread.start()
    return self

  def __exit__(self, *exception: object) -> None:
    self._stack.close()
    self._thread.join()

  def _watch(self, file: io.FileIO) -> None:
    """Reads a byte per signal until the file ends, and closes it."""
    with file:
      while received := file.read(1):
        number = received[0]
        if number not in self._signals:
          continue
        name, exit_code = signal.Signals(number).name, 128 + number
        if self._has_signal:
          with contextlib.suppress(OSError):
            sys.stdout.flush()
          os._exit(exit_code)
        self._has_signal = True
        self.stop(TrainingInterrupted(f"interrupted by {name}", exit_code))
        self._announce(
          f"{name}: stopping after this step and saving a checkpoint; a second"
          " signal (Ctrl-C) stops at once, without a checkpoint"
        )


@contextlib.contextmanager
def on_sigterm() -> Iterator[Interruption]:
  """Lets SIGTERM end training in order, where it would end the process.

  A program that handles SIGTERM itself goes on to do so; nor is it handled if
  training is not in the main thread.

  Yields:
    The interruption, which is asked to stop.

  Raises:
    TrainingInterrupted: At the end, if there was a SIGTERM.
  """
  interruption = Interruption(_log.warning, [signal.SIGTERM])
  ends_the_process = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
  is_main = threading.current_thread() is threading.main_thread()
  with contextlib.ExitStack() as stack:
    if ends_the_process and is_main:
      stack.enter_context(interruption)
    yield interruption
  interruption.raise_if_requested()


class LeaveEvaluation(tf.estimator.SessionRunHook):
  """A hook of an evaluation, which it leaves unfinished."""

  def __init__(self, interruption: Interruption):
    self._interruption = interruption

  def before_run(self, run_context: tf.estimator.SessionRunContext) -> None:
    """Leaves the evaluation if something has asked to stop."""
    self._interruption.raise_if_requested()


class LeaveAfterSaving(tf.compat.v1.train.CheckpointSaverListener):
  """Leaves training once a checkpoint is saved.

  `tf.estimator.train_and_evaluate` would evaluate then.
  """

  def __init__(self, interruption: Interruption):
    self._interruption = interruption

  def after_save(
    self, session: tf.compat.v1.Session, global_step_value: int
  ) -> None:
    """Leaves training if something has asked to stop."""
    self._interruption.raise_if_requested()

  end = after_save
