"""tf.contrib.rnn: block cells, fused layers and stacks of both directions."""

import numpy as np
import tensorflow as tf

_TIME, _BATCH, _SIZE = 4, 3, 2
_RANDOM = np.random.RandomState(4)
_X = _RANDOM.normal(size=(_TIME, _BATCH, _SIZE)).astype(np.float32)
_C = _RANDOM.normal(size=(_BATCH, 3)).astype(np.float32)
_H = _RANDOM.normal(size=(_BATCH, 3)).astype(np.float32)
_LENGTHS = np.array([4, 2, 0], np.int32)
_rnn = tf.contrib.rnn


def _inputs(dtype=np.float32, shape=(None, None, _SIZE)):
  return tf.placeholder_with_default(_X.astype(dtype), shape)


def _named(outputs, state):
  found = {"outputs": outputs}
  for at, part in enumerate(tf.contrib.framework.nest.flatten(state)):
    found["state_%d" % at] = part
  return found


def _looped(cell):
  return _named(
    *tf.nn.dynamic_rnn(
      cell, _inputs(), _LENGTHS, dtype=tf.float32, time_major=True
    )
  )


def lstm_block_cell_arguments():
  cell = _rnn.LSTMBlockCell(
    3, forget_bias=0.5, cell_clip=0.3, use_peephole=True, name="peeping"
  )
  return _looped(cell)


def lstm_block_cell_of_a_stack():
  cells = [_rnn.LSTMBlockCell(3) for _ in range(2)]
  return _looped(_rnn.MultiRNNCell(cells))


def gru_block_cell_by_cell_size():
  return _looped(_rnn.GRUBlockCell(cell_size=3, name="sized"))


def fused_lengths():
  cell = _rnn.LSTMBlockFusedCell(3, cell_clip=0.2, use_peephole=True)
  lengths = tf.placeholder_with_default(_LENGTHS, [None])
  return _named(*cell(_inputs(), dtype=tf.float32, sequence_length=lengths))


def fused_initial_state():
  state = _rnn.LSTMStateTuple(tf.constant(_C), tf.constant(_H))
  cell = _rnn.LSTMBlockFusedCell(3, forget_bias=0.0, name="own")
  return _named(*cell(_inputs(), state, sequence_length=_LENGTHS))


def fused_called_twice():
  cell = _rnn.LSTMBlockFusedCell(3)
  _, state = cell(_inputs(), dtype=tf.float32)
  outputs, state = cell(_inputs() * 2, state)
  found = _named(outputs, state)
  found["weights"] = ",".join(one.name for one in cell.weights)
  found["scope"] = cell.scope_name
  found["units"] = cell.num_units
  return found


def fused_known_shape():
  inputs = _inputs(shape=_X.shape)
  outputs, state = _rnn.LSTMBlockFusedCell(3)(
    inputs, dtype=tf.float32, sequence_length=_LENGTHS
  )
  shapes = [outputs.shape.as_list(), state.c.shape.as_list()]
  return dict(_named(outputs, state), shapes=str(shapes))


def time_reversed():
  cell = _rnn.TimeReversedFusedRNN(_rnn.LSTMBlockFusedCell(3))
  return _named(*cell(_inputs(), dtype=tf.float32))


def adaptor():
  cell = _rnn.FusedRNNCellAdaptor(_rnn.GRUBlockCellV2(3))
  return _named(
    *cell(_inputs(shape=_X.shape), dtype=tf.float32, sequence_length=_LENGTHS)
  )


def adaptor_of_a_list():
  cell = _rnn.FusedRNNCellAdaptor(_rnn.LSTMBlockCell(3))
  outputs, state = cell(
    tf.unstack(_inputs(shape=_X.shape)), dtype=tf.float32, scope="unrolled"
  )
  return _named(tf.stack(outputs), state)


def adaptor_dynamic():
  cell = _rnn.FusedRNNCellAdaptor(_rnn.BasicLSTMCell(3), use_dynamic_rnn=True)
  reverse = _rnn.TimeReversedFusedRNN(cell)
  return _named(*reverse(_inputs(), dtype=tf.float32, sequence_length=_LENGTHS))


def stacked():
  outputs, forward, backward = _rnn.stack_bidirectional_rnn(
    [_rnn.LSTMCell(3), _rnn.LSTMCell(2)],
    [_rnn.LSTMCell(2), _rnn.LSTMCell(3)],
    tf.unstack(_inputs(shape=_X.shape)),
    dtype=tf.float32,
    sequence_length=_LENGTHS,
  )
  return _named(tf.stack(outputs), (forward, backward))


def stacked_dynamic():
  outputs, forward, backward = _rnn.stack_bidirectional_dynamic_rnn(
    [_rnn.GRUCell(3), _rnn.GRUCell(2)],
    [_rnn.GRUCell(2), _rnn.GRUCell(3)],
    _inputs(),
    initial_states_fw=[tf.constant(_C), tf.constant(_H[:, :2])],
    dtype=tf.float32,
    sequence_length=_LENGTHS,
    time_major=True,
    scope="both",
  )
  return _named(outputs, (forward, backward))


def axes():
  known = _inputs(shape=(None, _BATCH, _SIZE))
  transposed = _rnn.transpose_batch_time(known)
  return {
    "transposed": transposed,
    "shape": str(transposed.shape.as_list()),
    "size": _rnn.best_effort_input_batch_size([_inputs(), known]),
    "unknown_size": _rnn.best_effort_input_batch_size([_inputs()]),
  }
