"""Experts: many feed-forward networks, of which a token goes to one or two.

All experts of a layer are one variable for each kernel and each bias, with the
experts on axis 0. Split over that axis by a mesh, each device has some of them:
tokens are sent to the devices of their experts, and results come back, as in
GShard (Lepikhin et al., 2020, arXiv:2006.16668).
"""

from model_fns.transformers import feed_forward, gating, layers

import tensorflow as tf

v1 = tf.compat.v1

DROPPED = "dropped_tokens"


class Experts:
  """Dense layers, and experts in some layers; a `feed_forward.FeedForward`."""

  def __init__(
    self, inner_size: int, rules: gating.Gating, every: int, mode: str
  ):
    """Makes none yet.

    Args:
      inner_size: The width inside of an expert, and of the dense layers that
        other layers have.
      rules: How tokens choose experts.
      every: The last of so many layers has experts.
      mode: A key of `tf.estimator.ModeKeys`. Where it predicts, experts have
        room for all tokens: so a text does not depend on how it is cut up.
    """
    self._inner_size = inner_size
    self._gating = rules
    self._every = every
    self._drops = mode != tf.estimator.ModeKeys.PREDICT
    self._dense = feed_forward.DenseLayers(inner_size)
    self.said = feed_forward.Said()

  def __call__(
    self, inputs: tf.Tensor, number: int, output_stddev: float
  ) -> tf.Tensor:
    """Returns what the experts of a layer make of vectors."""
    if (number + 1) % self._every:
      return self._dense(inputs, number, output_stddev)
    length = layers.length_of(inputs)
    capacity = self._gating.capacity(length) if self._drops else length
    with v1.variable_scope("experts"):
      routes = gating.route(inputs, self._gating, capacity)
      sent = tf.einsum("blec,blh->ebch", routes.dispatch, inputs)
      inner = layers.gelu(self._layer(sent, self._inner_size, "up"))
      width = int(inputs.shape[-1])
      outer = self._layer(inner, width, "down", output_stddev)
      combined = tf.einsum("blec,ebch->blh", routes.combine, outer)
    loss = self._gating.balance_weight * tf.reduce_mean(routes.balance_loss)
    self.said.losses.append(loss)
    self.said.shown.setdefault(DROPPED, []).append(routes.dropped)
    return combined

  def _layer(
    self,
    inputs: tf.Tensor,
    units: int,
    name: str,
    stddev: float = layers.INITIAL_STDDEV,
  ) -> tf.Tensor:
    """Returns what a dense layer of each expert makes of its tokens.

    Args:
      inputs: float32 [experts, batch, places, width].
      units: The width of the result.
      name: The scope of the variables `kernel`, [experts, width, units], and
        `bias`, [experts, units].
      stddev: That of the kernels' initial values.

    Returns:
      float32 [experts, batch, places, units].
    """
    num_experts = self._gating.num_experts
    with v1.variable_scope(name):
      kernel = v1.get_variable(
        "kernel",
        [num_experts, inputs.shape[-1], units],
        initializer=v1.truncated_normal_initializer(stddev=stddev),
      )
      bias = v1.get_variable(
        "bias", [num_experts, units], initializer=v1.zeros_initializer()
      )
      products = tf.einsum("ebch,ehf->ebcf", inputs, kernel)
      return products + bias[:, tf.newaxis, tf.newaxis]
