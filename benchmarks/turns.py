"""Sides that are measured in turns: what disturbs one disturbs all alike."""

import statistics
import threading
import time

from benchmarks import figures

import tensorflow as tf


def in_turns(measures, rounds):
  """Returns what each of several functions returned, round by round.

  Args:
    measures: Functions without arguments; each is called once in a round.
    rounds: How many rounds.

  Returns:
    For each function a list with an entry for each round.
  """
  found = [[measure() for measure in measures] for _ in range(rounds)]
  return [[*results] for results in zip(*found, strict=True)]


def print_ratio(name, firsts, seconds, **bound):
  """Prints the median ratio of two sides, and how far ratios reach.

  Args:
    name: What is compared.
    firsts: What the one side had in each round.
    seconds: What the other side had in it.
    **bound: What a `figures.Figure` has of its bound.

  Returns:
    The ratios, as a `figures.Figure`.
  """
  found = figures.ratio(name.strip(), firsts, seconds, **bound)
  print(
    f"{name}: ratio {found.value:.3f} (from {min(found.rounds):.3f} to "
    f"{max(found.rounds):.3f}); medians {statistics.median(firsts):.4g} and "
    f"{statistics.median(seconds):.4g}"
  )
  return found


class PausedTraining:
  """The training of an Estimator, which goes on only when it is asked to.

  It has a thread of its own. So several can take turns in one process, and need
  not begin anew each time.

  Attributes:
    losses: The loss of each step so far.
  """

  def __init__(self, estimator, input_fn, hooks=()):
    """Builds the graph and makes the session, but runs no step.

    Args:
      estimator: An Estimator.
      input_fn: Its input, which does not end.
      hooks: Further hooks.
    """
    self.losses = []
    self._seconds = []
    self._steps = 0
    self._last = 0.0
    self._error = None
    self._asked = threading.Semaphore(0)
    self._answered = threading.Semaphore(0)
    self._thread = threading.Thread(
      target=self._train,
      args=(estimator, input_fn, [_PausingHook(self), *hooks]),
      daemon=True,
    )
    self._thread.start()
    self._wait_for_answer()

  def _train(self, estimator, input_fn, hooks):
    try:
      estimator.train(input_fn, hooks=hooks)
    except BaseException as error:  # The thread that asks raises it.
      self._error = error
    self._answered.release()

  def _wait_for_answer(self):
    self._answered.acquire()
    if self._error is not None:
      raise self._error

  def run(self, steps):
    """Trains, and returns the seconds of each step, with all that hooks do.

    Args:
      steps: How many steps.
    """
    self._seconds = []
    self._steps = steps
    self._asked.release()
    self._wait_for_answer()
    return self._seconds

  def stop(self):
    """Ends the training."""
    self._steps = 0
    self._asked.release()
    self._thread.join()

  def begin_step(self):
    """Waits until a step is asked for; returns whether one is."""
    if len(self._seconds) == self._steps:
      self._answered.release()
      self._asked.acquire()
      self._last = time.perf_counter()
    return self._steps > 0

  def end_step(self, loss):
    """Takes the time, which is that since the step before.

    Args:
      loss: The loss of the step.
    """
    now = time.perf_counter()
    self._seconds.append(now - self._last)
    self._last = now
    self.losses.append(float(loss))


class _PausingHook(tf.estimator.SessionRunHook):
  """Lets a `PausedTraining` wait before each step."""

  def __init__(self, training):
    self._training = training

  def begin(self):
    # Estimator's own summary of the loss, with whatever strategy.
    summaries = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SUMMARIES)
    self._loss = next(x.op.inputs[1] for x in summaries if x.op.name == "loss")

  def before_run(self, run_context):
    if not self._training.begin_step():
      run_context.request_stop()  # After one more step.
    return tf.estimator.SessionRunArgs(self._loss)

  def after_run(self, run_context, run_values):
    self._training.end_step(run_values.results)
