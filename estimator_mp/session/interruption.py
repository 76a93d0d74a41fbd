"""SIGTERM, and Ctrl-C in commands, end training in order, with a checkpoint.

The first signal asks training to stop after the step that is running, so that
a checkpoint can be saved. The second one ends the process at once.

Python runs signal handlers between two bytecodes, which may be a whole step
away. So the signals are read from a wake-up file descriptor by a thread of
their own, which works while TensorFlow computes.
"""

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from estimator_mp.cluster import arrivals
from estimator_mp.cluster.run_log import LOG

import tensorflow as tf

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class TrainingInterrupted(SystemExit):
  """Training ended before its last step, after a checkpoint was saved.

  A program that does not catch it exits with the code.

  Attributes:
    code: The exit code of the process: 130 for SIGINT (Ctrl-C), 143 for
      SIGTERM.
  """

  def __init__(self, number: int):
    """Makes the exception.

    Args:
      number: The number of the signal.
    """
    super().__init__(f"interrupted by {signal.Signals(number).name}")
    self.code = 128 + number


class Interruption(tf.estimator.SessionRunHook):
  """Handles signals while it is entered as a context manager.

  Enter it in the main thread. The handlers that were there before are put back
  on every exit. It is a hook of training; evaluation and saving have hooks of
  their own, `LeaveEvaluation` and `LeaveAfterSaving`.
  """

  def __init__(self, signals: Sequence[signal.Signals] = _SIGNALS):
    """Makes the context manager.

    Args:
      signals: Those that ask to stop.
    """
    self._signals = signals
    self._number: int | None = None
    self._stack = contextlib.ExitStack()

  @property
  def requested(self) -> bool:
    """Whether a signal has asked to stop."""
    return self._number is not None

  def raise_if_requested(self) -> None:
    """Raises `TrainingInterrupted` if a signal has asked to stop."""
    if self._number is not None:
      raise TrainingInterrupted(self._number)

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
        if self.requested:
          with contextlib.suppress(OSError):
            sys.stdout.flush()
          os._exit(128 + number)
        self._number = number
        LOG.warning(
          "%s: stopping after this step and saving a checkpoint; a second "
          "signal (Ctrl-C) stops at once, without a checkpoint",
          signal.Signals(number).name,
        )


@contextlib.contextmanager
def instead_of_the_end() -> Iterator[Interruption]:
  """Lets signals end training in order, where they would end the process.

  A signal that the program handles itself stays its own, as Ctrl-C does in a
  Python program. Nor is one handled if training is not in the main thread.

  Yields:
    The interruption, which is asked to stop.

  Raises:
    TrainingInterrupted: At the end, if there was a signal.
  """
  is_main = threading.current_thread() is threading.main_thread()
  ending = [x for x in _SIGNALS if signal.getsignal(x) == signal.SIG_DFL]
  interruption = Interruption(ending)
  with interruption if ending and is_main else contextlib.nullcontext():
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
