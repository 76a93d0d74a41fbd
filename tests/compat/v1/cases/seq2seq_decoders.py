"""tf.contrib.seq2seq: BasicDecoder, its helpers, and dynamic_decode."""

import numpy as np
import tensorflow as tf

_RANDOM = np.random.RandomState(2)
_INPUTS = _RANDOM.normal(size=(4, 5, 3)).astype(np.float32)
_MORE = _RANDOM.normal(size=(4, 5, 2)).astype(np.float32)
_MEMORY = _RANDOM.normal(size=(4, 6, 5)).astype(np.float32)
_STATE = _RANDOM.normal(size=(4, 6)).astype(np.float32)
_LENGTHS = np.array([5, 3, 1, 0], np.int32)
_START = np.array([1, 1, 2, 1], np.int32)
_END = 0
_WORDS = 7


def _given(array, shape=None):
  return tf.placeholder_with_default(
    array, [None] * array.ndim if shape is None else shape
  )


def _inputs(array=_INPUTS, time_major=False):
  array = array.transpose(1, 0, 2) if time_major else array
  return _given(array, [None, None, array.shape[2]])


def _embedding(size=3):
  return tf.get_variable("embedding", [_WORDS, size])


def _state(cell):
  """A state that depends on what is given."""
  return tf.contrib.framework.nest.map_structure(
    lambda size: _given(_STATE[:, :size], [None, size]), cell.state_size
  )


def _decoded(decoder, **kwargs):
  outputs, state, lengths = tf.contrib.seq2seq.dynamic_decode(decoder, **kwargs)
  flat = tf.contrib.framework.nest.flatten(state)
  found = {
    "state_%d" % number: one
    for number, one in enumerate(flat)
    if not isinstance(one, tf.TensorArray)
  }
  found["rnn_output"] = outputs.rnn_output
  found["sample_id"] = outputs.sample_id
  found["lengths"] = lengths
  found["shapes"] = [
    str(outputs.rnn_output.shape),
    str(outputs.sample_id.shape),
  ]
  return found


def _basic(helper, output_size=_WORDS, **kwargs):
  cell = tf.nn.rnn_cell.LSTMCell(6)
  layer = tf.layers.Dense(output_size, name="projection")
  decoder = tf.contrib.seq2seq.BasicDecoder(cell, helper, _state(cell), layer)
  return _decoded(decoder, **kwargs)


def training_helper_imputed():
  helper = tf.contrib.seq2seq.TrainingHelper(_inputs(), _given(_LENGTHS))
  return _basic(helper, impute_finished=True, swap_memory=True)


def training_helper_time_major():
  helper = tf.contrib.seq2seq.TrainingHelper(
    _inputs(time_major=True), _given(_LENGTHS), time_major=True
  )
  return _basic(helper, output_time_major=True, scope="own_scope")


def training_helper_of_few_steps():
  helper = tf.contrib.seq2seq.TrainingHelper(_inputs(), _given(_LENGTHS))
  return _basic(helper, maximum_iterations=2)


def training_helper_of_known_shape():
  helper = tf.contrib.seq2seq.TrainingHelper(
    _given(_INPUTS, [4, 5, 3]), tf.constant(_LENGTHS)
  )
  found = _basic(helper)
  found["batch_size"] = helper.batch_size
  found["same"] = helper.sequence_length
  return found


def training_helper_without_layer():
  seq2seq = tf.contrib.seq2seq
  cell = tf.nn.rnn_cell.MultiRNNCell(
    [tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.LSTMCell(6)]
  )
  helper = seq2seq.TrainingHelper(_inputs(), _given(_LENGTHS))
  decoder = seq2seq.BasicDecoder(cell, helper, _state(cell))
  with tf.variable_scope("outer"):
    return _decoded(decoder, impute_finished=True)


def training_and_inference():
  """Two decoders that share their variables."""
  seq2seq = tf.contrib.seq2seq
  embedding = _embedding()
  cell = tf.nn.rnn_cell.LSTMCell(6)
  layer = tf.layers.Dense(_WORDS, use_bias=False, name="projection")
  helper = seq2seq.TrainingHelper(_inputs(), _given(_LENGTHS))
  with tf.variable_scope("decode"):
    trained, _, _ = seq2seq.dynamic_decode(
      seq2seq.BasicDecoder(cell, helper, _state(cell), layer)
    )
  helper = seq2seq.GreedyEmbeddingHelper(embedding, _given(_START), _END)
  with tf.variable_scope("decode", reuse=True):
    inferred, _, _ = seq2seq.dynamic_decode(
      seq2seq.BasicDecoder(cell, helper, _state(cell), layer),
      maximum_iterations=4,
    )
  return {
    "trained": trained.rnn_output,
    "inferred": inferred.rnn_output,
    "ids": inferred.sample_id,
  }


def greedy():
  helper = tf.contrib.seq2seq.GreedyEmbeddingHelper(
    _embedding(), _given(_START), _END
  )
  return _basic(helper, maximum_iterations=6)


def greedy_by_function():
  embedding = _embedding()
  helper = tf.contrib.seq2seq.GreedyEmbeddingHelper(
    lambda ids: tf.one_hot(ids, 3) + tf.gather(embedding, ids),
    tf.constant(_START),
    tf.constant(3),
  )
  return _basic(helper, maximum_iterations=tf.constant(5), impute_finished=True)


def sample():
  helper = tf.contrib.seq2seq.SampleEmbeddingHelper(
    _embedding(), _given(_START), _END, seed=5
  )
  return _basic(helper, maximum_iterations=6)


def sample_hot():
  helper = tf.contrib.seq2seq.SampleEmbeddingHelper(
    _embedding(), _given(_START), _END, softmax_temperature=0.3
  )
  return _basic(helper, maximum_iterations=6)


# Steps at the same time would draw in any order, on 1.15 as well.
_ORDERED = {"parallel_iterations": 1}


def scheduled_embedding_time_major():
  helper = tf.contrib.seq2seq.ScheduledEmbeddingTrainingHelper(
    _inputs(time_major=True),
    _given(_LENGTHS),
    _embedding(),
    tf.constant(0.5),
    time_major=True,
  )
  return _basic(helper, impute_finished=True, **_ORDERED)


def scheduled_output_by_function():
  layer = tf.layers.Dense(3, name="to_inputs")
  helper = tf.contrib.seq2seq.ScheduledOutputTrainingHelper(
    _inputs(), _given(_LENGTHS), 0.7, next_inputs_fn=layer
  )
  return _basic(helper, output_size=4, **_ORDERED)


def scheduled_output_with_more():
  helper = tf.contrib.seq2seq.ScheduledOutputTrainingHelper(
    _inputs(), _given(_LENGTHS), 0.5, auxiliary_inputs=_inputs(_MORE)
  )
  return _basic(helper, output_size=3, **_ORDERED)


def scheduled_output_by_function_with_more():
  helper = tf.contrib.seq2seq.ScheduledOutputTrainingHelper(
    _inputs(time_major=True),
    _given(_LENGTHS),
    0.5,
    time_major=True,
    next_inputs_fn=lambda outputs: tf.tanh(outputs[:, :3]),
    auxiliary_inputs=_inputs(_MORE, time_major=True),
  )
  return _basic(helper, output_size=4, **_ORDERED)


def inference_by_function():
  helper = tf.contrib.seq2seq.InferenceHelper(
    sample_fn=lambda outputs: tf.cast(outputs > 0, tf.int32),
    sample_shape=[4],
    sample_dtype=tf.int32,
    start_inputs=_given(_INPUTS[:, 0], [None, 3]),
    end_fn=lambda samples: tf.reduce_all(samples > 0, 1),
    next_inputs_fn=lambda samples: tf.cast(samples[:, :3], tf.float32),
  )
  return _basic(helper, output_size=4, maximum_iterations=4)


def custom():
  lengths = _given(_LENGTHS)
  inputs = _inputs()

  def initialize():
    return tf.equal(lengths, 0), inputs[:, 0]

  def sample_ids(time, outputs, state):
    del time, state
    return tf.argmax(outputs, -1, output_type=tf.int32)

  def next_inputs(time, outputs, state, sample_ids):
    del sample_ids
    return time + 1 >= lengths, tf.sin(outputs), state

  helper = tf.contrib.seq2seq.CustomHelper(initialize, sample_ids, next_inputs)
  return _basic(helper, output_size=3)


class _Counter(tf.contrib.seq2seq.Decoder):
  """A decoder of its own: counts down."""

  @property
  def batch_size(self):
    return tf.size(_LENGTHS)

  @property
  def output_size(self):
    return {"left": tf.TensorShape([])}

  @property
  def output_dtype(self):
    return {"left": tf.int32}

  def initialize(self, name=None):
    left = _given(_LENGTHS)
    return tf.equal(left, 0), left, tf.constant(10)

  def step(self, time, inputs, state, name=None):
    left = inputs - 1
    return {"left": left}, state + time, left, left <= 0


def own_decoder():
  outputs, state, lengths = tf.contrib.seq2seq.dynamic_decode(
    _Counter(), impute_finished=True
  )
  return {"left": outputs["left"], "state": state, "lengths": lengths}


def attention():
  seq2seq = tf.contrib.seq2seq
  mechanism = seq2seq.BahdanauAttention(
    5, _inputs(_MEMORY), _given(np.array([6, 2, 3, 1])), normalize=True
  )
  cell = seq2seq.AttentionWrapper(
    tf.nn.rnn_cell.LSTMCell(6), mechanism, 4, alignment_history=True
  )
  helper = seq2seq.TrainingHelper(_inputs(), _given(_LENGTHS))
  layer = tf.layers.Dense(_WORDS, name="projection")
  state = cell.zero_state(4, tf.float32).clone(
    cell_state=tf.nn.rnn_cell.LSTMStateTuple(_given(_STATE), _given(_STATE))
  )
  outputs, state, _ = seq2seq.dynamic_decode(
    seq2seq.BasicDecoder(cell, helper, state, layer), impute_finished=True
  )
  return {
    "outputs": outputs.rnn_output,
    "attention": state.attention,
    "alignments": state.alignments,
    "history": state.alignment_history.stack(),
    "time": state.time,
  }


def training():
  seq2seq = tf.contrib.seq2seq
  embedding = _embedding()
  words = _given(
    np.array([[1, 2, 3, 0], [1, 4, 0, 0], [2, 2, 2, 0], [5, 0, 0, 0]])
  )
  lengths = _given(np.array([4, 3, 4, 2]))
  mechanism = seq2seq.LuongAttention(6, _inputs(_MEMORY))
  cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.LSTMCell(6), mechanism, 6)
  helper = seq2seq.TrainingHelper(
    tf.nn.embedding_lookup(embedding, words), tf.cast(lengths, tf.int32)
  )
  outputs, _, _ = seq2seq.dynamic_decode(
    seq2seq.BasicDecoder(
      cell, helper, cell.zero_state(4, tf.float32), tf.layers.Dense(_WORDS)
    ),
    impute_finished=True,
  )
  loss = seq2seq.sequence_loss(
    outputs.rnn_output, words, tf.sequence_mask(lengths, 4, tf.float32)
  )
  return {"loss": loss}, tf.train.AdamOptimizer(0.1).minimize(loss)
