"""tf.nn.rnn_cell and the loops of tf.nn that run its cells."""

import numpy as np
import tensorflow as tf

_TIME, _BATCH, _SIZE = 4, 3, 2
_RANDOM = np.random.RandomState(2)
_X = _RANDOM.normal(size=(_BATCH, _TIME, _SIZE)).astype(np.float32)
_LENGTHS = np.array([4, 2, 0], np.int32)


def _inputs(dtype=np.float32):
  return tf.placeholder_with_default(
    _X.astype(dtype), [None, None, _SIZE], name="inputs"
  )


def _steps():
  return tf.unstack(
    tf.placeholder_with_default(_X, [_BATCH, _TIME, _SIZE]), axis=1
  )


def _named(outputs, state):
  found = {"outputs": outputs}
  for at, part in enumerate(tf.contrib.framework.nest.flatten(state)):
    found["state_%d" % at] = part
  return found


def _dynamic(cell, **arguments):
  arguments.setdefault("dtype", tf.float32)
  return _named(*tf.nn.dynamic_rnn(cell, _inputs(), **arguments))


def basic_rnn_named():
  cell = tf.nn.rnn_cell.BasicRNNCell(3, tf.nn.relu, name="plain")
  return _dynamic(cell, sequence_length=_LENGTHS)


def basic_lstm_concatenated_state():
  cell = tf.nn.rnn_cell.BasicLSTMCell(3, 0.5, state_is_tuple=False)
  return _dynamic(cell, sequence_length=_LENGTHS)


def lstm_all_arguments():
  cell = tf.nn.rnn_cell.LSTMCell(
    4,
    use_peepholes=True,
    cell_clip=0.3,
    initializer=tf.random_uniform_initializer(-0.5, 0.5),
    num_proj=2,
    proj_clip=0.2,
    forget_bias=0.7,
    activation=tf.nn.elu,
  )
  return _dynamic(cell, sequence_length=_LENGTHS)


def gru():
  return _dynamic(tf.nn.rnn_cell.GRUCell(3), sequence_length=_LENGTHS)


def stack():
  cells = [tf.nn.rnn_cell.BasicLSTMCell(3), tf.nn.rnn_cell.GRUCell(2)]
  return _dynamic(tf.nn.rnn_cell.MultiRNNCell(cells), sequence_length=_LENGTHS)


def residual_and_device():
  cells = [
    tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.GRUCell(2)),
    tf.nn.rnn_cell.DeviceWrapper(tf.nn.rnn_cell.GRUCell(2), "/cpu:0"),
  ]
  return _dynamic(tf.nn.rnn_cell.MultiRNNCell(cells))


def dropout():
  cell = tf.nn.rnn_cell.DropoutWrapper(
    tf.nn.rnn_cell.BasicLSTMCell(3),
    input_keep_prob=0.8,
    output_keep_prob=0.7,
    state_keep_prob=0.6,
    seed=5,
  )
  # Side by side steps draw in any order.
  return _dynamic(cell, parallel_iterations=1)


def initial_state_and_reuse():
  cell = tf.nn.rnn_cell.LSTMCell(3)
  with tf.variable_scope("a"):
    _, state = tf.nn.dynamic_rnn(cell, _inputs(), dtype=tf.float32)
  with tf.variable_scope("a", reuse=True):
    again = tf.nn.rnn_cell.LSTMCell(3)
    return _named(*tf.nn.dynamic_rnn(again, _inputs() * 2, initial_state=state))


def bidirectional():
  outputs, states = tf.nn.bidirectional_dynamic_rnn(
    tf.nn.rnn_cell.LSTMCell(3),
    tf.nn.rnn_cell.LSTMCell(2),
    _inputs(),
    _LENGTHS,
    dtype=tf.float32,
  )
  return _named(tf.concat(outputs, 2), states)


def static_lengths():
  outputs, state = tf.nn.static_rnn(
    tf.nn.rnn_cell.GRUCell(3),
    _steps(),
    dtype=tf.float32,
    sequence_length=_LENGTHS,
    scope="unrolled",
  )
  return _named(tf.stack(outputs), state)


class _Own(tf.nn.rnn_cell.RNNCell):
  """A cell as programs write them, with tf.get_variable."""

  @property
  def state_size(self):
    return 3

  @property
  def output_size(self):
    return 3

  def __call__(self, inputs, state, scope=None):
    with tf.variable_scope(scope or type(self).__name__):
      size = inputs.get_shape()[1].value
      kernel = tf.get_variable("W", [size, 3])
      recurrent = tf.get_variable("U", [3, 3], initializer=_identity)
      state = tf.tanh(tf.matmul(inputs, kernel) + tf.matmul(state, recurrent))
    return state, state


def _identity(shape, dtype=None, partition_info=None):
  return tf.eye(*shape, dtype=dtype)


def own_cell():
  return _dynamic(_Own(), sequence_length=_LENGTHS)


class _OwnCall(tf.nn.rnn_cell.RNNCell):
  """The same by `call`, whose scope is the class's."""

  state_size = 3
  output_size = 3

  def call(self, inputs, state):
    joined = tf.concat([inputs, state], 1)
    state = tf.layers.dense(joined, 3, tf.tanh, name="mix")
    return state, state


def own_cell_by_call():
  return _dynamic(_OwnCall(), sequence_length=_LENGTHS)


def names_of_ops():
  cell = tf.nn.rnn_cell.BasicLSTMCell(3)
  outputs, state = tf.nn.dynamic_rnn(cell, _inputs(), dtype=tf.float32)
  return {
    "shapes": str([outputs.shape.as_list(), state.h.shape.as_list()]),
    "weights": ",".join(one.name for one in cell.weights),
    "scope": cell.scope_name,
  }
