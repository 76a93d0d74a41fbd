"""One step of beam search, on tensors.

Wu et al., "Google's Neural Machine Translation System", 2016, for the
penalties.
"""

import collections
import dataclasses
from typing import Any

from compat.contrib.seq2seq.attention_wrapper import AttentionWrapperState

import tensorflow as tf


class BeamSearchDecoderState(
  collections.namedtuple(
    "BeamSearchDecoderState",
    (
      "cell_state",
      "log_probs",
      "finished",
      "lengths",
      "accumulated_attention_probs",
    ),
  )
):
  """The beams between two steps.

  Attributes:
    cell_state: of the cell [batch, beam, ...].
    log_probs: of the hypotheses [batch, beam].
    finished: whether they have ended, bool [batch, beam].
    lengths: of the hypotheses, int64 [batch, beam].
    accumulated_attention_probs: how much each element of the memory was read
      [batch, beam, memory]; () without a coverage penalty.
  """


class BeamSearchDecoderOutput(
  collections.namedtuple(
    "BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids")
  )
):
  """The result of a step.

  Attributes:
    scores: of the hypotheses [batch, beam].
    predicted_ids: their last ids, int32 [batch, beam].
    parent_ids: of which beam each one goes on, int32 [batch, beam].
  """


@dataclasses.dataclass(frozen=True)
class Search:
  """The values that stay the same in all steps.

  Attributes:
    beam_width: how many hypotheses are kept.
    end_token: int32, a scalar: ends one.
    length_penalty_weight: 0.0 for no penalty.
    coverage_penalty_weight: 0.0 for no penalty.
  """

  beam_width: int
  end_token: Any
  length_penalty_weight: Any
  coverage_penalty_weight: Any


def beam_search_step(
  search: Search, logits: Any, cell_state: Any, before: BeamSearchDecoderState
) -> tuple[BeamSearchDecoderOutput, BeamSearchDecoderState]:
  """Goes on with the best hypotheses.

  Args:
    search: the search.
    logits: [batch, beam, ids].
    cell_state: after the step [batch, beam, ...].
    before: the beams before it.

  Returns:
    The output, and the beams after the step.
  """
  goes_on = tf.logical_not(before.finished)
  log_probs = before.log_probs[:, :, tf.newaxis] + _log_probs(
    logits, search.end_token, before.finished
  )
  ids = logits.shape[-1] or tf.shape(logits)[-1]
  adds_one = tf.one_hot(search.end_token, ids, 0, 1, dtype=tf.int64)
  lengths = before.lengths[:, :, tf.newaxis] + adds_one * tf.cast(
    goes_on[:, :, tf.newaxis], tf.int64
  )
  read = attention_probs(cell_state, search.coverage_penalty_weight)
  if read is not None:
    read *= tf.cast(goes_on[:, :, tf.newaxis], tf.float32)
    read += before.accumulated_attention_probs
  scores = _scores(search, log_probs, lengths, before.finished, read)

  batch = tf.shape(logits)[0]
  best, places = tf.math.top_k(
    tf.reshape(scores, [batch, -1]), search.beam_width
  )
  size = tf.cast(ids, tf.int32)
  parents = places // size
  words = places % size

  def of_parent(values: Any) -> Any:
    return tf.gather(values, parents, batch_dims=1)

  was_finished = of_parent(before.finished)
  after = BeamSearchDecoderState(
    cell_state=tf.nest.map_structure(
      lambda one: of_parent(one) if _is_by_beam(one) else one, cell_state
    ),
    log_probs=tf.gather(
      tf.reshape(log_probs, [batch, -1]), places, batch_dims=1
    ),
    lengths=of_parent(before.lengths)
    + tf.cast(tf.logical_not(was_finished), tf.int64),
    finished=tf.logical_or(was_finished, tf.equal(words, search.end_token)),
    accumulated_attention_probs=() if read is None else of_parent(read),
  )
  return BeamSearchDecoderOutput(best, words, parents), after


def _is_by_beam(value: Any) -> bool:
  """Whether a part of the cell's state is [batch, beam, ...]."""
  return not isinstance(value, tf.TensorArray) and value.shape.rank >= 2


def _log_probs(logits: Any, end_token: Any, finished: Any) -> Any:
  """Returns log-probabilities; what has ended goes on with its end only."""
  log_probs = tf.nn.log_softmax(logits)
  dtype = log_probs.dtype
  only_end = tf.one_hot(
    end_token,
    tf.shape(logits)[-1],
    tf.zeros([], dtype),
    tf.constant(dtype.min, dtype),
  )
  return tf.where(finished[:, :, tf.newaxis], only_end, log_probs)


def _scores(
  search: Search, log_probs: Any, lengths: Any, finished: Any, read: Any
) -> Any:
  """Returns the scores of all continuations [batch, beam, ids]."""
  scores = log_probs / tf.cast(
    length_penalty(lengths, search.length_penalty_weight), log_probs.dtype
  )
  weight = tf.convert_to_tensor(search.coverage_penalty_weight)
  if weight.shape.rank != 0:
    raise ValueError(
      f"coverage_penalty_weight has the shape {weight.shape}; it must be a "
      "scalar."
    )
  if read is None:
    return scores
  # What was not read at all is not counted.
  read = tf.where(tf.equal(read, 0.0), tf.ones_like(read), read)
  penalty = tf.reduce_sum(tf.math.log(tf.minimum(read, 1.0)), 2)
  penalty *= weight * tf.cast(finished, tf.float32)
  return scores + penalty[:, :, tf.newaxis]


def length_penalty(lengths: Any, weight: Any) -> Any:
  """Returns ((5 + lengths) / 6) ** weight.

  Args:
    lengths: of the hypotheses.
    weight: a scalar; 0 for a penalty of 1.
  """
  weight = tf.convert_to_tensor(weight, name="penalty_factor")
  if tf.get_static_value(weight) == 0:
    return 1.0
  return (5.0 + tf.cast(lengths, tf.float32)) ** weight / 6.0**weight


def attention_probs(cell_state: Any, coverage_penalty_weight: Any) -> Any:
  """Returns what a step has read; the mean of several attentions.

  Args:
    cell_state: an AttentionWrapperState, or a tuple with some in it.
    coverage_penalty_weight: 0.0 for no penalty.

  Returns:
    [batch, beam, memory], or None without a penalty.

  Raises:
    ValueError: if there is a penalty, and no attention.
  """
  if (
    not tf.is_tensor(coverage_penalty_weight) and coverage_penalty_weight == 0.0
  ):
    return None
  if isinstance(cell_state, AttentionWrapperState):
    states = [cell_state]
  else:
    states = [
      one for one in cell_state if isinstance(one, AttentionWrapperState)
    ]
  if not states:
    raise ValueError(
      f"coverage_penalty_weight={coverage_penalty_weight!r} needs a cell with "
      "attention, an AttentionWrapper; without one it must be 0.0."
    )
  return _mean([_mean(one.alignments) for one in states])


def _mean(values: Any) -> Any:
  if not isinstance(values, (list, tuple)):
    return values
  return tf.reduce_mean(tf.stack(values, -1), -1) if values[1:] else values[0]
