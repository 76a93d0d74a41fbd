"""Decoders whose steps are unrolled."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

LoopFunction = Callable[[Any, int], Any]


def reuse_variables() -> None:
  """Makes all but the first step use the variables of the first."""
  tf.compat.v1.get_variable_scope().reuse_variables()


def looped(function: LoopFunction, output: Any, step: int) -> Any:
  """Returns the next input of the last output.

  Args:
    function: a loop_function.
    output: of the step before.
    step: the number of this one.
  """
  with tf.compat.v1.variable_scope("loop_function", reuse=True):
    return function(output, step)


def argmax_and_embed(
  embedding: Any,
  output_projection: tuple[Any, Any] | None = None,
  update_embedding: bool = True,
) -> LoopFunction:
  """Returns a loop_function: the embedding of the most probable id.

  Args:
    embedding: [ids, size].
    output_projection: weights and biases that make logits of outputs.
    update_embedding: whether the embedding has a gradient by it.
  """

  def function(output: Any, step: int) -> Any:
    del step
    if output_projection is not None:
      weights, biases = output_projection
      output = tf.compat.v1.nn.xw_plus_b(output, weights, biases)
    vectors = embed(embedding, tf.argmax(output, 1))
    return vectors if update_embedding else tf.stop_gradient(vectors)

  return function


def embed(embedding: Any, ids: Any) -> tf.Tensor:
  """Returns the rows of an embedding.

  Args:
    embedding: [ids, size].
    ids: [batch].
  """
  return tf.compat.v1.nn.embedding_lookup(embedding, ids)


def rnn_decoder(
  decoder_inputs: Sequence[Any],
  initial_state: Any,
  cell: Any,
  loop_function: LoopFunction | None = None,
  scope: Any = None,
) -> tuple[list[Any], Any]:
  """Runs a cell over the steps.

  Args:
    decoder_inputs: of each step [batch, size].
    initial_state: of the cell.
    cell: an RNNCell.
    loop_function: makes the inputs, but the first, of (output, step).
    scope: "rnn_decoder" by default.

  Returns:
    The outputs of the steps, and the last state.
  """
  with tf.compat.v1.variable_scope(scope or "rnn_decoder"):
    state = initial_state
    outputs: list[Any] = []
    for step, inputs in enumerate(decoder_inputs):
      if loop_function is not None and outputs:
        inputs = looped(loop_function, outputs[-1], step)
      if step:
        reuse_variables()
      output, state = cell(inputs, state)
      outputs.append(output)
  return outputs, state


def check_projection(
  output_projection: tuple[Any, Any] | None, size: Any, num_symbols: int
) -> None:
  """Raises ValueError unless a projection has the shapes that it needs.

  Args:
    output_projection: weights [size, num_symbols] and biases, or None.
    size: of the outputs; None for any.
    num_symbols: the number of ids.
  """
  if output_projection is None:
    return
  for what, value, wanted in zip(
    ("weights", "biases"),
    output_projection,
    ([size, num_symbols], [num_symbols]),
    strict=True,
  ):
    shape = tf.convert_to_tensor(value).shape
    if not shape.is_compatible_with(wanted):
      raise ValueError(
        f"The {what} of output_projection have the shape {shape}; they must "
        f"be {wanted}."
      )


def embedding_rnn_decoder(
  decoder_inputs: Sequence[Any],
  initial_state: Any,
  cell: Any,
  num_symbols: int,
  embedding_size: int,
  output_projection: tuple[Any, Any] | None = None,
  feed_previous: bool = False,
  update_embedding_for_previous: bool = True,
  scope: Any = None,
) -> tuple[list[Any], Any]:
  """Runs a cell over the embeddings of the steps.

  Args:
    decoder_inputs: of each step, int32 [batch].
    initial_state: of the cell.
    cell: an RNNCell.
    num_symbols: the number of ids.
    embedding_size: of the variable "embedding".
    output_projection: weights [size, num_symbols] and biases that make logits
      of outputs, where feed_previous needs them.
    feed_previous: whether the inputs, but the first, are the most probable ids
      of the step before.
    update_embedding_for_previous: whether the embedding has a gradient by them.
    scope: "embedding_rnn_decoder" by default.

  Returns:
    The outputs of the steps, and the last state.
  """
  with tf.compat.v1.variable_scope(
    scope or "embedding_rnn_decoder"
  ) as variable_scope:
    if output_projection is not None:
      variable_scope.set_dtype(output_projection[0].dtype.base_dtype)
      check_projection(output_projection, None, num_symbols)
    embedding = tf.compat.v1.get_variable(
      "embedding", [num_symbols, embedding_size]
    )
    function = None
    if feed_previous:
      function = argmax_and_embed(
        embedding, output_projection, update_embedding_for_previous
      )
    inputs = [embed(embedding, ids) for ids in decoder_inputs]
    return rnn_decoder(inputs, initial_state, cell, function)
