"""Processes: one replica in each, joined by Horovod."""

from collections.abc import Sequence
from typing import Any

from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import op_types
from estimator_mp.replicas import horovod

import tensorflow as tf


class Processes:
  """What joins the graph of one process with those of the others."""

  def __init__(self, loss_reduction: str):
    """Finds the other processes.

    Args:
      loss_reduction: How a loss is made of its examples': "sum", or else it is
        a mean.

    Raises:
      ImportError: If Horovod is not installed.
    """
    horovod.load_horovod()
    self._method = "sum" if loss_reduction == "sum" else "mean"

  def sum(
    self,
    sources: Sequence[Any],
    gradients: Sequence[gradient_lib.Gradient | None],
  ) -> list[gradient_lib.Gradient | None]:
    """Returns the gradients of the batches of all processes.

    Args:
      sources: With respect to what they are.
      gradients: Those of this process; what is not of a variable stays.
    """
    own = [
      gradient
      if op_types.is_variable(getattr(source, "handle", source).op)
      else None
      for source, gradient in zip(sources, gradients, strict=True)
    ]
    found = horovod.reduce_gradients(own, self._method)
    return [
      gradient if one is None else all_of_them
      for gradient, one, all_of_them in zip(gradients, own, found, strict=True)
    ]

  def finish(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tf.estimator.EstimatorSpec:
    """Returns a spec with the loss, and the first variables, of all processes.

    Args:
      spec: What this process would train.
    """
    loss = horovod.reduce_loss(spec.loss, self._method)
    return horovod.with_broadcast(spec._replace(loss=loss))
