"""Self-attention over several heads, with keys and values that can be kept.

Vaswani et al., 2017, arXiv:1706.03762.
"""

from typing import TypeAlias

from model_fns.transformers import layers
from model_fns.transformers.architecture import Architecture

import tensorflow as tf

# Keys and values of a layer, each [batch, heads, length, head size].
KeysAndValues: TypeAlias = tuple[tf.Tensor, tf.Tensor]

_ROTARY_BASE = 10_000.0
# Added to a score, it leaves a probability of 0.
_NEVER = -1e9


def hide(visible: tf.Tensor) -> tf.Tensor:
  """Returns the mask that is added to scores: only visible tokens count.

  Args:
    visible: Booleans, of any shape.
  """
  return tf.where(visible, 0.0, _NEVER)


def self_attention(
  inputs: tf.Tensor,
  architecture: Architecture,
  positions: tf.Tensor,
  hidden: tf.Tensor | None,
  output_stddev: float,
  past: KeysAndValues | None = None,
) -> tuple[tf.Tensor, KeysAndValues]:
  """Returns what each token makes of those that it sees.

  Args:
    inputs: float32 [batch, length, width].
    architecture: The sizes.
    positions: The places of the tokens, from 0; int32 [batch or 1, length].
    hidden: The mask that is added to scores, as `hide` makes it; float32
      [batch or 1, 1, length, keys]. None if each token sees all.
    output_stddev: That of the last kernel's initial values.
    past: Keys and values of tokens before these, which these see too.

  Returns:
    The result, float32 [batch, length, width]; and the keys and values of all
    tokens, those of the past first.
  """
  length, width = layers.length_of(inputs), architecture.hidden_size
  rows = tf.reshape(inputs, [-1, width])

  def by_head(units: tf.Tensor) -> tf.Tensor:
    shape = [-1, length, architecture.num_heads, architecture.head_size]
    return tf.transpose(tf.reshape(units, shape), [0, 2, 1, 3])

  # Scores are to be scaled. But on CPUs a product that is, or whose operand is,
  # becomes a fused op with the mask, which takes twenty times as long.
  scale = architecture.head_size**-0.5
  query = by_head(layers.dense(rows, width, "query") * scale)
  key, value = (
    by_head(layers.dense(rows, width, name)) for name in ("key", "value")
  )
  if architecture.positions == "rotary":
    query, key = _rotated(query, positions), _rotated(key, positions)
  if past is not None:
    key = tf.concat([past[0], key], axis=2)
    value = tf.concat([past[1], value], axis=2)
  scores = tf.matmul(query, key, transpose_b=True)
  if hidden is not None:
    scores += hidden
  mixed = tf.matmul(tf.nn.softmax(scores), value)
  mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, width])
  output = layers.dense(mixed, width, "output", stddev=output_stddev)
  return tf.reshape(output, [-1, length, width]), (key, value)


def _rotated(heads: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
  """Turns pairs of units by angles that grow with the position.

  A product of a query and a key depends on how far they are apart, then (Su et
  al., 2021, arXiv:2104.09864). A pair is a unit of the first half of a head,
  and one of the second.

  Args:
    heads: float32 [batch, heads, length, head size].
    positions: int32 [batch or 1, length].
  """
  pairs = int(heads.shape[-1]) // 2
  frequencies = _ROTARY_BASE ** (-tf.range(pairs, dtype=tf.float32) / pairs)
  places = tf.cast(positions, tf.float32)[:, tf.newaxis, :, tf.newaxis]
  angles = places * frequencies
  cosine, sine = tf.cos(angles), tf.sin(angles)
  first, second = heads[..., :pairs], heads[..., pairs:]
  return tf.concat(
    [first * cosine - second * sine, first * sine + second * cosine], axis=-1
  )
