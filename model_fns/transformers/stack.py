"""The layers of a transformer, from tokens to the vectors of its last layer."""

import dataclasses
from collections.abc import Sequence

from model_fns.transformers import attention, feed_forward, layers
from model_fns.transformers.architecture import Architecture

import tensorflow as tf

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Tokens:
  """The inputs of a transformer.

  Attributes:
    ids: The numbers of the tokens, int32 or int64 [batch, length].
    positions: Their places, from 0; int32 [batch or 1, length].
    hidden: The mask that is added to attention scores; see `attention.hide`;
      float32 [batch or 1, 1 or length, keys]. None if each token sees all.
    past: For each layer the keys and values of tokens before these; empty if
      there are none.
  """

  ids: tf.Tensor
  positions: tf.Tensor
  hidden: tf.Tensor | None
  past: Sequence[attention.KeysAndValues] = ()


@dataclasses.dataclass(frozen=True)
class Outputs:
  """The outputs of a transformer.

  Attributes:
    vectors: Those of the last layer, normalised; float32
      [batch, length, hidden size].
    table: The embeddings of tokens, float32 [vocabulary, hidden size].
    keys_and_values: Those of each layer, of the past too.
  """

  vectors: tf.Tensor
  table: tf.Tensor
  keys_and_values: list[attention.KeysAndValues]


def all_positions(ids: tf.Tensor) -> tf.Tensor:
  """Returns the places of tokens of which the first is at 0, int32 [1, n]."""
  return tf.range(layers.length_of(ids))[tf.newaxis]


def no_later_tokens(ids: tf.Tensor) -> tf.Tensor:
  """Returns what hides later tokens, float32 [1, length, length]."""
  places = all_positions(ids)
  return attention.hide(places[:, tf.newaxis] <= places[:, :, tf.newaxis])


def apply(
  tokens: Tokens,
  architecture: Architecture,
  networks: feed_forward.FeedForward,
  is_training: bool,
) -> Outputs:
  """Returns what a transformer makes of tokens.

  Each sublayer reads a normalised input, and adds to what it has not normalised
  (Xiong et al., 2020, arXiv:2002.04745). Its variables are made in the current
  variable scope, or found there, if it reuses them.

  Args:
    tokens: The inputs.
    architecture: The sizes.
    networks: The feed-forward networks of layers.
    is_training: Whether to drop out.
  """
  rate = architecture.dropout if is_training else 0.0
  # Sublayers add up, so each adds as much less (Radford et al., 2019).
  stddev = layers.INITIAL_STDDEV * (2 * architecture.num_layers) ** -0.5
  past = tokens.past or (None,) * architecture.num_layers
  hidden = None if tokens.hidden is None else tokens.hidden[:, tf.newaxis]
  net, table = _embedded(tokens, architecture)
  kept = []
  for number in range(architecture.num_layers):
    with v1.variable_scope(f"layer_{number}"):
      with v1.variable_scope("attention"):
        read = layers.layer_norm(net, "norm")
        added, keys_and_values = attention.self_attention(
          read, architecture, tokens.positions, hidden, stddev, past[number]
        )
        net += _dropped(added, rate)
        kept.append(keys_and_values)
      with v1.variable_scope("feed_forward"):
        read = layers.layer_norm(net, "norm")
        added = networks(read, number, stddev)
        net += _dropped(added, rate)
  return Outputs(layers.layer_norm(net, "norm"), table, kept)


def _embedded(
  tokens: Tokens, architecture: Architecture
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the embeddings of tokens at their places, and the table."""
  with v1.variable_scope("embeddings"):
    initializer = v1.truncated_normal_initializer(stddev=layers.INITIAL_STDDEV)
    width = architecture.hidden_size
    table = v1.get_variable(
      "tokens", [architecture.vocabulary_size, width], initializer=initializer
    )
    net = tf.nn.embedding_lookup(table, tokens.ids)
    if architecture.positions == "learned":
      shape = [architecture.sequence_length, width]
      places = v1.get_variable("positions", shape, initializer=initializer)
      net += tf.nn.embedding_lookup(places, tokens.positions)
    return net, table


def _dropped(added: tf.Tensor, rate: float) -> tf.Tensor:
  return tf.nn.dropout(added, rate=rate) if rate else added
