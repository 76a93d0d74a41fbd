"""Helpers that feed the embeddings of what they sampled."""

from typing import Any

from compat.contrib.seq2seq.helper import Helper

import tensorflow as tf


def embedding_function(embedding: Any) -> Any:
  """Returns what makes vectors of ids.

  Args:
    embedding: such a function, or the `params` of tf.nn.embedding_lookup.
  """
  if callable(embedding):
    return embedding
  return lambda ids: tf.compat.v1.nn.embedding_lookup(embedding, ids)


def check_tokens(start_tokens: Any, end_token: Any) -> tuple[Any, Any]:
  """Returns both as tensors.

  Args:
    start_tokens: int32 [batch].
    end_token: int32, a scalar.

  Raises:
    ValueError: if they have other shapes.
  """
  start = tf.convert_to_tensor(start_tokens, tf.int32, name="start_tokens")
  end = tf.convert_to_tensor(end_token, tf.int32, name="end_token")
  if start.shape.rank != 1:
    raise ValueError(
      f"start_tokens has the shape {start.shape}; it must be a vector, [batch]."
    )
  if end.shape.rank != 0:
    raise ValueError(
      f"end_token has the shape {end.shape}; it must be a scalar."
    )
  return start, end


class GreedyEmbeddingHelper(Helper):
  """Takes the most probable id, and feeds its embedding."""

  def __init__(self, embedding: Any, start_tokens: Any, end_token: Any):
    """Makes the helper.

    Args:
      embedding: makes inputs of ids: a function, or the `params` of
        tf.nn.embedding_lookup.
      start_tokens: int32 [batch].
      end_token: int32, a scalar: ends a sequence.

    Raises:
      ValueError: if tokens have other shapes.
    """
    self._embedding_fn = embedding_function(embedding)
    self._start_tokens, self._end_token = check_tokens(start_tokens, end_token)
    self._batch_size = tf.size(self._start_tokens)
    self._start_inputs = self._embedding_fn(self._start_tokens)

  @property
  def batch_size(self) -> Any:
    """The number of sequences, a scalar."""
    return self._batch_size

  @property
  def sample_ids_shape(self) -> Any:
    """A scalar."""
    return tf.TensorShape([])

  @property
  def sample_ids_dtype(self) -> Any:
    """That of ids, int32."""
    return tf.int32

  def initialize(self, name: str | None = None) -> tuple[Any, Any]:
    """Returns (finished, first inputs).

    Args:
      name: unused.
    """
    return tf.fill([self._batch_size], False), self._start_inputs

  def sample(
    self, time: Any, outputs: Any, state: Any, name: str | None = None
  ) -> Any:
    """Returns the ids with the largest logits.

    Args:
      time: unused.
      outputs: the logits [batch, ids].
      state: unused.
      name: unused.

    Raises:
      TypeError: if the outputs are no tensor.
    """
    if not tf.is_tensor(outputs):
      raise TypeError(f"outputs={outputs!r} must be one tensor.")
    return tf.argmax(outputs, -1, output_type=tf.int32)

  def next_inputs(
    self,
    time: Any,
    outputs: Any,
    state: Any,
    sample_ids: Any,
    name: str | None = None,
  ) -> tuple[Any, Any, Any]:
    """Returns (finished, embeddings of the ids, the same state).

    Args:
      time: unused.
      outputs: unused.
      state: after the step.
      sample_ids: the ids.
      name: unused.
    """
    finished = tf.equal(sample_ids, self._end_token)
    inputs = tf.cond(
      tf.reduce_all(finished),
      lambda: self._start_inputs,  # No one reads them.
      lambda: self._embedding_fn(sample_ids),
    )
    return finished, inputs, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
  """Draws an id, and feeds its embedding."""

  def __init__(
    self,
    embedding: Any,
    start_tokens: Any,
    end_token: Any,
    softmax_temperature: Any = None,
    seed: int | None = None,
  ):
    """Makes the helper.

    Args:
      embedding: makes inputs of ids: a function, or the `params` of
        tf.nn.embedding_lookup.
      start_tokens: int32 [batch].
      end_token: int32, a scalar: ends a sequence.
      softmax_temperature: divides the logits; 1.0 by default.
      seed: of the draws.

    Raises:
      ValueError: if tokens have other shapes.
    """
    super().__init__(embedding, start_tokens, end_token)
    self._softmax_temperature = softmax_temperature
    self._seed = seed

  def sample(
    self, time: Any, outputs: Any, state: Any, name: str | None = None
  ) -> Any:
    """Returns ids, drawn as their logits say.

    Args:
      time: unused.
      outputs: the logits [batch, ids].
      state: unused.
      name: unused.

    Raises:
      TypeError: if the outputs are no tensor.
    """
    if not tf.is_tensor(outputs):
      raise TypeError(f"outputs={outputs!r} must be one tensor.")
    if self._softmax_temperature is not None:
      outputs /= self._softmax_temperature
    return draw(outputs, self._seed)


def draw(logits: Any, seed: int | None = None) -> tf.Tensor:
  """Returns one id for each row.

  Args:
    logits: [batch, ids].
    seed: of the draw.
  """
  drawn = tf.random.categorical(logits, 1, tf.int32, seed)
  return tf.squeeze(drawn, [1])
