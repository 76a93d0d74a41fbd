"""Scores of given tags, and of all, by the forward algorithm."""

from typing import Any

from compat.contrib.crf.cells import CrfForwardRnnCell, after_the_first

import tensorflow as tf


def crf_sequence_score(
  inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any
) -> tf.Tensor:
  """Returns the score of each sequence of tags, before normalization.

  Args:
    inputs: scores of the tags [batch, time, tags].
    tag_indices: the sequences of tags [batch, time].
    sequence_lengths: [batch].
    transition_params: scores [tag before, tag now].

  Returns:
    [batch]; 0 for a sequence of length 0.
  """
  return crf_unary_score(
    tag_indices, sequence_lengths, inputs
  ) + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_multitag_sequence_score(
  inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any
) -> tf.Tensor:
  """Returns the log of the summed scores of all sequences of allowed tags.

  Args:
    inputs: scores of the tags [batch, time, tags].
    tag_bitmap: bool [batch, time, tags]: whether a tag is allowed.
    sequence_lengths: [batch].
    transition_params: scores [tag before, tag now].

  Returns:
    [batch].
  """
  inputs = tf.convert_to_tensor(inputs)
  never = tf.fill(tf.shape(inputs), tf.cast(float("-inf"), inputs.dtype))
  allowed = tf.where(tf.cast(tag_bitmap, tf.bool), inputs, never)
  return crf_log_norm(allowed, sequence_lengths, transition_params)


def crf_unary_score(
  tag_indices: Any, sequence_lengths: Any, inputs: Any
) -> tf.Tensor:
  """Returns the sum of each sequence's scores of tags.

  Args:
    tag_indices: the sequences of tags [batch, time].
    sequence_lengths: [batch].
    inputs: scores of the tags [batch, time, tags].

  Returns:
    [batch].
  """
  inputs = tf.convert_to_tensor(inputs)
  tags, within = _tags(tag_indices, sequence_lengths)
  scores = tf.gather(inputs, tags, batch_dims=2)
  return tf.reduce_sum(scores * tf.cast(within, inputs.dtype), 1)


def crf_binary_score(
  tag_indices: Any, sequence_lengths: Any, transition_params: Any
) -> tf.Tensor:
  """Returns the sum of each sequence's scores of transitions.

  Args:
    tag_indices: the sequences of tags [batch, time].
    sequence_lengths: [batch].
    transition_params: scores [tag before, tag now].

  Returns:
    [batch].
  """
  transitions = tf.convert_to_tensor(transition_params)
  tags, within = _tags(tag_indices, sequence_lengths)
  pairs = tf.stack([tags[:, :-1], tags[:, 1:]], axis=2)
  scores = tf.gather_nd(transitions, pairs)
  return tf.reduce_sum(scores * tf.cast(within[:, 1:], transitions.dtype), 1)


def crf_log_norm(
  inputs: Any, sequence_lengths: Any, transition_params: Any
) -> tf.Tensor:
  """Returns the log of the summed scores of all sequences of tags.

  Args:
    inputs: scores of the tags [batch, time, tags].
    sequence_lengths: [batch].
    transition_params: scores [tag before, tag now].

  Returns:
    [batch]; 0 for a sequence of length 0.
  """
  inputs = tf.convert_to_tensor(inputs)
  lengths = tf.convert_to_tensor(sequence_lengths)
  _, alphas = tf.compat.v1.nn.dynamic_rnn(
    CrfForwardRnnCell(transition_params),
    after_the_first(inputs),
    sequence_length=tf.maximum(lengths - 1, 0),
    initial_state=inputs[:, 0],
    dtype=inputs.dtype,
  )
  norm = tf.reduce_logsumexp(alphas, 1)
  return tf.where(lengths <= 0, tf.zeros_like(norm), norm)


def _tags(
  tag_indices: Any, sequence_lengths: Any
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the tags, 0 behind a sequence's end, and where they are within."""
  tags = tf.convert_to_tensor(tag_indices)
  within = tf.sequence_mask(sequence_lengths, tf.shape(tags)[1])
  return tf.where(within, tags, tf.zeros_like(tags)), within
