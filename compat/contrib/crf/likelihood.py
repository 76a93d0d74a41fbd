"""The likelihood of tags."""

from typing import Any

from compat.contrib.crf import scores

import tensorflow as tf


def crf_log_likelihood(
  inputs: Any,
  tag_indices: Any,
  sequence_lengths: Any,
  transition_params: Any = None,
) -> tuple[tf.Tensor, Any]:
  """Returns the log-likelihood of each sequence of tags.

  Args:
    inputs: scores of the tags [batch, time, tags]; the number of tags is known.
    tag_indices: the sequences of tags [batch, time].
    sequence_lengths: [batch].
    transition_params: scores [tag before, tag now]; by default a new variable
      "transitions".

  Returns:
    The log-likelihoods [batch], and transition_params.
  """
  inputs = tf.convert_to_tensor(inputs)
  num_tags = inputs.shape[2]
  if transition_params is None:
    transition_params = tf.compat.v1.get_variable(
      "transitions", [num_tags, num_tags]
    )
  score = scores.crf_sequence_score(
    inputs, tag_indices, sequence_lengths, transition_params
  )
  norm = scores.crf_log_norm(inputs, sequence_lengths, transition_params)
  return score - norm, transition_params
