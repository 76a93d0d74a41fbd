"""Slices: how many examples each has, and tensors that are cut and joined."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from estimator_mp.capture import micro_batches
from estimator_mp.graph.batch_inputs import Input
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.plan.batch_plan import BY_SLICE, Rows

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Slice:
  """The examples of slice 0.

  Attributes:
    examples: How many it has: a number, or a scalar int32 tensor.
    weight: 0 if the last example stands in for one that it does not have, and
      else 1: a scalar float32 tensor. None if each slice has some.
    all_examples: How many the batch has.
  """

  examples: int | tf.Tensor
  weight: tf.Tensor | None
  all_examples: int | tf.Tensor


class Slices:
  """The slices of a batch: those of each replica, one replica after another.

  Attributes:
    count: How many there are.
    sizes: How many examples each has: a number, or a scalar int32 tensor.
    weights: The weights of slices, as that of a `Slice`.
    size: How many examples the batch has.
  """

  def __init__(
    self, inputs: Sequence[Input], count: int, num_replicas: int, host: str
  ):
    """Measures the batch.

    Args:
      inputs: The features and labels that have examples, whole.
      count: How many slices there are to be.
      num_replicas: Of how many replicas they are.
      host: The device that compares the sizes of inputs in each step.
    """
    self.count = count
    self._parts = micro_batches.parts_of_batch(
      inputs, count, host, num_replicas
    )
    self.size = self._parts.size
    with bridges_lib.outside(host):
      self.sizes, self.weights = _sizes_of_slices(self._parts)

  @property
  def first(self) -> Slice:
    """Slice 0."""
    return Slice(self.sizes[0], self.weights[0], self.size)

  @property
  def num_examples(self) -> int | None:
    """How many examples the batch has, if the graph knows."""
    return None if tf.is_tensor(self.size) else int(self.size)

  def cut(self, whole: tf.Tensor, rows: Rows) -> list[tf.Tensor]:
    """Returns the rows of each slice.

    Args:
      whole: All rows.
      rows: How slices lie in it.
    """
    if rows == BY_SLICE:
      return micro_batches.even_slices(whole, self.count, 0, 1)
    per_example: Any = rows.per_example
    if per_example is None:
      per_example = tf.shape(whole)[rows.axis] // self.size
    return self._parts.cut(whole, rows.axis, per_example)

  def join(
    self, copies: Sequence[tf.Tensor], rows: Rows | None, rank: int
  ) -> tf.Tensor:
    """Returns the rows of all slices.

    Args:
      copies: The rows of each slice.
      rows: How slices lie in the whole; None if they have any numbers of rows.
      rank: The number of dimensions.
    """
    if rows is None or rows == BY_SLICE:
      return tf.concat(copies, 0)
    per_example: Any = rows.per_example
    if per_example is None:
      per_example = tf.shape(copies[0])[rows.axis] // self.sizes[0]
    return self._parts.join(copies, rows.axis, per_example, rank)


def _sizes_of_slices(
  parts: micro_batches.Parts,
) -> tuple[list[Any], list[tf.Tensor | None]]:
  """Returns how many examples each slice has, and what they weigh."""
  if parts.ranges is None:
    return [int(parts.size) // parts.count] * parts.count, [None] * parts.count
  sizes = tf.unstack(parts.ranges[1], parts.count)
  # Ops made for slice 0 shall not know how many examples it has.
  sizes[0] = tf.compat.v1.placeholder_with_default(sizes[0], [])
  numbers = tf.range(parts.count)
  weights = tf.cast(numbers < parts.size, tf.float32)
  return sizes, tf.unstack(weights, parts.count)
