"""tf.contrib.seq2seq: BeamSearchDecoder, tile_batch, gather_tree."""

import numpy as np
import tensorflow as tf

_RANDOM = np.random.RandomState(3)
_MEMORY = _RANDOM.normal(size=(2, 6, 5)).astype(np.float32)
_STATE = _RANDOM.normal(size=(2, 6)).astype(np.float32)
_LENGTHS = np.array([6, 3], np.int32)
_START = np.array([1, 2], np.int32)
_WORDS = 5
_BEAMS = 3


def _given(array, shape=None):
  return tf.placeholder_with_default(
    array, [None] * array.ndim if shape is None else shape
  )


def _tiled(array):
  shape = [None] * (array.ndim - 1) + [array.shape[-1]]
  return tf.contrib.seq2seq.tile_batch(_given(array, shape), _BEAMS)


def _layer():
  return tf.layers.Dense(
    _WORDS,
    name="projection",
    kernel_initializer=tf.random_normal_initializer(seed=1),
  )


def _searched(cell, state, end=0, start=None, steps=6, layer=True, **kwargs):
  seq2seq = tf.contrib.seq2seq
  embedding = tf.get_variable(
    "embedding", [_WORDS, 4], initializer=tf.random_normal_initializer(seed=2)
  )
  decoder = seq2seq.BeamSearchDecoder(
    cell,
    embedding,
    _given(_START) if start is None else start,
    end,
    state,
    _BEAMS,
    output_layer=_layer() if layer else None,
    **kwargs,
  )
  outputs, state, lengths = seq2seq.dynamic_decode(
    decoder, maximum_iterations=steps
  )
  by_step = outputs.beam_search_decoder_output
  found = {
    "predicted_ids": outputs.predicted_ids,
    "scores": by_step.scores,
    "words": by_step.predicted_ids,
    "parents": by_step.parent_ids,
    "lengths": lengths,
    "log_probs": state.log_probs,
    "finished": state.finished,
    "state_lengths": state.lengths,
  }
  for number, one in enumerate(
    tf.contrib.framework.nest.flatten(state.cell_state)
  ):
    if not isinstance(one, tf.TensorArray):
      found["cell_state_%d" % number] = one
  if not isinstance(state.accumulated_attention_probs, tuple):
    found["read"] = state.accumulated_attention_probs
  return found


def known_batch():
  state = tf.contrib.seq2seq.tile_batch(tf.constant(_STATE), _BEAMS)
  found = _searched(tf.nn.rnn_cell.GRUCell(6), state, start=tf.constant(_START))
  for name in ("predicted_ids", "lengths"):
    found["shape_of_" + name] = str(found[name].shape)
  return found


def length_penalty():
  return _searched(
    tf.nn.rnn_cell.GRUCell(6), _tiled(_STATE), length_penalty_weight=1.5, end=2
  )


def length_penalty_without_layer():
  return _searched(
    tf.nn.rnn_cell.GRUCell(_WORDS),
    _tiled(_STATE[:, :_WORDS]),
    end=tf.constant(3),
    layer=False,
    length_penalty_weight=tf.constant(0.6),
  )


def _attention(history=False, several=False):
  seq2seq = tf.contrib.seq2seq
  mechanism = seq2seq.LuongAttention(6, _tiled(_MEMORY), _tiled_lengths())
  if several:
    with tf.variable_scope("second"):
      second = seq2seq.BahdanauAttention(3, _tiled(_MEMORY))
    mechanism = [mechanism, second]
  cell = seq2seq.AttentionWrapper(
    tf.nn.rnn_cell.LSTMCell(6),
    mechanism,
    attention_layer_size=[4, 3] if several else 4,
    alignment_history=history,
  )
  state = cell.zero_state(2 * _BEAMS, tf.float32).clone(
    cell_state=tf.nn.rnn_cell.LSTMStateTuple(_tiled(_STATE), _tiled(_STATE))
  )
  return cell, state


def _tiled_lengths():
  return tf.contrib.seq2seq.tile_batch(_given(_LENGTHS), multiplier=_BEAMS)


def attention_with_history():
  return _searched(*_attention(history=True), end=2)


def attention_of_several():
  return _searched(
    *_attention(history=True, several=True), coverage_penalty_weight=0.2
  )


def coverage_penalty():
  return _searched(
    *_attention(), end=2, coverage_penalty_weight=0.4, length_penalty_weight=0.8
  )


def history_left_as_it_is():
  return _searched(*_attention(history=True), reorder_tensor_arrays=False)


def tile_batch():
  tile = tf.contrib.seq2seq.tile_batch
  state = tf.nn.rnn_cell.LSTMStateTuple(_given(_STATE), tf.constant(_STATE))
  tiled = tile(state, 2)
  return {
    "kind": type(tiled).__name__,
    "c": tiled.c,
    "h": tiled.h,
    "c_shape": str(tiled.c.shape),
    "h_shape": str(tiled.h.shape),
    "vector": tile(_given(_LENGTHS), multiplier=3, name="own"),
    "known": tile(tf.constant(_MEMORY), 2),
  }


def gather_tree():
  steps = np.array(
    [
      [[1, 2, 3], [1, 2, 3]],
      [[4, 5, 6], [4, 9, 6]],
      [[7, 8, 9], [7, 8, 4]],
      [[1, 2, 3], [1, 2, 3]],
    ],
    np.int32,
  )
  parents = np.array(
    [
      [[0, 0, 0], [0, 0, 0]],
      [[0, 1, 1], [2, 1, 0]],
      [[2, 1, 2], [0, 1, 1]],
      [[0, 2, 1], [2, 2, 0]],
    ],
    np.int32,
  )
  gather = tf.contrib.seq2seq.gather_tree
  return {
    "whole": gather(_given(steps), _given(parents), [4, 4], end_token=9),
    "short": gather(_given(steps), _given(parents), [3, 0], end_token=10),
    "known": gather(
      step_ids=tf.constant(steps),
      parent_ids=tf.constant(parents),
      max_sequence_lengths=tf.constant([7, 2]),
      end_token=tf.constant(8),
    ),
  }
