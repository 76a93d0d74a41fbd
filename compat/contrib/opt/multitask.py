"""Gradients that are all zero, of a task that a batch has nothing of."""

from collections.abc import Callable, Iterable
from typing import Any

from compat.private.contrib.optimizers import wrap_updates

import tensorflow as tf

v1 = tf.compat.v1


class MultitaskOptimizerWrapper:
  """Keeps variables, and their slots, whose gradient is all zeros.

  Whatever else it is asked for is the optimizer's.
  """

  def __init__(self, opt: Any):
    """Wraps an optimizer.

    Args:
      opt: a tf.compat.v1.train.Optimizer, used through the wrapper only.
    """
    wrap_updates(opt, _unless_zero)
    self._optimizer = opt

  def __getattr__(self, name: str) -> Any:
    if name == "_optimizer":  # While it is being copied.
      raise AttributeError(name)
    return getattr(self._optimizer, name)


def _unless_zero(update: Callable[[], Any], gradient: tf.Tensor) -> Any:
  """Makes an update that is done if the gradient is not all zeros."""
  return v1.cond(
    tf.reduce_all(tf.equal(gradient, 0)), tf.no_op, lambda: tf.group(update())
  )


def clip_gradients_by_global_norm(
  gradients_variables: Iterable[tuple[Any, Any]], clip_norm: Any = 20.0
) -> tuple[list[tuple[Any, Any]], tf.Tensor]:
  """Scales gradients down to a norm of all of them.

  Args:
    gradients_variables: pairs, as compute_gradients returns them.
    clip_norm: the highest norm.

  Returns:
    The pairs, and the norm before.
  """
  gradients, variables = zip(*gradients_variables, strict=True)
  clipped, norm = tf.clip_by_global_norm(gradients, clip_norm)
  return list(zip(clipped, variables, strict=True)), norm
