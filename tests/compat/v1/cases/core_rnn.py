"""tf.nn.rnn_cell and the functions that unroll its cells."""

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(8).normal(size=(3, 5, 4)).astype(np.float32)
_LENGTHS = [5, 2, 0]


def _x():
  return tf.placeholder_with_default(_X, [None, None, 4])


def _named(outputs, state):
  results = {"outputs": outputs}
  for k, one in enumerate(tf.contrib.framework.nest.flatten(state)):
    results["state%d" % k] = one
  return results


def basic_lstm():
  cell = tf.nn.rnn_cell.BasicLSTMCell(3)
  return _named(*tf.nn.dynamic_rnn(cell, _x(), _LENGTHS, dtype=tf.float32))


def lstm():
  cell = tf.nn.rnn_cell.LSTMCell(
    3, use_peepholes=True, cell_clip=0.5, num_proj=2, proj_clip=0.3
  )
  return _named(*tf.nn.dynamic_rnn(cell, _x(), _LENGTHS, dtype=tf.float32))


def lstm_of_tuples_off():
  cell = tf.nn.rnn_cell.LSTMCell(3, state_is_tuple=False, forget_bias=0.5)
  return _named(*tf.nn.dynamic_rnn(cell, _x(), dtype=tf.float32))


def gru():
  cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=tf.ones_initializer())
  x = tf.transpose(_x(), [1, 0, 2])
  return _named(
    *tf.nn.dynamic_rnn(cell, x, _LENGTHS, dtype=tf.float32, time_major=True)
  )


def layers_of_cells():
  def cell(size):
    one = tf.nn.rnn_cell.BasicLSTMCell(size, activation=tf.nn.relu)
    return tf.nn.rnn_cell.DropoutWrapper(one, 0.9, 0.8, seed=5)

  stack = tf.nn.rnn_cell.MultiRNNCell([cell(3), cell(2)])
  initial = stack.zero_state(tf.shape(_x())[0], tf.float32)
  return _named(*tf.nn.dynamic_rnn(stack, _x(), initial_state=initial))


def dropout_without_seed():
  one = tf.nn.rnn_cell.GRUCell(3)
  one = tf.nn.rnn_cell.DropoutWrapper(
    one, state_keep_prob=0.7, variational_recurrent=True, dtype=tf.float32
  )
  return _named(*tf.nn.dynamic_rnn(one, _x(), dtype=tf.float32))


def residual():
  cell = tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.GRUCell(4))
  cell = tf.nn.rnn_cell.DeviceWrapper(cell, "/cpu:0")
  return _named(*tf.nn.dynamic_rnn(cell, _x(), dtype=tf.float32))


def both_directions():
  outputs, states = tf.nn.bidirectional_dynamic_rnn(
    tf.nn.rnn_cell.LSTMCell(3),
    tf.nn.rnn_cell.LSTMCell(2),
    _x(),
    _LENGTHS,
    dtype=tf.float32,
    scope="both",
  )
  return _named(tf.concat(outputs, 2), states)


def unrolled():
  x = tf.unstack(tf.constant(_X), axis=1)
  cell = tf.nn.rnn_cell.BasicRNNCell(3)
  outputs, state = tf.nn.static_rnn(
    cell, x, dtype=tf.float32, sequence_length=_LENGTHS
  )
  forward = tf.nn.rnn_cell.BasicLSTMCell(2)
  backward = tf.nn.rnn_cell.BasicLSTMCell(2)
  both, _, last = tf.nn.static_bidirectional_rnn(
    forward, backward, x, dtype=tf.float32
  )
  return _named(tf.stack(outputs), (state, last, both[1]))


def raw():
  cell = tf.nn.rnn_cell.GRUCell(3)
  x = tf.transpose(_x(), [1, 0, 2])
  inputs = tf.TensorArray(tf.float32, 5).unstack(x[:5])

  def loop(time, output, state, loop_state):
    done = time >= tf.constant(_LENGTHS)
    if output is None:
      state = cell.zero_state(3, tf.float32)
    following = tf.cond(
      tf.reduce_all(done),
      lambda: tf.zeros([3, 4]),
      lambda: inputs.read(tf.minimum(time, 4)),
    )
    following.set_shape([3, 4])
    return done, following, state, output, None

  outputs, state, _ = tf.nn.raw_rnn(cell, loop)
  return _named(outputs.stack(), state)


def shared_cell():
  cell = tf.nn.rnn_cell.BasicLSTMCell(3, name="shared")
  one, _ = tf.nn.dynamic_rnn(cell, _x(), dtype=tf.float32)
  two, _ = tf.nn.dynamic_rnn(cell, _x() * 2, dtype=tf.float32)
  return {"one": one, "two": two}


class _Cell(tf.nn.rnn_cell.RNNCell):
  def __init__(self, size):
    super(_Cell, self).__init__()
    self._size = size

  @property
  def state_size(self):
    return self._size

  @property
  def output_size(self):
    return self._size

  def __call__(self, inputs, state, scope=None):
    with tf.variable_scope(scope or type(self).__name__):
      joined = tf.concat([inputs, state], 1)
      w = tf.get_variable("w", [joined.shape[1].value, self._size])
      new = tf.tanh(tf.matmul(joined, w))
    return new, new


def own_cell():
  return _named(*tf.nn.dynamic_rnn(_Cell(3), _x(), dtype=tf.float32))


def direct_calls():
  cell = tf.nn.rnn_cell.LSTMCell(3)
  x = tf.constant(_X[:, 0])
  state = cell.zero_state(3, tf.float32)
  with tf.variable_scope("step"):
    output, state = cell(x, state)
    output, state = cell(output[:, :1] + x, state)
  names = " ".join(v.name for v in cell.variables)
  return dict(
    _named(output, state),
    names=names,
    size=str(cell.state_size),
    kind=str(isinstance(state, tf.nn.rnn_cell.LSTMStateTuple)),
  )
