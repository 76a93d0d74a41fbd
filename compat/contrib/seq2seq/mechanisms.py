"""The attention mechanisms."""

import functools
from collections.abc import Callable
from typing import Any

from compat.contrib.seq2seq.memory import (
  BaseAttentionMechanism,
  KeyValueFn,
)
from compat.contrib.seq2seq.monotonic import monotonic_probability_fn

import tensorflow as tf

Probabilities = Callable[[Any], Any]


def bahdanau_score(
  processed_query: tf.Tensor,
  keys: tf.Tensor,
  attention_v: Any,
  attention_g: Any = None,
  attention_b: Any = None,
) -> tf.Tensor:
  """Returns additive scores [batch, memory].

  Args:
    processed_query: [batch, units].
    keys: [batch, memory, units].
    attention_v: the weights of units.
    attention_g: the norm that the weights are given, or None.
    attention_b: added to each unit, or None.
  """
  units = keys + processed_query[:, tf.newaxis]
  if attention_b is not None:
    units += attention_b
  weights = attention_v
  if attention_g is not None:
    norm = tf.math.rsqrt(tf.reduce_sum(tf.square(attention_v)))
    weights = attention_g * attention_v * norm
  return tf.reduce_sum(weights * tf.tanh(units), 2)


def luong_score(query: tf.Tensor, keys: tf.Tensor, scale: Any) -> tf.Tensor:
  """Returns multiplicative scores [batch, memory].

  Args:
    query: [batch, units].
    keys: [batch, memory, units].
    scale: a factor, or None.

  Raises:
    ValueError: if queries and keys have not the same, known, size.
  """
  depth, key_units = query.shape[-1], keys.shape[-1]
  if depth is None or depth != key_units:
    raise ValueError(
      f"The query has the shape {query.shape} and the keys {keys.shape}: their "
      "last sizes must be known and equal. Set num_units of the attention "
      f"mechanism to the query's, {depth}."
    )
  score = tf.squeeze(tf.matmul(query[:, tf.newaxis], keys, transpose_b=True), 1)
  return score if scale is None else scale * score


class _Bahdanau(BaseAttentionMechanism):
  """The variables of additive attention."""

  _num_units: int
  _normalize: bool

  def _query_and_score(self, query: tf.Tensor) -> tf.Tensor:
    if self.query_layer is not None:
      query = self.query_layer(query)
    get = tf.compat.v1.get_variable
    units, dtype = self._num_units, query.dtype
    v = get("attention_v", [units], dtype)
    g = b = None
    if self._normalize:
      constant = tf.compat.v1.constant_initializer
      g = get("attention_g", [], dtype, constant((1.0 / units) ** 0.5))
      b = get("attention_b", [units], dtype, constant(0.0))
    return bahdanau_score(query, self._keys, v, g, b)


class _Luong(BaseAttentionMechanism):
  """The variable of multiplicative attention."""

  _scale: bool

  def _query_and_score(self, query: tf.Tensor) -> tf.Tensor:
    g = None
    if self._scale:
      one = tf.compat.v1.ones_initializer()
      g = tf.compat.v1.get_variable("attention_g", [], query.dtype, one)
    return luong_score(query, self._keys, g)


class LuongAttention(_Luong):
  """Multiplicative attention.

  Luong, Pham and Manning, "Effective Approaches to Attention-based Neural
  Machine Translation", 2015.
  """

  def __init__(
    self,
    num_units: int,
    memory: Any,
    memory_sequence_length: Any = None,
    scale: bool = False,
    probability_fn: Probabilities | None = None,
    score_mask_value: Any = None,
    dtype: Any = None,
    custom_key_value_fn: KeyValueFn | None = None,
    name: str = "LuongAttention",
  ):
    """Makes the mechanism, with the variable "memory_layer/kernel".

    Args:
      num_units: the size of keys, which is that of queries.
      memory: [batch, memory, ...].
      memory_sequence_length: [batch]; the memory behind it is not seen.
      scale: whether scores have a factor, "luong_attention/attention_g".
      probability_fn: makes alignments of scores; tf.nn.softmax by default.
      score_mask_value: the score of what is not seen; minus infinity by
        default.
      dtype: of the variables; float32 by default.
      custom_key_value_fn: makes the final (keys, values) from (keys, values).
      name: of the operations.
    """
    probabilities = probability_fn or tf.nn.softmax
    super().__init__(
      query_layer=None,
      memory_layer=_dense("memory_layer", num_units, dtype),
      memory=memory,
      probability_fn=lambda score, _: probabilities(score),
      memory_sequence_length=memory_sequence_length,
      score_mask_value=score_mask_value,
      custom_key_value_fn=custom_key_value_fn,
      name=name,
    )
    self._num_units = int(num_units)
    self._scale = scale
    self._name = name

  def __call__(
    self, query: tf.Tensor, state: Any
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the alignments [batch, memory], twice.

    Args:
      query: [batch, num_units].
      state: the alignments before.
    """
    with tf.compat.v1.variable_scope(None, "luong_attention", [query]):
      alignments = self._probability_fn(self._query_and_score(query), state)
    return alignments, alignments


class BahdanauAttention(_Bahdanau):
  """Additive attention.

  Bahdanau, Cho and Bengio, "Neural Machine Translation by Jointly Learning to
  Align and Translate", 2015; normalized as in Salimans and Kingma, "Weight
  Normalization", 2016.
  """

  def __init__(
    self,
    num_units: int,
    memory: Any,
    memory_sequence_length: Any = None,
    normalize: bool = False,
    probability_fn: Probabilities | None = None,
    score_mask_value: Any = None,
    dtype: Any = None,
    custom_key_value_fn: KeyValueFn | None = None,
    name: str = "BahdanauAttention",
  ):
    """Makes the mechanism, with the variable "memory_layer/kernel".

    Args:
      num_units: the size of keys and of processed queries.
      memory: [batch, memory, ...].
      memory_sequence_length: [batch]; the memory behind it is not seen.
      normalize: whether the weights' norm is a variable of its own.
      probability_fn: makes alignments of scores; tf.nn.softmax by default.
      score_mask_value: the score of what is not seen; minus infinity by
        default.
      dtype: of the variables; float32 by default.
      custom_key_value_fn: makes the final (keys, values) from (keys, values).
      name: of the operations.
    """
    probabilities = probability_fn or tf.nn.softmax
    super().__init__(
      query_layer=_dense("query_layer", num_units, dtype),
      memory_layer=_dense("memory_layer", num_units, dtype),
      memory=memory,
      probability_fn=lambda score, _: probabilities(score),
      memory_sequence_length=memory_sequence_length,
      score_mask_value=score_mask_value,
      custom_key_value_fn=custom_key_value_fn,
      name=name,
    )
    self._num_units = int(num_units)
    self._normalize = normalize
    self._name = name

  def __call__(
    self, query: tf.Tensor, state: Any
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the alignments [batch, memory], twice.

    Args:
      query: [batch, size].
      state: the alignments before.
    """
    with tf.compat.v1.variable_scope(None, "bahdanau_attention", [query]):
      alignments = self._probability_fn(self._query_and_score(query), state)
    return alignments, alignments


class BaseMonotonicAttentionMechanism(BaseAttentionMechanism):
  """Begins at the first element of the memory."""

  def initial_alignments(self, batch_size: Any, dtype: Any) -> tf.Tensor:
    """Returns the alignments before the first step, all at the first element.

    Args:
      batch_size: the number of rows.
      dtype: of the result.
    """
    batch_size = tf.compat.v1.dimension_value(batch_size)
    first = tf.zeros([batch_size], tf.int32)
    return tf.one_hot(first, self._alignments_size, dtype=dtype)


def _score_bias(initial: float, dtype: Any) -> Any:
  return tf.compat.v1.get_variable(
    "attention_score_bias",
    [],
    dtype,
    tf.compat.v1.constant_initializer(initial),
  )


class BahdanauMonotonicAttention(_Bahdanau, BaseMonotonicAttentionMechanism):
  """Monotonic attention with additive scores; see monotonic.py."""

  def __init__(
    self,
    num_units: int,
    memory: Any,
    memory_sequence_length: Any = None,
    normalize: bool = False,
    score_mask_value: Any = None,
    sigmoid_noise: float = 0.0,
    sigmoid_noise_seed: int | None = None,
    score_bias_init: float = 0.0,
    mode: str = "parallel",
    dtype: Any = None,
    name: str = "BahdanauMonotonicAttention",
  ):
    """Makes the mechanism, with the variable "memory_layer/kernel".

    Args:
      num_units: the size of keys and of processed queries.
      memory: [batch, memory, ...].
      memory_sequence_length: [batch]; the memory behind it is not seen.
      normalize: whether the weights' norm is a variable of its own.
      score_mask_value: the score of what is not seen; minus infinity by
        default.
      sigmoid_noise: the standard deviation of noise on scores.
      sigmoid_noise_seed: of the noise.
      score_bias_init: of the variable that is added to scores; below 0 the
        attention goes far at first.
      mode: of monotonic_attention.
      dtype: of the variables; float32 by default.
      name: of the operations.
    """
    super().__init__(
      query_layer=_dense("query_layer", num_units, dtype),
      memory_layer=_dense("memory_layer", num_units, dtype),
      memory=memory,
      probability_fn=functools.partial(
        monotonic_probability_fn,
        sigmoid_noise=sigmoid_noise,
        mode=mode,
        seed=sigmoid_noise_seed,
      ),
      memory_sequence_length=memory_sequence_length,
      score_mask_value=score_mask_value,
      name=name,
    )
    self._num_units = int(num_units)
    self._normalize = normalize
    self._name = name
    self._score_bias_init = score_bias_init

  def __call__(
    self, query: tf.Tensor, state: Any
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the alignments [batch, memory], twice.

    Args:
      query: [batch, size].
      state: the alignments before.
    """
    with tf.compat.v1.variable_scope(
      None, "bahdanau_monotonic_attention", [query]
    ):
      score = self._query_and_score(query)
      score += _score_bias(self._score_bias_init, score.dtype)
      alignments = self._probability_fn(score, state)
    return alignments, alignments


class LuongMonotonicAttention(_Luong, BaseMonotonicAttentionMechanism):
  """Monotonic attention with multiplicative scores; see monotonic.py."""

  def __init__(
    self,
    num_units: int,
    memory: Any,
    memory_sequence_length: Any = None,
    scale: bool = False,
    score_mask_value: Any = None,
    sigmoid_noise: float = 0.0,
    sigmoid_noise_seed: int | None = None,
    score_bias_init: float = 0.0,
    mode: str = "parallel",
    dtype: Any = None,
    name: str = "LuongMonotonicAttention",
  ):
    """Makes the mechanism, with the variable "memory_layer/kernel".

    Args:
      num_units: the size of keys, which is that of queries.
      memory: [batch, memory, ...].
      memory_sequence_length: [batch]; the memory behind it is not seen.
      scale: whether scores have a factor.
      score_mask_value: the score of what is not seen; minus infinity by
        default.
      sigmoid_noise: the standard deviation of noise on scores.
      sigmoid_noise_seed: of the noise.
      score_bias_init: of the variable that is added to scores; below 0 the
        attention goes far at first.
      mode: of monotonic_attention.
      dtype: of the variables; float32 by default.
      name: of the operations.
    """
    super().__init__(
      query_layer=None,
      memory_layer=_dense("memory_layer", num_units, dtype),
      memory=memory,
      probability_fn=functools.partial(
        monotonic_probability_fn,
        sigmoid_noise=sigmoid_noise,
        mode=mode,
        seed=sigmoid_noise_seed,
      ),
      memory_sequence_length=memory_sequence_length,
      score_mask_value=score_mask_value,
      name=name,
    )
    self._num_units = int(num_units)
    self._scale = scale
    self._name = name
    self._score_bias_init = score_bias_init

  def __call__(
    self, query: tf.Tensor, state: Any
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the alignments [batch, memory], twice.

    Args:
      query: [batch, num_units].
      state: the alignments before.
    """
    with tf.compat.v1.variable_scope(
      None, "luong_monotonic_attention", [query]
    ):
      score = self._query_and_score(query)
      score += _score_bias(self._score_bias_init, score.dtype)
      alignments = self._probability_fn(score, state)
    return alignments, alignments


def _dense(name: str, units: int, dtype: Any) -> Any:
  return tf.compat.v1.layers.Dense(
    units, name=name, use_bias=False, dtype=dtype or tf.float32
  )
