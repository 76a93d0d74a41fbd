"""Gating: the experts of a token, and its place in each of them.

The tokens of a sequence are a group (GShard: Lepikhin et al., 2020,
arXiv:2006.16668): an expert has room for as many of them as its capacity, and
those that come later than that are dropped. So what becomes of a sequence
depends on no other one, and a part of a batch computes what the whole does.
"""

import dataclasses
import math

from model_fns.transformers import layers

import tensorflow as tf

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Gating:
  """How tokens choose experts.

  Attributes:
    num_experts: How many there are.
    experts_per_token: 1, as in Switch Transformers (Fedus et al., 2021,
      arXiv:2101.03961), or 2, as in GShard.
    capacity_factor: The room of experts: for this many times the tokens that
      each would have if all had as many.
    balance_weight: The weight of the loss of experts that differ in load.

  Raises:
    ValueError: If there are too few experts, or a number is out of range.
  """

  num_experts: int
  experts_per_token: int = 1
  capacity_factor: float = 1.25
  balance_weight: float = 0.01

  def __post_init__(self) -> None:
    if self.experts_per_token not in (1, 2):
      raise ValueError(
        f"experts_per_token={self.experts_per_token} is not known; use 1 "
        "(Switch) or 2 (GShard)"
      )
    if self.num_experts < 2:
      raise ValueError(
        f"num_experts={self.num_experts} is too few; use at least 2"
      )
    if self.capacity_factor <= 0:
      raise ValueError(
        f"capacity_factor={self.capacity_factor} leaves experts no room; use "
        "a number above 0, such as 1.25"
      )
    if self.balance_weight < 0:
      raise ValueError(
        f"balance_weight={self.balance_weight} is negative; use 0 or more, "
        "such as 0.01"
      )

  def capacity(self, num_tokens: int | tf.Tensor) -> int | tf.Tensor:
    """Returns how many tokens of a sequence an expert has room for.

    Args:
      num_tokens: Those of the sequence; an int32 scalar if the graph does not
        know.
    """
    share = self.capacity_factor * self.experts_per_token / self.num_experts
    if isinstance(num_tokens, int):
      return min(math.ceil(share * num_tokens), num_tokens)
    room = tf.math.ceil(share * tf.cast(num_tokens, tf.float64))
    return tf.minimum(tf.cast(room, tf.int32), num_tokens)


@dataclasses.dataclass(frozen=True)
class Routes:
  """Where tokens go.

  Attributes:
    dispatch: 1 where a token has a place of an expert; float32
      [batch, length, experts, places].
    combine: The weight of the expert's result there; float32, of that shape.
    dropped: Which part of a token's choices had no room, [batch, length].
    balance_loss: The loss of each sequence: 1 if its tokens and their
      probabilities are spread evenly, up to the number of experts if not;
      float32 [batch].
  """

  dispatch: tf.Tensor
  combine: tf.Tensor
  dropped: tf.Tensor
  balance_loss: tf.Tensor


def route(
  inputs: tf.Tensor, gating: Gating, capacity: int | tf.Tensor
) -> Routes:
  """Returns where the tokens of sequences go.

  Second choices have the places that first choices leave.

  Args:
    inputs: The tokens' vectors, float32 [batch, length, width].
    gating: How they choose.
    capacity: The places of each expert for each sequence.
  """
  probabilities = _probabilities(inputs, gating.num_experts)
  choices: list[tf.Tensor] = []
  left = probabilities
  for _ in range(gating.experts_per_token):
    chosen = tf.argmax(left, axis=-1)
    choices.append(tf.one_hot(chosen, gating.num_experts))
    left *= 1.0 - choices[-1]
  dispatched = _dispatched(choices, capacity)
  gates = [tf.reduce_sum(probabilities * x, axis=-1) for x in choices]
  if len(gates) > 1:  # Of two experts' results a token gets the mean.
    total = tf.add_n(gates)
    gates = [gate / total for gate in gates]
  dispatch = tf.add_n(dispatched)
  kept = tf.reduce_sum(dispatch, axis=[2, 3])
  shares = tf.reduce_mean(choices[0], axis=1)
  means = tf.reduce_mean(probabilities, axis=1)
  return Routes(
    dispatch=dispatch,
    combine=tf.add_n(
      [
        gate[:, :, tf.newaxis, tf.newaxis] * places
        for gate, places in zip(gates, dispatched, strict=True)
      ]
    ),
    dropped=1.0 - kept / gating.experts_per_token,
    balance_loss=gating.num_experts * tf.reduce_sum(shares * means, axis=-1),
  )


def _probabilities(inputs: tf.Tensor, num_experts: int) -> tf.Tensor:
  """Returns how likely each expert is, float32 [batch, length, experts]."""
  length, width = layers.length_of(inputs), int(inputs.shape[-1])
  kernel = v1.get_variable(
    "gate",
    [width, num_experts],
    initializer=v1.truncated_normal_initializer(stddev=layers.INITIAL_STDDEV),
  )
  logits = tf.matmul(tf.reshape(inputs, [-1, width]), kernel)
  return tf.nn.softmax(tf.reshape(logits, [-1, length, num_experts]))


def _dispatched(
  choices: list[tf.Tensor], capacity: int | tf.Tensor
) -> list[tf.Tensor]:
  """Returns the places of tokens for each of their choices.

  Args:
    choices: 1 where a token has chosen an expert, [batch, length, experts]; the
      first choices of all tokens come before the second ones.
    capacity: The places of each expert.

  Returns:
    For each choice 1 where a token has a place, float32
    [batch, length, experts, capacity]; nowhere if there is no room.
  """
  dispatched: list[tf.Tensor] = []
  taken = 0.0
  for chosen in choices:
    before = tf.cumsum(chosen, axis=1, exclusive=True) + taken
    place = tf.reduce_sum(before * chosen, axis=-1)
    places = tf.one_hot(tf.cast(place, tf.int32), capacity)
    dispatched.append(chosen[..., tf.newaxis] * places[:, :, tf.newaxis])
    taken = taken + tf.reduce_sum(chosen, axis=1, keepdims=True)
  return dispatched
