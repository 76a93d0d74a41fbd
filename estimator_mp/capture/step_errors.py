"""Errors of steps: inputs with other numbers of examples.

The checks are ops of the graph (`batch_size`, `static_batch`). TensorFlow wraps
their text into lines of its own; here it becomes the whole error.
"""

import weakref
from collections.abc import Callable
from typing import Any

from estimator_mp.capture import batch_size, static_batch

import tensorflow as tf


def with_explained_steps(
  spec: tf.estimator.EstimatorSpec,
) -> tf.estimator.EstimatorSpec:
  """Returns a spec whose steps say in one line which sizes differ.

  Args:
    spec: The spec that a model_fn would return.
  """
  hook = _ExplainingHook(
    lambda message: (
      batch_size.message_of_check(message)
      or static_batch.message_of_check(message)
    )
  )
  return spec._replace(
    training_hooks=(*spec.training_hooks, hook),
    evaluation_hooks=(*spec.evaluation_hooks, hook),
    prediction_hooks=(*spec.prediction_hooks, hook),
  )


class _ExplainingHook(tf.estimator.SessionRunHook):
  """Explains errors of a session's steps.

  No method of a hook hears of errors, so each session gets a `run` of its own.
  """

  def __init__(self, explain: Callable[[str], str | None]):
    """Starts before a session is made; TensorFlow warns of hooks without this.

    Args:
      explain: Returns a one-line text for that of an error, or None.
    """
    self._explain = explain

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator | None
  ) -> None:
    """Explains the errors of a new session."""
    del coord
    run, explain = type(session).run, self._explain
    # A session that held itself would hold its variables' memory for longer.
    reference = weakref.ref(session)

    def explained_run(*args: Any, **kwargs: Any) -> Any:
      try:
        return run(reference(), *args, **kwargs)
      except tf.errors.InvalidArgumentError as error:
        text = explain(error.message)
        if text is None:
          raise
        raise tf.errors.InvalidArgumentError(
          error.node_def, None, text
        ) from error

    session.run = explained_run
