"""Cross entropies: with the arguments of old, and of sampled classes."""

from typing import Any

import tensorflow as tf

_nn = tf.compat.v1.nn


def deprecated_flipped_softmax_cross_entropy_with_logits(
  logits: Any, labels: Any, dim: int = -1, name: str | None = None
) -> tf.Tensor:
  """Returns tf.nn.softmax_cross_entropy_with_logits; logits come first.

  Args:
    logits: [..., classes].
    labels: probabilities [..., classes]; they have no gradient.
    dim: the axis of the classes.
    name: of the operation.
  """
  return _nn.softmax_cross_entropy_with_logits(
    labels=labels, logits=logits, dim=dim, name=name
  )


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
  logits: Any, labels: Any, name: str | None = None
) -> tf.Tensor:
  """Returns tf.nn.sparse_softmax_cross_entropy_with_logits; logits come first.

  Args:
    logits: [..., classes].
    labels: classes [...].
    name: of the operation.
  """
  return _nn.sparse_softmax_cross_entropy_with_logits(
    labels=labels, logits=logits, name=name
  )


def deprecated_flipped_sigmoid_cross_entropy_with_logits(
  logits: Any, targets: Any, name: str | None = None
) -> tf.Tensor:
  """Returns tf.nn.sigmoid_cross_entropy_with_logits; logits come first.

  Args:
    logits: of any shape.
    targets: probabilities, of that shape.
    name: of the operation.
  """
  return _nn.sigmoid_cross_entropy_with_logits(
    labels=targets, logits=logits, name=name
  )


def sampled_sparse_softmax_loss(
  weights: Any,
  biases: Any,
  labels: Any,
  inputs: Any,
  num_sampled: int,
  num_classes: int,
  sampled_values: Any = None,
  remove_accidental_hits: bool = True,
  partition_strategy: str = "mod",
  name: str = "sampled_sparse_softmax_loss",
) -> tf.Tensor:
  """Returns tf.nn.sampled_softmax_loss of one label each.

  Args:
    weights: [classes, size], or a list of the parts of it.
    biases: [classes].
    labels: classes [batch, 1].
    inputs: [batch, size].
    num_sampled: how many classes are sampled for each batch.
    num_classes: how many there are.
    sampled_values: what a tf.random.*_candidate_sampler gave; it is the log
      uniform one by default.
    remove_accidental_hits: whether a sampled class that is the label is left
      out.
    partition_strategy: of the parts of the weights: "mod" or "div".
    name: of the operations.

  Returns:
    [batch].
  """
  return _nn.sampled_softmax_loss(
    weights=weights,
    biases=biases,
    labels=labels,
    inputs=inputs,
    num_sampled=num_sampled,
    num_classes=num_classes,
    num_true=1,
    sampled_values=sampled_values,
    remove_accidental_hits=remove_accidental_hits,
    partition_strategy=partition_strategy,
    name=name,
  )
