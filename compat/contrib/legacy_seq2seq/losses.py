"""Losses of unrolled steps, and models in buckets."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def sequence_loss_by_example(
  logits: Sequence[Any],
  targets: Sequence[Any],
  weights: Sequence[Any],
  average_across_timesteps: bool = True,
  softmax_loss_function: Callable[..., Any] | None = None,
  name: str | None = None,
) -> tf.Tensor:
  """Returns the weighted cross entropy of each sequence.

  Args:
    logits: of each step [batch, ids].
    targets: of each step, int32 [batch].
    weights: of each step [batch].
    average_across_timesteps: whether the sum is divided by that of the weights.
    softmax_loss_function: returns losses [batch] of (labels, logits), by name;
      the sparse cross entropy by default.
    name: of the operations.

  Returns:
    [batch].

  Raises:
    ValueError: if the lists have not the same length.
  """
  if not len(logits) == len(targets) == len(weights):
    raise ValueError(
      f"logits, targets and weights have {len(logits)}, {len(targets)} and "
      f"{len(weights)} steps; they must have the same number."
    )
  function = softmax_loss_function or _cross_entropy
  with tf.compat.v1.name_scope(name, "sequence_loss_by_example"):
    losses = [
      function(labels=target, logits=logit) * weight
      for logit, target, weight in zip(logits, targets, weights, strict=True)
    ]
    loss = tf.add_n(losses)
    if average_across_timesteps:
      # A sequence of no weight at all has the loss 0.
      loss /= tf.add_n(list(weights)) + 1e-12
    return loss


def _cross_entropy(labels: Any, logits: Any) -> Any:
  return tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=tf.reshape(labels, [-1]), logits=logits
  )


def sequence_loss(
  logits: Sequence[Any],
  targets: Sequence[Any],
  weights: Sequence[Any],
  average_across_timesteps: bool = True,
  average_across_batch: bool = True,
  softmax_loss_function: Callable[..., Any] | None = None,
  name: str | None = None,
) -> tf.Tensor:
  """Returns the weighted cross entropy of a batch of sequences.

  Args:
    logits: of each step [batch, ids].
    targets: of each step, int32 [batch].
    weights: of each step [batch].
    average_across_timesteps: of sequence_loss_by_example.
    average_across_batch: whether the sum is divided by the batch's size.
    softmax_loss_function: of sequence_loss_by_example.
    name: of the operations.

  Returns:
    A scalar.

  Raises:
    ValueError: if the lists have not the same length.
  """
  with tf.compat.v1.name_scope(name, "sequence_loss"):
    loss = tf.reduce_sum(
      sequence_loss_by_example(
        logits,
        targets,
        weights,
        average_across_timesteps=average_across_timesteps,
        softmax_loss_function=softmax_loss_function,
      )
    )
    if average_across_batch:
      loss /= tf.cast(tf.shape(targets[0])[0], loss.dtype)
    return loss


def model_with_buckets(
  encoder_inputs: Sequence[Any],
  decoder_inputs: Sequence[Any],
  targets: Sequence[Any],
  weights: Sequence[Any],
  buckets: Sequence[tuple[int, int]],
  seq2seq: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, Any]],
  softmax_loss_function: Callable[..., Any] | None = None,
  per_example_loss: bool = False,
  name: str | None = None,
) -> tuple[list[Any], list[Any]]:
  """Builds a model for each pair of lengths, with the same variables.

  Args:
    encoder_inputs: of each step, as long as the longest bucket.
    decoder_inputs: of each step.
    targets: of each step, int32 [batch].
    weights: of each step [batch].
    buckets: the lengths of (encoder, decoder).
    seq2seq: returns (outputs, states) of (encoder_inputs, decoder_inputs).
    softmax_loss_function: of sequence_loss_by_example.
    per_example_loss: whether a loss is [batch], and no scalar.
    name: of the operations.

  Returns:
    The outputs and the loss of each bucket.

  Raises:
    ValueError: if a list is shorter than the last bucket.
  """
  encoder_steps, decoder_steps = buckets[-1]
  for what, steps, least in (
    ("encoder_inputs", encoder_inputs, encoder_steps),
    ("targets", targets, decoder_steps),
    ("weights", weights, decoder_steps),
  ):
    if len(steps) < least:
      raise ValueError(
        f"{what} has {len(steps)} steps; the last bucket needs {least}."
      )
  loss = sequence_loss_by_example if per_example_loss else sequence_loss
  all_outputs, losses = [], []
  with tf.compat.v1.name_scope(name, "model_with_buckets"):
    for number, (encoder_steps, decoder_steps) in enumerate(buckets):
      with tf.compat.v1.variable_scope(
        tf.compat.v1.get_variable_scope(), reuse=True if number else None
      ):
        outputs, _ = seq2seq(
          encoder_inputs[:encoder_steps], decoder_inputs[:decoder_steps]
        )
        all_outputs.append(outputs)
        losses.append(
          loss(
            outputs,
            targets[:decoder_steps],
            weights[:decoder_steps],
            softmax_loss_function=softmax_loss_function,
          )
        )
  return all_outputs, losses
