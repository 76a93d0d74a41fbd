"""Losses: how the gradient of a loss begins in each slice of the batch.

A mean over the batch is the sum of the slices' means, each times its part of
the batch; so its gradient starts with that part instead of 1. A sum is the sum
of the slices' sums. What is neither, the user has to say.
"""

import dataclasses

from estimator_mp.graph import traversal
from estimator_mp.pipeline import example_axes, merges
from estimator_mp.pipeline.example_axes import Kind
from estimator_mp.pipeline.merges import Merge

import tensorflow as tf

# What the user may say of a loss, if the graph does not.
WORDS = {"auto": None, "mean": Merge.MEAN, "sum": Merge.SUM}


@dataclasses.dataclass(frozen=True)
class LossPlan:
  """How slices' gradients of a loss make that of the whole batch.

  Attributes:
    is_sum: Whether they add up as they are; otherwise each counts as its slice
      is a part of the batch.
    terms: What has to be changed on the way to the loss for that, and is to be
      kept in `MergeRules` then; None if nothing.
  """

  is_sum: bool
  terms: merges.Terms | None = None


def plan_loss(
  target: tf.Tensor,
  axes: example_axes.ExampleAxes,
  rules: merges.MergeRules,
  word: Merge | None,
) -> LossPlan:
  """Decides how slices' gradients of a loss make that of the whole batch.

  Args:
    target: A loss, or another tensor that differs between slices.
    axes: Where tensors have their examples.
    rules: How tensors are merged.
    word: What the user says of a loss of which the graph does not tell.

  Raises:
    ValueError: If it is no mean and no sum over examples, and there is no word.
  """
  kept = rules.kept(target)
  if kept is not None:
    return LossPlan(kept in merges.SUMS)
  if axes.of(target).kind in (Kind.ROWS, Kind.MIXED, Kind.PARTS):
    return LossPlan(is_sum=True)  # A vector's gradient is that of its sum.
  terms = rules.terms(target, word)
  if terms.asked and word is None:
    raise ValueError(_unknown_loss(target, terms.asked[0], axes))
  return LossPlan(terms.merges[target.name] in merges.SUMS, terms)


def _unknown_loss(
  target: tf.Tensor, unknown: tf.Tensor, axes: example_axes.ExampleAxes
) -> str:
  """Returns the text of an error, which says so if examples are compared."""

  def compares(tensor: tf.Tensor) -> bool:
    return axes.of(tensor).kind is Kind.PAIRS

  firsts = (
    tensor
    for tensor in traversal.tensors_before([unknown], axes.is_input)
    if compares(tensor) and not any(map(compares, tensor.op.inputs))
  )
  first = next(firsts, None)
  if first is None:
    return unknown_loss(target, unknown)
  return (
    f"the gradient of {target.name} is asked for, but {first.name} "
    f"({first.op.type}, shape {first.shape}) compares the examples of a slice "
    "of the batch with each other; join what it reads by "
    "estimator_mp.toolbox.whole_batch(...), which is the loss of the whole "
    'batch, or say loss_reduction="mean" or "sum" for that of the losses of '
    "slices, or use num_micro_batches=1 and no data axis"
  )


def unknown_loss(target: tf.Tensor, unknown: tf.Tensor) -> str:
  """Returns the text of an error.

  Args:
    target: What gradients are asked of.
    unknown: What on the way to it is no mean and no sum.
  """
  return (
    f"the gradient of {target.name} is asked for, but {unknown.name} "
    f"({unknown.op.type}, shape {unknown.shape}) is neither a mean nor a sum "
    'over the examples of the batch; say loss_reduction="mean" or "sum" to '
    "take it for the mean or sum of those of micro-batches and replicas, or "
    "use num_micro_batches=1 and no data axis"
  )
