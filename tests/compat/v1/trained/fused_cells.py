"""Recurrent layers of tf.contrib in one operation, and their relatives."""

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(3).normal(size=(4, 3, 2)).astype(np.float32)
_LENGTHS = np.array([4, 2, 1], np.int32)


def _trained(outputs, **results):
  results["loss"] = tf.reduce_mean(tf.squared_difference(outputs, 0.5))
  step = tf.train.get_or_create_global_step()
  train_op = tf.train.AdamOptimizer(0.1).minimize(results["loss"], step)
  return dict(results, outputs=outputs), train_op


def _inputs():
  return tf.placeholder_with_default(_X, [4, 3, 2])


def lstm_block_fused():
  forward = tf.contrib.rnn.LSTMBlockFusedCell(3, use_peephole=True)
  backward = tf.contrib.rnn.TimeReversedFusedRNN(
    tf.contrib.rnn.LSTMBlockFusedCell(2)
  )
  inputs = _inputs()
  with tf.variable_scope("forward"):
    one, (c, h) = forward(inputs, dtype=tf.float32, sequence_length=_LENGTHS)
  with tf.variable_scope("backward"):
    other, _ = backward(inputs, dtype=tf.float32, sequence_length=_LENGTHS)
  return _trained(tf.concat([one, other], 2), c=c, h=h)


def _looped(cell):
  outputs, _ = tf.nn.dynamic_rnn(
    cell, _inputs(), _LENGTHS, dtype=tf.float32, time_major=True
  )
  return _trained(outputs)


def gru_block():
  return _looped(tf.contrib.rnn.GRUBlockCell(3))


def gru_block_v2():
  return _looped(tf.contrib.rnn.GRUBlockCellV2(3))


def lstm_block():
  return _looped(tf.contrib.rnn.LSTMBlockCell(3))


def layer_norm_lstm():
  return _looped(tf.contrib.rnn.LayerNormBasicLSTMCell(3))


def _cells(make):
  return [make(3) for _ in range(2)]


# The names are those under which CudnnLSTM and its like are stored:
# tests/compat/contrib/cudnn_rnn_test.py restores them there.


def cudnn_compatible_lstm():
  cells = _cells(tf.contrib.cudnn_rnn.CudnnCompatibleLSTMCell)
  with tf.variable_scope("cudnn_lstm"):
    return _looped(tf.nn.rnn_cell.MultiRNNCell(cells))


def cudnn_compatible_tanh():
  cells = _cells(tf.nn.rnn_cell.BasicRNNCell)
  with tf.variable_scope("cudnn_rnn_tanh"):
    return _looped(tf.nn.rnn_cell.MultiRNNCell(cells))


def cudnn_compatible_gru():
  make = tf.contrib.cudnn_rnn.CudnnCompatibleGRUCell
  with tf.variable_scope("cudnn_gru"):
    outputs, _, _ = tf.contrib.rnn.stack_bidirectional_dynamic_rnn(
      _cells(make),
      _cells(make),
      _inputs(),
      dtype=tf.float32,
      sequence_length=_LENGTHS,
      time_major=True,
    )
  return _trained(outputs)
