"""Losses of tf.keras whose sign or arguments are not 1.15's today."""

from typing import Any

import tensorflow as tf

_losses: Any = tf.compat.v1.keras.losses


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
  """Returns the cosines of the angles: 1.15's, where similar is positive."""
  return -_losses.cosine_similarity(y_true, y_pred, axis=axis)


class CosineSimilarity(_losses.CosineSimilarity):
  """tf.keras.losses.CosineSimilarity of 1.15, where similar is positive."""

  def call(self, y_true: Any, y_pred: Any) -> Any:
    """Returns the cosines, one for each vector."""
    return -super().call(y_true, y_pred)
