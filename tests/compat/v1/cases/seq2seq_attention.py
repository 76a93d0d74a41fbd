"""tf.contrib.seq2seq: attention mechanisms, AttentionWrapper, the loss."""

import numpy as np
import tensorflow as tf

_RANDOM = np.random.RandomState(1)
_MEMORY = _RANDOM.normal(size=(3, 5, 4)).astype(np.float32)
_OTHER = _RANDOM.normal(size=(3, 2, 6)).astype(np.float32)
_QUERY = _RANDOM.normal(size=(3, 6)).astype(np.float32)
_INPUTS = _RANDOM.normal(size=(3, 4, 2)).astype(np.float32)
_LENGTHS = np.array([5, 2, 1], np.int32)
_LOGITS = _RANDOM.normal(size=(3, 4, 5)).astype(np.float32)
_TARGETS = _RANDOM.randint(5, size=(3, 4)).astype(np.int32)
_WEIGHTS = np.array([[1, 1, 1, 1], [1, 0.5, 0, 0], [0, 0, 0, 0]], np.float32)


def _given(array, shape=None):
  return tf.placeholder_with_default(
    array, [None] * array.ndim if shape is None else shape
  )


def _memory(array=_MEMORY):
  return _given(array, [None, None, array.shape[2]])


def _queried(mechanism):
  """Two queries to a mechanism, as two steps make them."""
  with tf.variable_scope("queries"):
    query = _given(_QUERY, [None, 6])
    state = mechanism.initial_state(3, tf.float32)
    first, state = mechanism(query, state=state)
  with tf.variable_scope("queries", reuse=True):
    second, state = mechanism(query * 0.5, state=state)
  return {
    "first": first,
    "second": second,
    "state": state,
    "keys": mechanism.keys,
    "values": mechanism.values,
  }


def bahdanau_normalized():
  return _queried(
    tf.contrib.seq2seq.BahdanauAttention(
      6, _memory(), _given(_LENGTHS), normalize=True
    )
  )


def bahdanau_hardmax():
  seq2seq = tf.contrib.seq2seq
  return _queried(
    seq2seq.BahdanauAttention(
      6,
      _memory(),
      memory_sequence_length=_given(_LENGTHS),
      probability_fn=seq2seq.hardmax,
      score_mask_value=-5.0,
      name="attend",
    )
  )


def luong_scaled():
  return _queried(
    tf.contrib.seq2seq.LuongAttention(
      6, _memory(), _given(_LENGTHS.astype(np.int64)), scale=True
    )
  )


def luong_sigmoid_and_own_keys():
  return _queried(
    tf.contrib.seq2seq.LuongAttention(
      6,
      _memory(),
      _given(_LENGTHS),
      probability_fn=tf.nn.sigmoid,
      score_mask_value=-2.0,
      custom_key_value_fn=lambda keys, values: (keys * 2, values + 1),
    )
  )


def luong_of_known_shapes():
  mechanism = tf.contrib.seq2seq.LuongAttention(6, tf.constant(_MEMORY))
  return {
    "batch_size": mechanism.batch_size,
    "alignments_size": mechanism.alignments_size,
    "state_size": mechanism.state_size,
    "layers": [mechanism.query_layer is None, mechanism.memory_layer is None],
  }


def _monotonic(make, mode, **kwargs):
  return _queried(
    make(
      6, _memory(), _given(_LENGTHS), mode=mode, score_bias_init=-0.5, **kwargs
    )
  )


def bahdanau_monotonic_parallel():
  return _monotonic(
    tf.contrib.seq2seq.BahdanauMonotonicAttention, "parallel", normalize=True
  )


def bahdanau_monotonic_noise():
  return _monotonic(
    tf.contrib.seq2seq.BahdanauMonotonicAttention,
    "parallel",
    sigmoid_noise=1.0,
    sigmoid_noise_seed=3,
  )


def luong_monotonic_recursive():
  return _monotonic(
    tf.contrib.seq2seq.LuongMonotonicAttention, "recursive", sigmoid_noise=0.5
  )


def luong_monotonic_hard():
  return _monotonic(tf.contrib.seq2seq.LuongMonotonicAttention, "hard")


def functions():
  seq2seq = tf.contrib.seq2seq
  probabilities = _given(1 / (1 + np.exp(-_MEMORY[0])))
  previous = _given(np.abs(_MEMORY[1]))
  return {
    "hardmax": seq2seq.hardmax(_given(_MEMORY)),
    "safe_cumprod": seq2seq.safe_cumprod(probabilities, axis=1),
    "exclusive": seq2seq.safe_cumprod(probabilities, axis=0, exclusive=True),
    "recursive": seq2seq.monotonic_attention(
      probabilities, previous, "recursive"
    ),
    "parallel": seq2seq.monotonic_attention(
      probabilities, previous, "parallel"
    ),
    "hard": seq2seq.monotonic_attention(
      tf.cast(probabilities > 0.5, tf.float32),
      _given(np.eye(5, 4, dtype=np.float32)),
      "hard",
    ),
  }


def _steps(cell, dtype=tf.float32, batch_size=3):
  """Two steps of a cell, and all that is in its state."""
  inputs = _given(_INPUTS, [None, None, 2])
  state = cell.zero_state(batch_size, dtype)
  first, state = cell(inputs[:, 0], state)
  second, state = cell(inputs[:, 1], state)
  found = {
    "first": first,
    "second": second,
    "cell_state": tf.concat(
      tf.contrib.framework.nest.flatten(state.cell_state), 1
    ),
    "attention": state.attention,
    "time": state.time,
    "output_size": cell.output_size,
  }
  for name in ("alignments", "attention_state", "alignment_history"):
    for number, one in enumerate(
      tf.contrib.framework.nest.flatten(getattr(state, name))
    ):
      if isinstance(one, tf.TensorArray):
        one = one.stack()
      found["%s_%d" % (name, number)] = one
  return found


def wrapper():
  seq2seq = tf.contrib.seq2seq
  attention = seq2seq.LuongAttention(6, _memory(), _given(_LENGTHS))
  cell = tf.nn.rnn_cell.LSTMCell(6)
  return _steps(seq2seq.AttentionWrapper(cell, attention))


def wrapper_with_layer():
  seq2seq = tf.contrib.seq2seq
  attention = seq2seq.BahdanauAttention(5, _memory(), _given(_LENGTHS))
  cell = tf.nn.rnn_cell.GRUCell(6)
  return _steps(
    seq2seq.AttentionWrapper(
      cell, attention, attention_layer_size=7, alignment_history=True
    )
  )


def wrapper_output_of_cell():
  seq2seq = tf.contrib.seq2seq
  attention = seq2seq.BahdanauAttention(5, _memory(), normalize=True)
  cell = tf.nn.rnn_cell.MultiRNNCell(
    [tf.nn.rnn_cell.LSTMCell(4), tf.nn.rnn_cell.LSTMCell(6)]
  )
  cell = seq2seq.AttentionWrapper(
    cell, attention, 7, output_attention=False, name="own_name"
  )
  return _steps(cell, batch_size=attention.batch_size)


def wrapper_of_several():
  seq2seq = tf.contrib.seq2seq
  with tf.variable_scope("one"):
    one = seq2seq.BahdanauAttention(5, _memory(), _given(_LENGTHS))
  with tf.variable_scope("two"):
    two = seq2seq.BahdanauAttention(6, _memory(_OTHER))
  three = seq2seq.LuongMonotonicAttention(6, _memory(_OTHER))
  cell = tf.nn.rnn_cell.BasicLSTMCell(6)
  return _steps(
    seq2seq.AttentionWrapper(
      cell,
      [one, two, three],
      attention_layer_size=[3, 4, 5],
      alignment_history=True,
      cell_input_fn=lambda inputs, attention: tf.concat(
        [attention * 2, inputs], -1
      ),
    )
  )


def wrapper_with_own_layer_and_state():
  seq2seq = tf.contrib.seq2seq
  attention = seq2seq.LuongAttention(6, _memory())
  initial = tf.nn.rnn_cell.LSTMStateTuple(_given(_QUERY), _given(_QUERY * 0.1))
  initial[0].set_shape([None, 6])
  initial[1].set_shape([None, 6])
  layer = tf.layers.Dense(3, activation=tf.tanh, name="own_layer")
  return _steps(
    seq2seq.AttentionWrapper(
      tf.nn.rnn_cell.LSTMCell(6),
      attention,
      initial_cell_state=initial,
      attention_layer=layer,
    )
  )


def wrapper_with_own_attention():
  seq2seq = tf.contrib.seq2seq

  def attend(mechanism, cell_output, attention_state, attention_layer):
    alignments, state = mechanism(cell_output, state=attention_state)
    context = tf.einsum("bm,bmd->bd", alignments, mechanism.values)
    return attention_layer(context), alignments, state

  attention = seq2seq.LuongAttention(6, _memory())
  cell = tf.nn.rnn_cell.LSTMCell(6)
  return _steps(
    seq2seq.AttentionWrapper(
      cell,
      attention,
      attention_layer=tf.layers.Dense(10, name="dense"),
      attention_fn=attend,
    )
  )


def wrapper_in_dynamic_rnn():
  seq2seq = tf.contrib.seq2seq
  attention = seq2seq.BahdanauAttention(5, _memory(), _given(_LENGTHS))
  cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(6), attention, 7)
  state = cell.zero_state(3, tf.float32).clone(
    cell_state=_given(_QUERY, [3, 6])
  )
  outputs, state = tf.nn.dynamic_rnn(
    cell, _given(_INPUTS, [3, None, 2]), _given(_LENGTHS), state, tf.float32
  )
  return {"outputs": outputs, "attention": state.attention}


def training():
  seq2seq = tf.contrib.seq2seq
  attention = seq2seq.BahdanauAttention(5, _memory(), _given(_LENGTHS))
  cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.LSTMCell(6), attention, 5)
  outputs, _ = tf.nn.dynamic_rnn(
    cell, _given(_INPUTS, [3, None, 2]), dtype=tf.float32
  )
  loss = seq2seq.sequence_loss(outputs, _given(_TARGETS), _given(_WEIGHTS))
  return {"loss": loss}, tf.train.AdamOptimizer(0.1).minimize(loss)


def losses():
  loss = tf.contrib.seq2seq.sequence_loss
  scale = tf.get_variable("scale", initializer=1.5)
  logits = _given(_LOGITS, [None, None, 5]) * scale
  given = (logits, _given(_TARGETS), _given(_WEIGHTS))

  def weighted(labels, logits):
    return -tf.reduce_sum(tf.one_hot(labels, 5) * logits * logits, -1)

  return {
    "average": loss(*given),
    "of_time": loss(*given, average_across_batch=False),
    "of_batch": loss(*given, average_across_timesteps=False),
    "each": loss(
      *given, average_across_timesteps=False, average_across_batch=False
    ),
    "sum": loss(
      *given,
      average_across_timesteps=False,
      average_across_batch=False,
      sum_over_timesteps=True,
      sum_over_batch=True,
    ),
    "sum_of_time": loss(
      *given,
      average_across_timesteps=False,
      average_across_batch=False,
      sum_over_timesteps=True,
    ),
    "sum_of_batch": loss(
      *given,
      average_across_timesteps=False,
      average_across_batch=False,
      sum_over_batch=True,
    ),
    "own": loss(*given, softmax_loss_function=weighted),
    "nothing": loss(given[0], given[1], given[2] * 0.0),
  }
