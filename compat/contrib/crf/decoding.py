"""The best tags: Viterbi's algorithm, in a graph and in numpy."""

from typing import Any

from compat.contrib.crf.cells import (
  CrfDecodeBackwardRnnCell,
  CrfDecodeForwardRnnCell,
  after_the_first,
)

import numpy as np
import tensorflow as tf


def crf_decode(
  potentials: Any, transition_params: Any, sequence_length: Any
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the best tags of each sequence.

  Args:
    potentials: scores of the tags [batch, time, tags].
    transition_params: scores [tag before, tag now].
    sequence_length: [batch].

  Returns:
    The tags, int32 [batch, time], 0 behind a sequence's end, and their scores
    [batch].
  """
  potentials = tf.convert_to_tensor(potentials)
  lengths = tf.convert_to_tensor(sequence_length)
  steps = tf.maximum(lengths - 1, 0)
  dynamic_rnn = tf.compat.v1.nn.dynamic_rnn
  before, last_scores = dynamic_rnn(
    CrfDecodeForwardRnnCell(transition_params),
    after_the_first(potentials),
    sequence_length=steps,
    initial_state=potentials[:, 0],
    time_major=False,
    dtype=tf.int32,
  )
  last = tf.argmax(last_scores, 1, output_type=tf.int32)[:, tf.newaxis]
  earlier, _ = dynamic_rnn(
    CrfDecodeBackwardRnnCell(potentials.shape[2]),
    tf.reverse_sequence(before, steps, seq_axis=1),
    sequence_length=steps,
    initial_state=last,
    dtype=tf.int32,
  )
  backwards = tf.concat([last, tf.squeeze(earlier[:, :-1], [2])], 1)
  tags = tf.reverse_sequence(backwards, lengths, seq_axis=1)
  return tags, tf.reduce_max(last_scores, 1)


def viterbi_decode(
  score: np.ndarray, transition_params: np.ndarray
) -> tuple[list[int], Any]:
  """Returns the best tags of one sequence, outside of TensorFlow.

  Args:
    score: scores of the tags [time, tags].
    transition_params: scores [tag before, tag now].

  Returns:
    The tags, and their score.
  """
  best = score[0]
  before = []
  for now in score[1:]:
    scores = best[:, np.newaxis] + transition_params
    before.append(np.argmax(scores, 0))
    best = now + np.max(scores, 0)
  tags = [int(np.argmax(best))]
  for earlier in reversed(before):
    tags.append(int(earlier[tags[-1]]))
  return tags[::-1], np.max(best)
