"""The loss of sequences of logits."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def sequence_loss(
  logits: Any,
  targets: Any,
  weights: Any,
  average_across_timesteps: bool = True,
  average_across_batch: bool = True,
  sum_over_timesteps: bool = False,
  sum_over_batch: bool = False,
  softmax_loss_function: Callable[..., Any] | None = None,
  name: str | None = None,
) -> tf.Tensor:
  """Returns the weighted cross entropy of sequences.

  Averages are by the sum of the weights; sums are divided by the number of
  weights that are not 0. An axis that is neither averaged nor summed stays.

  Args:
    logits: [batch, time, ids].
    targets: integers [batch, time].
    weights: [batch, time].
    average_across_timesteps: whether to average over time.
    average_across_batch: whether to average over the batch.
    sum_over_timesteps: whether to sum over time.
    sum_over_batch: whether to sum over the batch.
    softmax_loss_function: returns losses [batch * time] of (labels, logits), by
      name; the sparse cross entropy by default.
    name: of the operations.

  Returns:
    A scalar, or [batch], [time] or [batch, time].

  Raises:
    ValueError: if a shape is another one, or an axis is to be averaged and
      summed.
  """
  _check_rank("logits", logits, 3, "[batch, time, ids]")
  _check_rank("targets", targets, 2, "[batch, time]")
  _check_rank("weights", weights, 2, "[batch, time]")
  if average_across_timesteps and sum_over_timesteps:
    raise ValueError(
      "average_across_timesteps and sum_over_timesteps are both True; only one "
      "may be."
    )
  if average_across_batch and sum_over_batch:
    raise ValueError(
      "average_across_batch and sum_over_batch are both True; only one may be."
    )
  averages = (average_across_batch, average_across_timesteps)
  sums = (sum_over_batch, sum_over_timesteps)
  with tf.compat.v1.name_scope(
    name, "sequence_loss", [logits, targets, weights]
  ):
    losses = _losses(logits, targets, weights, softmax_loss_function)
    if all(averages):
      return tf.math.divide_no_nan(
        tf.reduce_sum(losses), tf.reduce_sum(weights)
      )
    if all(sums):
      count = tf.math.count_nonzero(weights, dtype=losses.dtype)
      return tf.math.divide_no_nan(tf.reduce_sum(losses), count)
    losses = tf.reshape(losses, tf.shape(logits)[:2])
    if any(averages):
      axis = averages.index(True)
      return tf.math.divide_no_nan(
        tf.reduce_sum(losses, axis), tf.reduce_sum(weights, axis)
      )
    if any(sums):
      axis = sums.index(True)
      count = tf.math.count_nonzero(weights, axis, dtype=losses.dtype)
      return tf.math.divide_no_nan(tf.reduce_sum(losses, axis), count)
    return losses


def _check_rank(name: str, value: Any, rank: int, shape: str) -> None:
  if value.shape.rank != rank:
    raise ValueError(f"{name} has the shape {value.shape}; it must be {shape}.")


def _losses(logits: Any, targets: Any, weights: Any, function: Any) -> Any:
  """Returns the weighted losses of all steps [batch * time]."""
  flat_logits = tf.reshape(logits, [-1, tf.shape(logits)[2]])
  flat_targets = tf.reshape(targets, [-1])
  if function is None:
    function = tf.nn.sparse_softmax_cross_entropy_with_logits
  losses = function(labels=flat_targets, logits=flat_logits)
  return losses * tf.reshape(weights, [-1])
