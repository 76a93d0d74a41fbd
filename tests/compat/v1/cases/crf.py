"""tf.contrib.crf."""

import numpy as np
import tensorflow as tf

_RANDOM = np.random.RandomState(1)
_INPUTS = _RANDOM.normal(size=(4, 5, 3)).astype(np.float32)
_TAGS = _RANDOM.randint(3, size=(4, 5)).astype(np.int32)
_LENGTHS = np.array([5, 3, 1, 0], np.int32)
_TRANSITIONS = _RANDOM.normal(size=(3, 3)).astype(np.float32)
_ALLOWED = _RANDOM.uniform(size=(4, 5, 3)) < 0.8
_ALLOWED[:, :, 0] = True


def _scores(steps=5, static=False):
  """Scores that depend on a variable, so that there are gradients."""
  inputs = _INPUTS[:, :steps]
  shape = inputs.shape if static else [None, None, 3]
  inputs = tf.placeholder_with_default(inputs, shape)
  return inputs * tf.get_variable("scale", initializer=[1.0, 1.1, 0.9])


def _given(array):
  return tf.placeholder_with_default(array, [None] * array.ndim)


def _training(lengths, **kwargs):
  steps = kwargs.get("steps", 5)
  likelihood, transitions = tf.contrib.crf.crf_log_likelihood(
    _scores(**kwargs), _given(_TAGS[:, :steps]), lengths
  )
  return {"likelihood": likelihood, "transitions": transitions}


def likelihood():
  return _training(_given(_LENGTHS))


def likelihood_of_one_step():
  return _training(_given(np.minimum(_LENGTHS, 1)), steps=1)


def likelihood_with_transitions():
  with tf.variable_scope("crf"):
    transitions = tf.get_variable("own", initializer=_TRANSITIONS)
  likelihood, same = tf.contrib.crf.crf_log_likelihood(
    _scores(), _given(_TAGS.astype(np.int64)), _given(_LENGTHS), transitions
  )
  return {"likelihood": likelihood, "is_same": same is transitions}


def scores():
  crf = tf.contrib.crf
  inputs, tags, lengths = _scores(), _given(_TAGS), _given(_LENGTHS)
  transitions = tf.get_variable("transitions", initializer=_TRANSITIONS)
  return {
    "norm": crf.crf_log_norm(inputs, lengths, transitions),
    "sequence": crf.crf_sequence_score(inputs, tags, lengths, transitions),
    "unary": crf.crf_unary_score(tags, lengths, inputs),
    "binary": crf.crf_binary_score(tags, lengths, transitions),
  }


def multitag_score():
  transitions = tf.get_variable("transitions", initializer=_TRANSITIONS)
  score = tf.contrib.crf.crf_multitag_sequence_score(
    _scores(), _given(_ALLOWED), _given(_LENGTHS), transitions
  )
  return {"score": score[:3], "none": score[3]}


def multitag_score_of_one_step():
  transitions = tf.get_variable("transitions", initializer=_TRANSITIONS)
  score = tf.contrib.crf.crf_multitag_sequence_score(
    _scores(1),
    _given(_ALLOWED[:, :1]),
    _given(np.ones(4, np.int32)),
    transitions,
  )
  return {"score": score}


def _decoded(steps=5, static=False):
  shape = [4, steps, 3] if static else [None, None, 3]
  potentials = tf.placeholder_with_default(_INPUTS[:, :steps], shape)
  lengths = _given(np.minimum(_LENGTHS, steps))
  tags, score = tf.contrib.crf.crf_decode(
    potentials, tf.constant(_TRANSITIONS), lengths
  )
  return {
    "tags": tags,
    "score": score,
    "dtype": tags.dtype.name,
    "shape": str(tags.shape),
  }


def decode():
  return _decoded()


def decode_one_step():
  return _decoded(1)


def viterbi():
  tags, score = tf.contrib.crf.viterbi_decode(_INPUTS[0], _TRANSITIONS)
  one, one_score = tf.contrib.crf.viterbi_decode(_INPUTS[0, :1], _TRANSITIONS)
  return {
    "tags": tags,
    "score": score,
    "kind": type(tags).__name__,
    "one": one,
    "one_score": one_score,
  }


def cells():
  crf = tf.contrib.crf
  inputs, state = _given(_INPUTS[:, 0]), _given(_INPUTS[:, 1])
  forward = crf.CrfForwardRnnCell(tf.constant(_TRANSITIONS))
  decode = crf.CrfDecodeForwardRnnCell(tf.constant(_TRANSITIONS))
  backward = crf.CrfDecodeBackwardRnnCell(3)
  alphas, _ = forward(inputs, state)
  before, best = decode(inputs, state)
  tag, _ = backward(before, _given(_TAGS[:, :1]))
  return {
    "sizes": [
      size
      for cell in (forward, decode, backward)
      for size in (int(cell.state_size), int(cell.output_size))
    ],
    "alphas": alphas,
    "before": before,
    "best": best,
    "tag": tag,
  }
