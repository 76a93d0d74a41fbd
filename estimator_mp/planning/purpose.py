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
    is_one_of_several: Whether the Estimator trains further graphs, each with a
      part of the variables, as those of AdaNet's iterations have.
  """

  mode: str
  saved: Placement | None = None
  results: tuple[tf.Tensor, ...] = ()
  is_export: bool = False
  is_one_of_several: bool = False

  @property
  def trains(self) -> bool:
    """Whether it is to train."""
    return bool(self.mode == tf.estimator.ModeKeys.TRAIN)

  def unmatched(self, error: ValueError) -> None:
    """Raises the error of a rule that matches nothing in the graph.

    A graph of several may lack what the rule is for; then the log has it. So
    may one that does not train.
    """
    if self.trains and not self.is_one_of_several:
      raise error
    if self.trains:
      tf.compat.v1.logging.warning("In this graph, %s", error)


TRAINING = Purpose(tf.estimator.ModeKeys.TRAIN)
