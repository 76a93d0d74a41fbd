"""The purpose of a graph: to train, to evaluate, or to predict."""

import dataclasses

from estimator_mp.config.placement import Placement

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Purpose:
  """The purpose of a graph.

  Attributes:
    mode: A `tf.estimator.ModeKeys`.
    saved: The placement that training has saved, if the graph is for something
      else.
    results: The end of the forward pass: the loss; without gradients, the
      predictions, too.
    is_export: Whether it is the graph of a SavedModel, which is the plain one,
      whatever its mode.
  """

  mode: str
  saved: Placement | None = None
  results: tuple[tf.Tensor, ...] = ()
  is_export: bool = False

  @property
  def trains(self) -> bool:
    """Whether it is to train."""
    return bool(self.mode == tf.estimator.ModeKeys.TRAIN)


TRAINING = Purpose(tf.estimator.ModeKeys.TRAIN)
