"""TracedSteps: the RunMetadata of some steps of a session."""

from collections.abc import Callable, Iterable

import tensorflow as tf


class TracedSteps(tf.estimator.SessionRunHook):
  """Asks some steps for their RunMetadata, and hands it on.

  A traced step is slower than others, and the first step of a session is no
  example of them.
  """

  def __init__(
    self,
    steps: Iterable[int],
    record: Callable[[int, tf.compat.v1.RunMetadata], None],
  ):
    """Makes a hook.

    Args:
      steps: Global steps, from 1 on: step n is the one that makes global_step
        n.
      record: Takes each of these steps, and its step_stats and
        partition_graphs.

    Raises:
      ValueError: If a step is below 1.
    """
    self._steps = frozenset(steps)
    for step in self._steps:
      if step < 1:
        raise ValueError(f"trace step {step} is too small; use 1 or more")
    self._record = record
    self._next_step = 1

  def begin(self) -> None:
    """Finds the global step."""
    self._global_step = tf.compat.v1.train.get_global_step()

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator
  ) -> None:
    """Reads the step that the session starts from."""
    self._next_step = int(session.run(self._global_step)) + 1

  def before_run(
    self, run_context: tf.estimator.SessionRunContext
  ) -> tf.estimator.SessionRunArgs | None:
    """Asks a step of interest for its trace."""
    if self._next_step not in self._steps:
      return None
    run_options = tf.compat.v1.RunOptions
    options = run_options(
      trace_level=run_options.FULL_TRACE, output_partition_graphs=True
    )
    return tf.estimator.SessionRunArgs(fetches=None, options=options)

  def after_run(
    self,
    run_context: tf.estimator.SessionRunContext,
    run_values: tf.estimator.SessionRunValues,
  ) -> None:
    """Hands on the trace of a step of interest."""
    if self._next_step in self._steps:
      self._record(self._next_step, run_values.run_metadata)
    if self._next_step < max(self._steps, default=0):
      # Asked after the step: within it, the value is the old or the new one.
      step = run_context.session.run(self._global_step)
      self._next_step = int(step) + 1
    elif self._next_step in self._steps:
      self._next_step += 1
