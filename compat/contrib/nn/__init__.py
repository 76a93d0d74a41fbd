"""Names of tf.contrib.nn."""

from compat.contrib import absent
from compat.contrib.nn.activations import alpha_dropout, scaled_softplus
from compat.contrib.nn.cross_entropy import (
  deprecated_flipped_sigmoid_cross_entropy_with_logits,
  deprecated_flipped_softmax_cross_entropy_with_logits,
  deprecated_flipped_sparse_softmax_cross_entropy_with_logits,
  sampled_sparse_softmax_loss,
)
from compat.contrib.nn.order import nth_element

import tensorflow as tf

__getattr__ = absent.getter(__name__)

conv1d_transpose = tf.nn.conv1d_transpose

__all__ = [
  "alpha_dropout",
  "conv1d_transpose",
  "deprecated_flipped_sigmoid_cross_entropy_with_logits",
  "deprecated_flipped_softmax_cross_entropy_with_logits",
  "deprecated_flipped_sparse_softmax_cross_entropy_with_logits",
  "nth_element",
  "sampled_sparse_softmax_loss",
  "scaled_softplus",
]
