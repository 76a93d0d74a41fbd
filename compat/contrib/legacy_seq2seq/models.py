"""Encoders and decoders whose steps are unrolled."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compat.contrib.legacy_seq2seq.attention import embedding_attention_decoder
from compat.contrib.legacy_seq2seq.decoders import (
  LoopFunction,
  argmax_and_embed,
  check_projection,
  embed,
  embedding_rnn_decoder,
  reuse_variables,
  rnn_decoder,
)
from compat.contrib.rnn.wrappers import (
  EmbeddingWrapper,
  OutputProjectionWrapper,
)

import tensorflow as tf

_static_rnn = tf.compat.v1.nn.static_rnn

Decoded = tuple[Any, Any]


def basic_rnn_seq2seq(
  encoder_inputs: Sequence[Any],
  decoder_inputs: Sequence[Any],
  cell: Any,
  dtype: Any = tf.float32,
  scope: Any = None,
) -> Decoded:
  """Encodes with a copy of a cell, and decodes with the cell.

  Args:
    encoder_inputs: of each step [batch, size].
    decoder_inputs: of each step [batch, size].
    cell: an RNNCell.
    dtype: of the initial state.
    scope: "basic_rnn_seq2seq" by default.

  Returns:
    The outputs of the decoder's steps, and the last state.
  """
  with tf.compat.v1.variable_scope(scope or "basic_rnn_seq2seq"):
    _, state = _static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
    return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
  encoder_inputs: Sequence[Any],
  decoder_inputs: Sequence[Any],
  cell: Any,
  loop_function: LoopFunction | None = None,
  dtype: Any = tf.float32,
  scope: Any = None,
) -> Decoded:
  """Encodes and decodes with one cell.

  Args:
    encoder_inputs: of each step [batch, size].
    decoder_inputs: of each step [batch, size].
    cell: an RNNCell.
    loop_function: makes the decoder's inputs, but the first, of (output, step).
    dtype: of the initial state.
    scope: of the cell, "tied_rnn_seq2seq" by default.

  Returns:
    The outputs of the decoder's steps, and the last state.
  """
  with tf.compat.v1.variable_scope("combined_tied_rnn_seq2seq"):
    scope = scope or "tied_rnn_seq2seq"
    _, state = _static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
    reuse_variables()
    return rnn_decoder(
      decoder_inputs, state, cell, loop_function=loop_function, scope=scope
    )


def _by_choice(
  feed_previous: Any, decode: Callable[[bool, bool], Decoded]
) -> Decoded:
  """Decodes, with the choice of feed_previous made now or in the session.

  Args:
    feed_previous: a bool or a tensor.
    decode: called with (feed_previous, update_embedding_for_previous).
  """
  if isinstance(feed_previous, bool):
    return decode(feed_previous, True)
  structure: Any = None

  def branch(feeds: bool) -> Any:
    nonlocal structure
    # The branch that is built second has the variables of the first.
    with tf.compat.v1.variable_scope(
      tf.compat.v1.get_variable_scope(), reuse=None if feeds else True
    ):
      structure = decode(feeds, False)
    return tf.nest.flatten(structure)

  flat = tf.cond(feed_previous, lambda: branch(True), lambda: branch(False))
  outputs, state = tf.nest.pack_sequence_as(structure, flat)
  return outputs, state


def _encoded(
  cell: Any, inputs: Sequence[Any], classes: int, size: int, dtype: Any
) -> tuple[Any, Any]:
  """Encodes ids, and returns (outputs, state)."""
  wrapped = EmbeddingWrapper(
    cell, embedding_classes=classes, embedding_size=size
  )
  outputs, state = _static_rnn(wrapped, inputs, dtype=dtype)
  return outputs, state


def _scope(scope: Any, default: str, dtype: Any) -> Any:
  return tf.compat.v1.variable_scope(scope or default, dtype=dtype)


def embedding_rnn_seq2seq(
  encoder_inputs: Sequence[Any],
  decoder_inputs: Sequence[Any],
  cell: Any,
  num_encoder_symbols: int,
  num_decoder_symbols: int,
  embedding_size: int,
  output_projection: tuple[Any, Any] | None = None,
  feed_previous: Any = False,
  dtype: Any = None,
  scope: Any = None,
) -> Decoded:
  """Encodes ids with a copy of a cell, and decodes ids with the cell.

  Args:
    encoder_inputs: of each step, int32 [batch].
    decoder_inputs: of each step, int32 [batch].
    cell: an RNNCell.
    num_encoder_symbols: the number of the encoder's ids.
    num_decoder_symbols: the number of the decoder's.
    embedding_size: of both embeddings.
    output_projection: weights [size, num_decoder_symbols] and biases that make
      logits of outputs; by default the outputs are logits, by a projection.
    feed_previous: a bool or a tensor: whether the decoder's inputs, but the
      first, are the most probable ids of the step before.
    dtype: of the initial state; the scope's by default.
    scope: "embedding_rnn_seq2seq" by default.

  Returns:
    The outputs of the decoder's steps, and the last state.
  """
  with _scope(scope, "embedding_rnn_seq2seq", dtype) as variable_scope:
    _, state = _encoded(
      copy.deepcopy(cell),
      encoder_inputs,
      num_encoder_symbols,
      embedding_size,
      variable_scope.dtype,
    )
    if output_projection is None:
      cell = OutputProjectionWrapper(cell, num_decoder_symbols)
    return _by_choice(
      feed_previous,
      lambda feeds, updates: embedding_rnn_decoder(
        decoder_inputs,
        state,
        cell,
        num_decoder_symbols,
        embedding_size,
        output_projection=output_projection,
        feed_previous=feeds,
        update_embedding_for_previous=updates,
      ),
    )


def embedding_tied_rnn_seq2seq(
  encoder_inputs: Sequence[Any],
  decoder_inputs: Sequence[Any],
  cell: Any,
  num_symbols: int,
  embedding_size: int,
  num_decoder_symbols: int | None = None,
  output_projection: tuple[Any, Any] | None = None,
  feed_previous: Any = False,
  dtype: Any = None,
  scope: Any = None,
) -> Decoded:
  """Encodes and decodes ids with one cell and one embedding.

  Args:
    encoder_inputs: of each step, int32 [batch].
    decoder_inputs: of each step, int32 [batch].
    cell: an RNNCell.
    num_symbols: the number of ids.
    embedding_size: of the embedding.
    num_decoder_symbols: the number of the decoder's outputs; num_symbols by
      default.
    output_projection: weights [size, num_symbols] and biases that make logits
      of outputs; by default the outputs are logits, by a projection.
    feed_previous: a bool or a tensor: whether the decoder's inputs, but the
      first, are the most probable ids of the step before.
    dtype: of the initial state; the scope's by default.
    scope: "embedding_tied_rnn_seq2seq" by default.

  Returns:
    The outputs of the decoder's steps, and the last state.
  """
  with _scope(scope, "embedding_tied_rnn_seq2seq", dtype) as variable_scope:
    check_projection(output_projection, None, num_symbols)
    embedding = tf.compat.v1.get_variable(
      "embedding", [num_symbols, embedding_size], variable_scope.dtype
    )
    encoded = [embed(embedding, ids) for ids in encoder_inputs]
    decoded = [embed(embedding, ids) for ids in decoder_inputs]
    if output_projection is None:
      cell = OutputProjectionWrapper(cell, num_decoder_symbols or num_symbols)
    return _by_choice(
      feed_previous,
      lambda feeds, updates: tied_rnn_seq2seq(
        encoded,
        decoded,
        cell,
        loop_function=argmax_and_embed(embedding, output_projection, updates)
        if feeds
        else None,
        dtype=variable_scope.dtype,
      ),
    )


def embedding_attention_seq2seq(
  encoder_inputs: Sequence[Any],
  decoder_inputs: Sequence[Any],
  cell: Any,
  num_encoder_symbols: int,
  num_decoder_symbols: int,
  embedding_size: int,
  num_heads: int = 1,
  output_projection: tuple[Any, Any] | None = None,
  feed_previous: Any = False,
  dtype: Any = None,
  scope: Any = None,
  initial_state_attention: bool = False,
) -> Decoded:
  """Encodes ids, and decodes ids with attention to the encoder's outputs.

  Args:
    encoder_inputs: of each step, int32 [batch].
    decoder_inputs: of each step, int32 [batch].
    cell: an RNNCell; the encoder has a copy of it.
    num_encoder_symbols: the number of the encoder's ids.
    num_decoder_symbols: the number of the decoder's.
    embedding_size: of both embeddings.
    num_heads: how many times the memory is read at each step.
    output_projection: weights [size, num_decoder_symbols] and biases that make
      logits of outputs; by default the outputs are logits, by a projection.
    feed_previous: a bool or a tensor: whether the decoder's inputs, but the
      first, are the most probable ids of the step before.
    dtype: of the initial state; the scope's by default.
    scope: "embedding_attention_seq2seq" by default.
    initial_state_attention: whether the initial state reads, too.

  Returns:
    The outputs of the decoder's steps, and the last state.
  """
  with _scope(scope, "embedding_attention_seq2seq", dtype) as variable_scope:
    outputs, state = _encoded(
      copy.deepcopy(cell),
      encoder_inputs,
      num_encoder_symbols,
      embedding_size,
      variable_scope.dtype,
    )
    memory = tf.concat(
      [tf.reshape(one, [-1, 1, cell.output_size]) for one in outputs], 1
    )
    output_size = None
    if output_projection is None:
      cell = OutputProjectionWrapper(cell, num_decoder_symbols)
      output_size = num_decoder_symbols
    return _by_choice(
      feed_previous,
      lambda feeds, updates: embedding_attention_decoder(
        decoder_inputs,
        state,
        memory,
        cell,
        num_decoder_symbols,
        embedding_size,
        num_heads=num_heads,
        output_size=output_size,
        output_projection=output_projection,
        feed_previous=feeds,
        update_embedding_for_previous=updates,
        initial_state_attention=initial_state_attention,
      ),
    )


def one2many_rnn_seq2seq(
  encoder_inputs: Sequence[Any],
  decoder_inputs_dict: Mapping[Any, Sequence[Any]],
  enc_cell: Any,
  dec_cells_dict: Mapping[Any, Any],
  num_encoder_symbols: int,
  num_decoder_symbols_dict: Mapping[Any, int],
  embedding_size: int,
  feed_previous: Any = False,
  dtype: Any = None,
  scope: Any = None,
) -> tuple[dict[Any, Any], dict[Any, Any]]:
  """Encodes ids once, and decodes them with several decoders.

  Args:
    encoder_inputs: of each step, int32 [batch].
    decoder_inputs_dict: by decoder, of each step, int32 [batch].
    enc_cell: the encoder's RNNCell.
    dec_cells_dict: the decoders'.
    num_encoder_symbols: the number of the encoder's ids.
    num_decoder_symbols_dict: the numbers of the decoders'.
    embedding_size: of all embeddings.
    feed_previous: a bool or a tensor: whether the decoders' inputs, but the
      first, are the most probable ids of the step before.
    dtype: of the initial state; the scope's by default.
    scope: "one2many_rnn_seq2seq" by default.

  Returns:
    By decoder, the outputs of the steps, and the last state.
  """
  outputs, states = {}, {}
  with _scope(scope, "one2many_rnn_seq2seq", dtype) as variable_scope:
    _, state = _encoded(
      enc_cell,
      encoder_inputs,
      num_encoder_symbols,
      embedding_size,
      variable_scope.dtype,
    )
    for name in decoder_inputs_dict:
      with tf.compat.v1.variable_scope(f"one2many_decoder_{name}"):
        outputs[name], states[name] = _by_choice(
          feed_previous,
          _decoder(
            decoder_inputs_dict[name],
            state,
            dec_cells_dict[name],
            num_decoder_symbols_dict[name],
            embedding_size,
          ),
        )
  return outputs, states


def _decoder(
  inputs: Any, state: Any, cell: Any, symbols: int, size: int
) -> Callable[[bool, bool], Decoded]:
  """Returns what decodes with (feed_previous, update_embedding)."""
  projected = OutputProjectionWrapper(cell, symbols)
  return lambda feeds, updates: embedding_rnn_decoder(
    inputs,
    state,
    projected,
    symbols,
    size,
    feed_previous=feeds,
    update_embedding_for_previous=updates,
  )
