"""The memory of an attention mechanism: what it reads, and how long that is."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

KeyValueFn = Callable[[Any, Any], tuple[Any, Any]]
ProbabilityFn = Callable[[Any, Any], Any]


class AttentionMechanism:
  """The attention of a cell; a base class."""

  @property
  def alignments_size(self) -> Any:
    """How many elements the memory has."""
    raise NotImplementedError

  @property
  def state_size(self) -> Any:
    """The size of the mechanism's state."""
    raise NotImplementedError


class BaseAttentionMechanism(AttentionMechanism):
  """Has a memory, and layers that queries and the memory go through.

  A subclass has `__call__(query, state)`, which returns the alignments [batch,
  memory] and the next state.
  """

  def __init__(
    self,
    query_layer: Any,
    memory: Any,
    probability_fn: ProbabilityFn,
    memory_sequence_length: Any = None,
    memory_layer: Any = None,
    check_inner_dims_defined: bool = True,
    score_mask_value: Any = None,
    custom_key_value_fn: KeyValueFn | None = None,
    name: str | None = None,
  ):
    """Makes the mechanism, and its keys and values.

    Args:
      query_layer: a layer for queries, or None; its dtype is the mechanism's.
      memory: [batch, memory, ...].
      probability_fn: gives alignments for (score, state).
      memory_sequence_length: [batch]; the memory behind it is not seen.
      memory_layer: a layer that makes keys from values, or None.
      check_inner_dims_defined: whether the memory's sizes but the first two
        have to be known.
      score_mask_value: the score of what is not seen; minus infinity by
        default.
      custom_key_value_fn: makes the final (keys, values) from (keys, values).
      name: of the scope of the operations.

    Raises:
      TypeError: if a layer is not a layer, or probability_fn no function.
      ValueError: if the memory has a size that is not known.
    """
    _check_layer("query_layer", query_layer)
    _check_layer("memory_layer", memory_layer)
    if not callable(probability_fn):
      raise TypeError(f"probability_fn={probability_fn!r} is no function.")
    self._query_layer = query_layer
    self._memory_layer = memory_layer
    self.dtype = (memory_layer or query_layer).dtype
    if score_mask_value is None:
      score_mask_value = tf.as_dtype(self.dtype).as_numpy_dtype("-inf")
    self._probability_fn: ProbabilityFn = lambda score, state: probability_fn(
      maybe_mask_score(
        score,
        memory_sequence_length=memory_sequence_length,
        score_mask_value=score_mask_value,
      ),
      state,
    )
    with tf.compat.v1.name_scope(
      name, "BaseAttentionMechanismInit", tf.nest.flatten(memory)
    ):
      self._values = prepare_memory(
        memory,
        memory_sequence_length,
        check_inner_dims_defined=check_inner_dims_defined,
      )
      self._keys = memory_layer(self._values) if memory_layer else self._values
      if custom_key_value_fn is not None:
        self._keys, self._values = custom_key_value_fn(self._keys, self._values)
      self._batch_size = self._keys.shape[0] or tf.shape(self._keys)[0]
      self._alignments_size = self._keys.shape[1] or tf.shape(self._keys)[1]

  @property
  def memory_layer(self) -> Any:
    """The layer that makes keys from values, or None."""
    return self._memory_layer

  @property
  def query_layer(self) -> Any:
    """The layer that queries go through, or None."""
    return self._query_layer

  @property
  def values(self) -> Any:
    """The memory that is read, 0 behind its end [batch, memory, ...]."""
    return self._values

  @property
  def keys(self) -> Any:
    """The keys that queries are compared with [batch, memory, units]."""
    return self._keys

  @property
  def batch_size(self) -> Any:
    """An integer if it is known, else a tensor."""
    return self._batch_size

  @property
  def alignments_size(self) -> Any:
    """How many elements the memory has: an integer, or a tensor."""
    return self._alignments_size

  @property
  def state_size(self) -> Any:
    """That of the alignments."""
    return self._alignments_size

  def initial_alignments(self, batch_size: Any, dtype: Any) -> tf.Tensor:
    """Returns the alignments before the first step: zeros.

    Args:
      batch_size: the number of rows.
      dtype: of the result.
    """
    batch_size = tf.compat.v1.dimension_value(batch_size)
    return tf.zeros([batch_size, self._alignments_size], dtype)

  def initial_state(self, batch_size: Any, dtype: Any) -> tf.Tensor:
    """Returns the state before the first step: the alignments.

    Args:
      batch_size: the number of rows.
      dtype: of the result.
    """
    return self.initial_alignments(batch_size, dtype)


def maybe_mask_score(
  score: tf.Tensor,
  memory_sequence_length: Any = None,
  memory_mask: Any = None,
  score_mask_value: Any = None,
) -> tf.Tensor:
  """Returns scores that are `score_mask_value` behind the memory's end.

  Args:
    score: [batch, memory].
    memory_sequence_length: [batch], each above 0; or None.
    memory_mask: bool [batch, memory], instead of it; or None.
    score_mask_value: a number.

  Raises:
    ValueError: if both are given.
  """
  _check_one_of(memory_sequence_length, memory_mask)
  if memory_sequence_length is not None:
    positive = tf.compat.v1.assert_positive(
      memory_sequence_length,
      message="All values in memory_sequence_length must be above 0.",
    )
    with tf.control_dependencies([] if positive is None else [positive]):
      memory_mask = tf.sequence_mask(memory_sequence_length, tf.shape(score)[1])
  if memory_mask is None:
    return score
  return tf.where(memory_mask, score, tf.cast(score_mask_value, score.dtype))


def prepare_memory(
  memory: Any,
  memory_sequence_length: Any = None,
  memory_mask: Any = None,
  check_inner_dims_defined: bool = True,
) -> Any:
  """Returns memories that are 0 behind their ends.

  Args:
    memory: one or more tensors [batch, memory, ...].
    memory_sequence_length: [batch], or None.
    memory_mask: bool [batch, memory], instead of it; or None.
    check_inner_dims_defined: whether the sizes but the first two have to be
      known.

  Raises:
    ValueError: if both are given, or a size is not known.
  """
  memory = tf.nest.map_structure(tf.convert_to_tensor, memory)
  _check_one_of(memory_sequence_length, memory_mask)
  if check_inner_dims_defined:
    for one in tf.nest.flatten(memory):
      if not one.shape[2:].is_fully_defined():
        raise ValueError(
          f"memory has the shape {one.shape}; its sizes but the first two have "
          "to be known."
        )
  if memory_sequence_length is not None:
    longest = tf.shape(tf.nest.flatten(memory)[0])[1]
    memory_mask = tf.sequence_mask(memory_sequence_length, longest)
  if memory_mask is None:
    return memory

  def seen(one: tf.Tensor) -> tf.Tensor:
    mask = tf.cast(memory_mask, one.dtype)
    ones = tf.ones([tf.rank(one) - 2], tf.int32)
    return one * tf.reshape(mask, tf.concat([tf.shape(mask), ones], 0))

  return tf.nest.map_structure(seen, memory)


def _check_layer(name: str, layer: Any) -> None:
  is_layer = isinstance(
    layer, (tf.compat.v1.layers.Layer, tf.compat.v1.keras.layers.Layer)
  )
  if layer is not None and not is_layer:
    raise TypeError(f"{name}={layer!r} must be a layer or None.")


def _check_one_of(memory_sequence_length: Any, memory_mask: Any) -> None:
  if memory_sequence_length is not None and memory_mask is not None:
    raise ValueError("Give memory_sequence_length or memory_mask, not both.")
