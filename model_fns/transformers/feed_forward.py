"""The second part of a layer: two dense layers, or another function."""

import dataclasses
from collections.abc import Callable
from typing import Protocol, TypeAlias

from model_fns.transformers import layers

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Said:
  """The losses and figures of feed-forward networks, besides their results.

  Attributes:
    losses: Terms of the loss of a model; each a mean over examples.
    shown: Figures that are shown as means over examples, by name; for each
      layer float32 [batch, ...].
  """

  losses: list[tf.Tensor] = dataclasses.field(default_factory=list)
  shown: dict[str, list[tf.Tensor]] = dataclasses.field(default_factory=dict)

  def loss(self, loss: tf.Tensor) -> tf.Tensor:
    """Returns a loss with what is added to it."""
    return tf.add_n([loss, *self.losses]) if self.losses else loss

  def summarize(self) -> None:
    """Writes what is shown to summaries, in training."""
    for name, values in self._means().items():
      tf.compat.v1.summary.scalar(name, tf.reduce_mean(values))

  def metrics(self) -> dict[str, tuple[tf.Tensor, tf.Operation]]:
    """Returns what is shown as metrics, for evaluation."""
    return {
      name: tf.compat.v1.metrics.mean(values)
      for name, values in self._means().items()
    }

  def _means(self) -> dict[str, tf.Tensor]:
    """Returns what is shown, as means over layers; float32 [batch, ...]."""
    return {
      name: tf.add_n(tensors) / len(tensors)
      for name, tensors in self.shown.items()
    }


class FeedForward(Protocol):
  """The feed-forward networks of all layers."""

  def __call__(
    self, inputs: tf.Tensor, number: int, output_stddev: float
  ) -> tf.Tensor:
    """Returns what a layer makes of vectors, in its variable scope.

    Args:
      inputs: float32 [batch, length, width].
      number: That of the layer, from 0.
      output_stddev: That of the initial values of what adds to the result.

    Returns:
      float32 [batch, length, width].
    """

  @property
  def said(self) -> Said:
    """The losses and figures of the layers so far."""


# From a mode, a key of `tf.estimator.ModeKeys`, to the networks of a graph.
Maker: TypeAlias = Callable[[str], FeedForward]


class DenseLayers:
  """Two dense layers, with a GELU between them; a `FeedForward`."""

  def __init__(self, inner_size: int):
    """Takes the width between the two."""
    self._inner_size = inner_size
    self.said = Said()

  def __call__(
    self, inputs: tf.Tensor, number: int, output_stddev: float
  ) -> tf.Tensor:
    """Returns what they make of vectors."""
    del number
    length, width = layers.length_of(inputs), int(inputs.shape[-1])
    rows = tf.reshape(inputs, [-1, width])
    inner = layers.dense(rows, self._inner_size, "up", layers.gelu)
    outer = layers.dense(inner, width, "down", stddev=output_stddev)
    return tf.reshape(outer, [-1, length, width])
