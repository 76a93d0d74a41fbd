"""tf.contrib.legacy_seq2seq."""

import numpy as np
import tensorflow as tf

_RANDOM = np.random.RandomState(1)
_STEPS = [_RANDOM.normal(size=(3, 4)).astype(np.float32) for _ in range(4)]
_MEMORY = _RANDOM.normal(size=(3, 5, 6)).astype(np.float32)
_WORDS = [_RANDOM.randint(7, size=3).astype(np.int32) for _ in range(4)]
_OTHERS = [_RANDOM.randint(5, size=3).astype(np.int32) for _ in range(4)]
_WEIGHTS = [
  np.array(one, np.float32)
  for one in ([1, 1, 0], [1, 0.5, 0], [1, 0, 0], [0, 0, 0])
]


def _given(arrays):
  return [
    tf.placeholder_with_default(one, (None, *one.shape[1:])) for one in arrays
  ]


def _lstm(size=6):
  return tf.nn.rnn_cell.LSTMCell(size)


def _found(outputs, state, prefix=""):
  found = {
    "%soutput_%d" % (prefix, number): one for number, one in enumerate(outputs)
  }
  flat = tf.contrib.framework.nest.flatten(state)
  for number, one in enumerate(flat):
    found["%sstate_%d" % (prefix, number)] = one
  return found


def _state(cell):
  return cell.zero_state(tf.shape(_given(_WORDS)[0])[0], tf.float32)


def _large_variables():
  """Variables with which gradients of attention are more than rounding."""
  return tf.variable_scope(
    tf.get_variable_scope(),
    initializer=tf.random_uniform_initializer(-1.5, 1.5),
  )


def _projection(size=6):
  return (
    tf.get_variable("w", [size, 5]),
    tf.get_variable("b", [5], initializer=tf.ones_initializer()),
  )


def rnn_decoder_loop():
  cell = tf.nn.rnn_cell.GRUCell(4)
  outputs, state = tf.contrib.legacy_seq2seq.rnn_decoder(
    _given(_STEPS),
    _state(cell),
    cell,
    loop_function=lambda output, step: tf.sin(output) * step,
    scope="own",
  )
  return _found(outputs, state)


def basic():
  cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(4), _lstm(3)])
  return _found(
    *tf.contrib.legacy_seq2seq.basic_rnn_seq2seq(
      _given(_STEPS), _given(_STEPS[:2]), cell
    )
  )


def tied():
  return _found(
    *tf.contrib.legacy_seq2seq.tied_rnn_seq2seq(
      _given(_STEPS), _given(_STEPS[:2]), _lstm()
    )
  )


def embedding_rnn_fed():
  return _found(
    *tf.contrib.legacy_seq2seq.embedding_rnn_seq2seq(
      _given(_WORDS),
      _given(_OTHERS),
      _lstm(),
      7,
      5,
      embedding_size=3,
      output_projection=_projection(),
      feed_previous=True,
      dtype=tf.float32,
      scope="own",
    )
  )


def embedding_rnn_chosen():
  found = {}
  for name, choice in (("fed", True), ("not", False)):
    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
      outputs, state = tf.contrib.legacy_seq2seq.embedding_rnn_seq2seq(
        _given(_WORDS),
        _given(_OTHERS),
        _lstm(),
        7,
        5,
        3,
        feed_previous=tf.placeholder_with_default(choice, []),
      )
    found.update(_found(outputs, state, name + "_"))
  return found


def embedding_tied_chosen():
  return _found(
    *tf.contrib.legacy_seq2seq.embedding_tied_rnn_seq2seq(
      _given(_WORDS),
      _given(_WORDS[::-1]),
      _lstm(),
      7,
      4,
      feed_previous=tf.placeholder_with_default(True, []),
    )
  )


def _memory():
  return tf.placeholder_with_default(_MEMORY, [None, 5, 6])


def attention_decoder():
  cell = _lstm(4)
  return _found(
    *tf.contrib.legacy_seq2seq.attention_decoder(
      _given(_STEPS), _state(cell), _memory(), cell
    )
  )


def embedding_attention_fed():
  cell = tf.nn.rnn_cell.MultiRNNCell([_lstm(4), _lstm()])
  with _large_variables():
    return _found(
      *tf.contrib.legacy_seq2seq.embedding_attention_seq2seq(
        _given(_WORDS),
        _given(_OTHERS),
        cell,
        7,
        5,
        3,
        output_projection=_projection(),
        feed_previous=True,
        initial_state_attention=True,
      )
    )


def embedding_attention_chosen():
  with _large_variables():
    return _found(
      *tf.contrib.legacy_seq2seq.embedding_attention_seq2seq(
        _given(_WORDS),
        _given(_OTHERS),
        _lstm(),
        7,
        5,
        3,
        feed_previous=tf.placeholder_with_default(False, []),
      )
    )


def one2many():
  outputs, states = tf.contrib.legacy_seq2seq.one2many_rnn_seq2seq(
    _given(_WORDS),
    {"a": _given(_OTHERS), "b": _given(_WORDS[:2])},
    _lstm(),
    {"a": _lstm(), "b": _lstm()},
    7,
    {"a": 5, "b": 7},
    embedding_size=3,
  )
  found = _found(outputs["a"], states["a"], "a_")
  found.update(_found(outputs["b"], states["b"], "b_"))
  return found


def losses():
  seq2seq = tf.contrib.legacy_seq2seq
  scale = tf.get_variable("scale", initializer=1.5)
  logits = [one * scale for one in _given(_STEPS)]
  targets = [tf.mod(one, 4) for one in _given(_OTHERS)]
  weights = _given(_WEIGHTS)

  def own(labels, logits):
    return tf.reduce_sum(tf.one_hot(labels, 4) * tf.square(logits), 1)

  return {
    "each": seq2seq.sequence_loss_by_example(logits, targets, weights),
    "each_sum": seq2seq.sequence_loss_by_example(
      logits, targets, weights, average_across_timesteps=False
    ),
    "all": seq2seq.sequence_loss(logits, targets, weights),
    "all_sum": seq2seq.sequence_loss(
      logits,
      targets,
      weights,
      average_across_timesteps=False,
      average_across_batch=False,
    ),
    "own": seq2seq.sequence_loss(
      logits, targets, weights, softmax_loss_function=own
    ),
  }


def buckets():
  seq2seq = tf.contrib.legacy_seq2seq
  outputs, losses_of_buckets = seq2seq.model_with_buckets(
    _given(_WORDS),
    _given(_OTHERS),
    _given(_OTHERS[1:] + _OTHERS[:1]),
    _given(_WEIGHTS),
    [(2, 1), (3, 3), (4, 4)],
    lambda encoder, decoder: seq2seq.embedding_attention_seq2seq(
      encoder, decoder, _lstm(), 7, 5, 3
    ),
    per_example_loss=True,
  )
  found = {
    "loss_of_%d" % number: one for number, one in enumerate(losses_of_buckets)
  }
  found["steps"] = [len(one) for one in outputs]
  return found
