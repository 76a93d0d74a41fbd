"""Names of tf.contrib.losses: tf-slim's, which lives on by itself.

Collections and what they sum up are TensorFlow's own.
"""

from compat.contrib import packages

import tensorflow as tf

_losses = tf.compat.v1.losses

add_loss = _losses.add_loss
get_losses = _losses.get_losses
get_regularization_losses = _losses.get_regularization_losses
get_total_loss = _losses.get_total_loss

_OF_SLIM = (
  "absolute_difference",
  "compute_weighted_loss",
  "cosine_distance",
  "hinge_loss",
  "log_loss",
  "mean_pairwise_squared_error",
  "mean_squared_error",
  "sigmoid_cross_entropy",
  "softmax_cross_entropy",
  "sparse_softmax_cross_entropy",
)

__getattr__ = packages.getter(
  __name__,
  {name: f"tf_slim.losses:{name}" for name in _OF_SLIM},
  ("metric_learning",),
)

__all__ = sorted(
  (
    "add_loss",
    "get_losses",
    "get_regularization_losses",
    "get_total_loss",
    "metric_learning",
    *_OF_SLIM,
  )
)


def __dir__() -> list[str]:
  return __all__
