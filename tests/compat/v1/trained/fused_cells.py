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
