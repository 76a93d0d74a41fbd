"""Decoders with attention whose steps are unrolled.

Vinyals, Kaiser, Koo, Petrov, Sutskever and Hinton, "Grammar as a Foreign
Language", 2015.
"""

from collections.abc import Callable, Sequence
from typing import Any

from compat.contrib.legacy_seq2seq.decoders import (
  LoopFunction,
  argmax_and_embed,
  check_projection,
  embed,
  looped,
  reuse_variables,
)
from compat.contrib.rnn.cells import linear

import tensorflow as tf


def attention_decoder(
  decoder_inputs: Sequence[Any],
  initial_state: Any,
  attention_states: Any,
  cell: Any,
  output_size: int | None = None,
  num_heads: int = 1,
  loop_function: LoopFunction | None = None,
  dtype: Any = None,
  scope: Any = None,
  initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
  """Runs a cell that reads a memory over the steps.

  Args:
    decoder_inputs: of each step [batch, size].
    initial_state: of the cell.
    attention_states: the memory [batch, memory, size], the last two known.
    cell: an RNNCell.
    output_size: of the outputs; the cell's by default.
    num_heads: how many times the memory is read at each step.
    loop_function: makes the inputs, but the first, of (output, step).
    dtype: of the first attention; the scope's by default.
    scope: "attention_decoder" by default.
    initial_state_attention: whether the initial state reads, too; otherwise the
      first step has read zeros.

  Returns:
    The outputs of the steps, and the last state.

  Raises:
    ValueError: if there are no inputs or heads, or the memory has unknown
      sizes.
  """
  if not decoder_inputs:
    raise ValueError("decoder_inputs must have at least one step; it has none.")
  if num_heads < 1:
    raise ValueError(f"num_heads={num_heads} must be at least 1.")
  if not attention_states.shape[1:].is_fully_defined():
    raise ValueError(
      f"attention_states have the shape {attention_states.shape}; all sizes "
      "but the batch's must be known."
    )
  output_size = cell.output_size if output_size is None else output_size
  with tf.compat.v1.variable_scope(
    scope or "attention_decoder", dtype=dtype
  ) as variable_scope:
    attend = _attention(attention_states, num_heads)
    state = initial_state
    if initial_state_attention:
      read = attend(initial_state)
    else:
      batch_size = tf.shape(decoder_inputs[0])[0]
      size = attention_states.shape[2]
      zeros = tf.zeros([batch_size, size], variable_scope.dtype)
      read = [zeros] * num_heads
    outputs: list[Any] = []
    for step, inputs in enumerate(decoder_inputs):
      if step:
        reuse_variables()
      if loop_function is not None and outputs:
        inputs = looped(loop_function, outputs[-1], step)
      if inputs.shape.rank is None or inputs.shape[1] is None:
        raise ValueError(
          f"An input of attention_decoder has the shape {inputs.shape}; its "
          "last size must be known."
        )
      joined = linear([inputs, *read], inputs.shape[1])
      output, state = cell(joined, state)
      # The initial state may have made the variables before the first step.
      with tf.compat.v1.variable_scope(
        tf.compat.v1.get_variable_scope(),
        reuse=True if initial_state_attention else None,
      ):
        read = attend(state)
      with tf.compat.v1.variable_scope("AttnOutputProjection"):
        outputs.append(linear([output, *read], output_size))
  return outputs, state


def _attention(memory: Any, num_heads: int) -> Callable[[Any], list[Any]]:
  """Returns what reads the memory, with the queries of all heads."""
  length, size = memory.shape[1:]
  pixels = tf.reshape(memory, [-1, length, 1, size])
  get = tf.compat.v1.get_variable
  heads = []
  for head in range(num_heads):
    weights = get(f"AttnW_{head}", [1, 1, size, size])
    features = tf.nn.conv2d(pixels, weights, [1, 1, 1, 1], "SAME")
    heads.append((features, get(f"AttnV_{head}", [size])))

  def attend(query: Any) -> list[Any]:
    joined = tf.concat(tf.nest.flatten(query), 1)
    read = []
    for head, (features, vector) in enumerate(heads):
      with tf.compat.v1.variable_scope(f"Attention_{head}"):
        asked = tf.reshape(linear([joined], size), [-1, 1, 1, size])
        asked = tf.cast(asked, features.dtype)
        scores = tf.reduce_sum(vector * tf.tanh(features + asked), [2, 3])
        weights = tf.nn.softmax(tf.cast(scores, tf.float32))
        weights = tf.cast(tf.reshape(weights, [-1, length, 1, 1]), pixels.dtype)
        found = tf.reduce_sum(weights * pixels, [1, 2])
        read.append(tf.reshape(found, [-1, size]))
    return read

  return attend


def embedding_attention_decoder(
  decoder_inputs: Sequence[Any],
  initial_state: Any,
  attention_states: Any,
  cell: Any,
  num_symbols: int,
  embedding_size: int,
  num_heads: int = 1,
  output_size: int | None = None,
  output_projection: tuple[Any, Any] | None = None,
  feed_previous: bool = False,
  update_embedding_for_previous: bool = True,
  dtype: Any = None,
  scope: Any = None,
  initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
  """Runs attention_decoder over the embeddings of the steps.

  Args:
    decoder_inputs: of each step, int32 [batch].
    initial_state: of the cell.
    attention_states: the memory [batch, memory, size].
    cell: an RNNCell.
    num_symbols: the number of ids.
    embedding_size: of the variable "embedding".
    num_heads: how many times the memory is read at each step.
    output_size: of the outputs; the cell's by default.
    output_projection: weights [output_size, num_symbols] and biases that make
      logits of outputs, where feed_previous needs them.
    feed_previous: whether the inputs, but the first, are the most probable ids
      of the step before.
    update_embedding_for_previous: whether the embedding has a gradient by them.
    dtype: of the first attention; the scope's by default.
    scope: "embedding_attention_decoder" by default.
    initial_state_attention: whether the initial state reads, too.

  Returns:
    The outputs of the steps, and the last state.
  """
  output_size = cell.output_size if output_size is None else output_size
  check_projection(output_projection, output_size, num_symbols)
  with tf.compat.v1.variable_scope(
    scope or "embedding_attention_decoder", dtype=dtype
  ):
    embedding = tf.compat.v1.get_variable(
      "embedding", [num_symbols, embedding_size]
    )
    function = None
    if feed_previous:
      function = argmax_and_embed(
        embedding, output_projection, update_embedding_for_previous
      )
    return attention_decoder(
      [embed(embedding, ids) for ids in decoder_inputs],
      initial_state,
      attention_states,
      cell,
      output_size=output_size,
      num_heads=num_heads,
      loop_function=function,
      initial_state_attention=initial_state_attention,
    )
