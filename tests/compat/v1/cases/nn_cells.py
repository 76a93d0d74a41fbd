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


def basic_rnn():
  return _dynamic(tf.nn.rnn_cell.BasicRNNCell(3))


def basic_rnn_named():
  cell = tf.nn.rnn_cell.BasicRNNCell(3, tf.nn.relu, name="plain")
  return _dynamic(cell, sequence_length=_LENGTHS)


def basic_lstm():
  return _dynamic(tf.nn.rnn_cell.BasicLSTMCell(3), sequence_length=_LENGTHS)


def basic_lstm_concatenated_state():
  cell = tf.nn.rnn_cell.BasicLSTMCell(3, 0.5, state_is_tuple=False)
  return _dynamic(cell, sequence_length=_LENGTHS)


def lstm():
  return _dynamic(tf.nn.rnn_cell.LSTMCell(3))


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


def lstm_shards():
  cell = tf.nn.rnn_cell.LSTMCell(
    4, num_proj=2, num_unit_shards=2, num_proj_shards=2, state_is_tuple=False
  )
  return _dynamic(cell)


def gru():
  return _dynamic(tf.nn.rnn_cell.GRUCell(3), sequence_length=_LENGTHS)


def gru_initializers():
  cell = tf.nn.rnn_cell.GRUCell(
    3,
    kernel_initializer=tf.truncated_normal_initializer(stddev=0.3),
    bias_initializer=tf.random_normal_initializer(),
  )
  return _dynamic(cell)


def double_precision():
  cell = tf.nn.rnn_cell.LSTMCell(3)
  return _named(*tf.nn.dynamic_rnn(cell, _inputs(np.float64), dtype=tf.float64))


def stack():
  cells = [tf.nn.rnn_cell.BasicLSTMCell(3), tf.nn.rnn_cell.GRUCell(2)]
  return _dynamic(tf.nn.rnn_cell.MultiRNNCell(cells), sequence_length=_LENGTHS)


def stack_concatenated_state():
  cells = [
    tf.nn.rnn_cell.BasicLSTMCell(3, state_is_tuple=False) for _ in range(2)
  ]
  return _dynamic(tf.nn.rnn_cell.MultiRNNCell(cells, state_is_tuple=False))


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


def dropout_variational():
  cell = tf.nn.rnn_cell.DropoutWrapper(
    tf.nn.rnn_cell.GRUCell(3),
    output_keep_prob=tf.placeholder_with_default(np.float32(0.7), []),
    variational_recurrent=True,
    input_size=_SIZE,
    dtype=tf.float32,
    seed=5,
  )
  return _dynamic(cell)


def time_major_in_a_scope():
  with tf.variable_scope("model", initializer=tf.ones_initializer()):
    return _named(
      *tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(3),
        tf.transpose(_inputs(), [1, 0, 2]),
        _LENGTHS,
        dtype=tf.float32,
        time_major=True,
        scope="decoder",
        swap_memory=True,
      )
    )


def initial_state_and_reuse():
  cell = tf.nn.rnn_cell.LSTMCell(3)
  with tf.variable_scope("a"):
    _, state = tf.nn.dynamic_rnn(cell, _inputs(), dtype=tf.float32)
  with tf.variable_scope("a", reuse=True):
    again = tf.nn.rnn_cell.LSTMCell(3)
    return _named(*tf.nn.dynamic_rnn(again, _inputs() * 2, initial_state=state))


def two_layers_by_scope():
  outputs, _ = tf.nn.dynamic_rnn(
    tf.nn.rnn_cell.GRUCell(3), _inputs(), dtype=tf.float32, scope="one"
  )
  return _named(
    *tf.nn.dynamic_rnn(
      tf.nn.rnn_cell.GRUCell(3), outputs, dtype=tf.float32, scope="two"
    )
  )


def bidirectional():
  outputs, states = tf.nn.bidirectional_dynamic_rnn(
    tf.nn.rnn_cell.LSTMCell(3),
    tf.nn.rnn_cell.LSTMCell(2),
    _inputs(),
    _LENGTHS,
    dtype=tf.float32,
  )
  return _named(tf.concat(outputs, 2), states)


def static():
  outputs, state = tf.nn.static_rnn(
    tf.nn.rnn_cell.BasicLSTMCell(3), _steps(), dtype=tf.float32
  )
  return _named(tf.stack(outputs), state)


def static_lengths():
  outputs, state = tf.nn.static_rnn(
    tf.nn.rnn_cell.GRUCell(3),
    _steps(),
    dtype=tf.float32,
    sequence_length=_LENGTHS,
    scope="unrolled",
  )
  return _named(tf.stack(outputs), state)


def static_bidirectional():
  outputs, forward, backward = tf.nn.static_bidirectional_rnn(
    tf.nn.rnn_cell.GRUCell(3),
    tf.nn.rnn_cell.GRUCell(3),
    _steps(),
    dtype=tf.float32,
    sequence_length=_LENGTHS,
  )
  return _named(tf.stack(outputs), (forward, backward))


class _Saver(object):
  def __init__(self, state):
    self._state = state
    self.saved = {}

  def state(self, name):
    return self._state

  def save_state(self, name, value):
    self.saved[name] = value
    return tf.no_op()


def static_state_saving():
  saver = _Saver(tf.placeholder_with_default(np.ones((3, 3), "f"), [3, 3]))
  outputs, state = tf.nn.static_state_saving_rnn(
    tf.nn.rnn_cell.GRUCell(3), _steps(), saver, "memory"
  )
  return _named(tf.stack(outputs), (state, saver.saved["memory"]))


def raw():
  cell = tf.nn.rnn_cell.LSTMCell(3)
  inputs = tf.TensorArray(tf.float32, _TIME).unstack(
    tf.transpose(_inputs(), [1, 0, 2])
  )

  def step(time, output, state, unused_loop_state):
    following = cell.zero_state(_BATCH, tf.float32) if output is None else state
    finished = time >= _LENGTHS
    return (
      finished,
      tf.cond(
        tf.reduce_all(finished),
        lambda: tf.zeros([_BATCH, _SIZE]),
        lambda: inputs.read(time),
      ),
      following,
      output,
      None,
    )

  outputs, state, _ = tf.nn.raw_rnn(cell, step)
  return _named(outputs.stack(), state)


def one_step_and_another():
  cell = tf.nn.rnn_cell.LSTMCell(3)
  state = cell.zero_state(_BATCH, tf.float32)
  steps = _steps()
  with tf.variable_scope("step") as scope:
    _, state = cell(steps[0], state)
    scope.reuse_variables()
    output, state = cell(steps[1], state)
  return _named(output, state)


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
