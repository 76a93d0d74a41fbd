"""Rules for softmax cross-entropies: no device has the logits of all classes.

With logits split over classes, each part sends its maximum, its sum of
exponentials and what its labels pick from its logits, as Megatron-LM does with
the vocabulary (Shoeybi et al., 2019, arXiv:1909.08053). The rules' ops have the
derivatives that TensorFlow registers for its own, of any order.
"""

import functools
from collections.abc import Callable, Sequence

from estimator_mp.model_axis import axes
from estimator_mp.model_axis.decisions import (
  Composite,
  Decision,
  OnPart,
  Operand,
  PartInputs,
  PartOutputs,
  PerPart,
  Replicate,
  Shard,
  Shards,
  Shifted,
  Table,
)
from estimator_mp.model_axis.rules import softmax

import tensorflow as tf

TABLE = Table()

_ROWS, _CLASSES = 0, 1
# The result of a function for `tf.custom_gradient`: its value, and from the
# gradient of that to those of its arguments.
_WithGradient = tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]


@TABLE.rule("SparseSoftmaxCrossEntropyWithLogits")
def _sparse(op: tf.Operation, splits: Shards) -> Decision | None:
  """Returns what becomes of the op, by how its logits are split."""
  split = splits[0]
  if split is None:
    return None
  if split.axis == _ROWS:
    return PerPart((split, split), (split, split))
  if not all(split.sizes):
    return None
  rows = op.inputs[0].shape[:1]
  return Composite(
    (split, Shifted(split.offsets)),
    (Replicate(), split),
    functools.partial(_build_sparse, split),
    exchanged=(rows,) * 3,
  )


def _build_sparse(
  split: Shard,
  op: tf.Operation,
  reads: PartInputs,
  on_part: OnPart,
) -> PartOutputs:
  """Makes the ops of a cross-entropy with the numbers of the right classes."""
  logits, labels = zip(*reads, strict=True)
  of = softmax.exponentials(logits, on_part)
  picked = []
  for part, (shifted, label) in enumerate(zip(of.shifted, labels, strict=True)):
    with on_part(part):
      inside = tf.clip_by_value(label, 0, split.sizes[part] - 1)
      picked.append(tf.gather(shifted, inside, batch_dims=1))
  with on_part(0):
    valid = _ones_if_valid(labels[0], split.size, of.total.dtype)
    right = _of_right_part(picked, labels[0], split, of.gaps)
    log_total = tf.squeeze(tf.math.log(of.total), [_CLASSES])
    loss = tf.cast((log_total - right) * valid, op.outputs[0].dtype)
  backprop = []
  for part, likely in enumerate(softmax.probabilities(of, on_part)):
    with on_part(part):
      hot = tf.one_hot(labels[part], split.sizes[part], dtype=likely.dtype)
      backprop.append((likely - hot) * tf.expand_dims(valid, _CLASSES))
  return [loss, softmax.cast_parts(backprop, op.outputs[1].dtype, on_part)]


def _of_right_part(
  picked: Sequence[tf.Tensor],
  labels: tf.Tensor,
  split: Shard,
  gaps: Sequence[tf.Tensor],
) -> tf.Tensor:
  """Returns the logits of labels, less the maximum of all, shaped [rows].

  Args:
    picked: For each part the logit that a label would have there, less the
      part's maximum, shaped [rows].
    labels: The numbers of classes, shaped [rows].
    split: How classes are split.
    gaps: For each part how much its maximum is below that of all.
  """
  terms = []
  for part, gap, first, size in zip(
    picked, gaps, split.offsets, split.sizes, strict=True
  ):
    is_right = tf.logical_and(labels >= first, labels < first + size)
    value = part - tf.squeeze(gap, [_CLASSES])
    terms.append(tf.where(is_right, value, tf.zeros_like(value)))
  return tf.add_n(terms)


def _ones_if_valid(
  labels: tf.Tensor, classes: int, dtype: tf.DType
) -> tf.Tensor:
  """Returns ones, for a label outside of all classes what TensorFlow has.

  That is an error on CPUs, and NaN on GPUs, as gathers have an error there and
  0 here.

  Args:
    labels: The numbers of classes, shaped [rows].
    classes: How many classes there are.
    dtype: Of the result.
  """
  is_class = tf.gather(tf.ones([classes], dtype), labels)
  return tf.where(is_class > 0, is_class, is_class + float("nan"))


@TABLE.rule("SoftmaxCrossEntropyWithLogits")
def _dense(op: tf.Operation, splits: Shards) -> Decision | None:
  """Returns what becomes of the op, by how its logits are split."""
  split = splits[0]
  if split is None:
    return None
  size = axes.size(op.inputs[1], split.axis)
  if size not in (1, split.size):
    return None
  labels: Operand = Replicate() if size == 1 else split
  if split.axis == _ROWS:
    return PerPart((split, labels), (split, split))
  # How often an entry of labels stands in a part.
  repeats = split.sizes if size == 1 else (1,) * len(split.sizes)
  rows = op.outputs[0].shape[:1]
  return Composite(
    (split, labels),
    (Replicate(), split),
    functools.partial(_build_dense, repeats),
    exchanged=(rows,) * 4,
  )


def _build_dense(
  repeats: Sequence[int],
  op: tf.Operation,
  reads: PartInputs,
  on_part: OnPart,
) -> PartOutputs:
  """Makes the ops of a cross-entropy with a probability for each class."""
  logits, labels = zip(*reads, strict=True)
  of = softmax.exponentials(logits, on_part)
  weights = softmax.cast_parts(labels, of.total.dtype, on_part)
  picked, sums = [], []
  for part, (shifted, label) in enumerate(
    zip(of.shifted, weights, strict=True)
  ):
    with on_part(part):
      product = _product(label, shifted, label)
      picked.append(tf.reduce_sum(product, _CLASSES, keepdims=True))
      total = tf.reduce_sum(label, _CLASSES, keepdims=True)
      sums.append(total * repeats[part] if repeats[part] > 1 else total)
  with on_part(0):
    log_total = tf.math.log(of.total)
    total, ones = tf.add_n(sums), tf.ones_like(log_total)
    terms = [_product(total, log_total, ones)]
    for part, gap, right in zip(sums, of.gaps, picked, strict=True):
      terms.append(part * gap - right)
    loss = tf.squeeze(functools.reduce(tf.add, terms), [_CLASSES])
    loss = tf.cast(loss, op.outputs[0].dtype)
  backprop = []
  for part, likely in enumerate(softmax.probabilities(of, on_part)):
    with on_part(part):
      backprop.append(likely - tf.stop_gradient(weights[part]))
  return [loss, softmax.cast_parts(backprop, op.outputs[1].dtype, on_part)]


def _product(labels: tf.Tensor, x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
  """Returns labels * x, whose gradient with respect to x is the weight.

  TensorFlow's derivative of the cross-entropy is that of labels which sum to
  one, and constant in them, also where they do not: examples that are masked
  by labels of zero have a gradient.

  Args:
    labels: Probabilities.
    x: Logits, or the logarithm of a sum of their exponentials.
    weight: The factor in the gradient, in place of the labels.
  """

  def with_gradient(labels: tf.Tensor, x: tf.Tensor) -> _WithGradient:
    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
      return upstream * x, upstream * tf.stop_gradient(weight)

    return labels * x, gradient

  product: tf.Tensor = tf.custom_gradient(with_gradient)(labels, x)
  return product
