"""Sampling: a decoder goes on with the texts that it is given.

Tokens are sampled one after another in a graph that is unrolled: so it has no
loop, whose variables no mesh could split. Each step computes the new token
alone, from keys and values that the layers keep of all tokens before.
"""

import dataclasses
from collections.abc import Callable

from model_fns.transformers import attention, layers, stack

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Sampling:
  """How tokens are sampled.

  Attributes:
    length: How many tokens; 0 for none.
    temperature: Divisor of the logits: less than 1 makes likely tokens
      more likely. 0 takes the likeliest token.
    top_k: How many of the likeliest tokens are sampled from; 0 for all (Fan et
      al., 2018, arXiv:1805.04833).
    seed: Of the random numbers; None for the graph's.

  Raises:
    ValueError: If a number is negative.
  """

  length: int = 0
  temperature: float = 1.0
  top_k: int = 0
  seed: int | None = None

  def __post_init__(self) -> None:
    for name in ("length", "temperature", "top_k"):
      value = getattr(self, name)
      if value < 0:
        raise ValueError(
          f"the {name} of sampling is {value}, which is negative; use 0 or more"
        )


# A decoder's layers: from tokens to outputs. Its logits: from vectors [rows,
# hidden size] and the table of embeddings to the logits of tokens.
Decode = Callable[[stack.Tokens], stack.Outputs]
Logits = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def go_on(
  prompts: tf.Tensor,
  lengths: tf.Tensor | None,
  sampling: Sampling,
  decode: Decode,
  logits_of: Logits,
) -> tuple[tf.Tensor, tf.Tensor | None]:
  """Returns the logits of the token after each prompt, and what is sampled.

  Args:
    prompts: The numbers of tokens, int32 or int64 [batch, length].
    lengths: How many tokens of each row are its prompt, the first ones; int
      [batch]. None for all.
    sampling: How tokens are sampled.
    decode: The decoder's layers.
    logits_of: Its logits.

  Returns:
    float32 [batch, vocabulary]; and int32 [batch, sampling.length], or None if
    that is 0.
  """
  hidden = stack.no_later_tokens(prompts)
  outputs = decode(stack.Tokens(prompts, stack.all_positions(prompts), hidden))
  size = layers.length_of(prompts)
  if lengths is None:
    vectors = outputs.vectors[:, -1]
    next_places = tf.fill([1, 1], size)
    seen = None
  else:
    lengths = tf.cast(lengths, tf.int32)[:, tf.newaxis]
    vectors = tf.gather(outputs.vectors, lengths - 1, batch_dims=1)[:, 0]
    next_places = lengths
    seen = attention.hide(tf.range(size) < lengths)
  logits = first_logits = logits_of(vectors, outputs.table)
  sampled: list[tf.Tensor] = []
  for number in range(sampling.length):
    sampled.append(_chosen(logits, sampling, number))
    if number == sampling.length - 1:
      break
    hidden = None
    if seen is not None:  # Of the sampled tokens each one is.
      hidden = tf.pad(seen, [[0, 0], [0, number + 1]])[:, tf.newaxis]
    step = stack.Tokens(
      sampled[-1][:, tf.newaxis],
      next_places + number,
      hidden,
      outputs.keys_and_values,
    )
    outputs = decode(step)
    logits = logits_of(outputs.vectors[:, 0], outputs.table)
  return first_logits, tf.stack(sampled, axis=1) if sampled else None


def _chosen(logits: tf.Tensor, sampling: Sampling, number: int) -> tf.Tensor:
  """Returns a token for each row of logits, int32 [batch].

  Args:
    logits: float32 [batch, vocabulary].
    sampling: How it is sampled.
    number: How many were before it; each draws numbers of its own.
  """
  if not sampling.temperature:
    return tf.argmax(logits, axis=-1, output_type=tf.int32)
  logits /= sampling.temperature
  if sampling.top_k:
    top_k = min(sampling.top_k, int(logits.shape[-1]))
    least = tf.math.top_k(logits, top_k).values[:, -1:]
    logits += attention.hide(logits >= least)
  seed = None if sampling.seed is None else sampling.seed + number
  drawn = tf.random.categorical(logits, 1, dtype=tf.int32, seed=seed)
  return tf.squeeze(drawn, axis=1)
