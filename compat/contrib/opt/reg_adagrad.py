"""Adagrad that can leave its slots alone, for the gradients of penalties."""

import contextlib
from collections.abc import Iterator
from typing import Any

from compat.private.contrib.optimizers import (
  DenseHook,
  RowsHook,
  adagrad_rate,
)

import tensorflow as tf

v1 = tf.compat.v1
_Adagrad: Any = v1.train.AdagradOptimizer


class RegAdagradOptimizer(DenseHook, RowsHook, _Adagrad):
  """Adagrad, whose accumulators the gradients of a penalty need not enter.

  train_op = optimizer.minimize(loss)
  with optimizer.avoid_updating_slots():
    shrink_op = optimizer.minimize(penalty)
  """

  def __init__(
    self,
    learning_rate: Any,
    initial_accumulator_value: float = 0.1,
    use_locking: bool = False,
    name: str = "RegAdagrad",
  ):
    """Makes the optimizer.

    Args:
      learning_rate: a number, tensor or function.
      initial_accumulator_value: what the accumulators begin with.
      use_locking: whether updates lock their variables.
      name: of the slots' variables.
    """
    super().__init__(
      learning_rate, initial_accumulator_value, use_locking, name
    )
    self._accumulates = True

  @contextlib.contextmanager
  def avoid_updating_slots(self) -> Iterator[None]:
    """Updates made inside read the accumulators and leave them as they are."""
    before, self._accumulates = self._accumulates, False
    try:
      yield
    finally:
      self._accumulates = before

  def update(self, gradient: tf.Tensor, variable: Any) -> list[Any]:
    """Returns Adagrad's update of a variable."""
    accumulator = self.get_slot(variable, "accumulator")
    rate = adagrad_rate(self, gradient.dtype)
    if not self._accumulates:
      change = rate * gradient / tf.sqrt(accumulator)
      return [v1.assign_sub(variable, change)]
    total = accumulator + gradient**2
    return [
      v1.assign(accumulator, total),
      v1.assign_sub(variable, rate * gradient / tf.sqrt(total)),
    ]

  def update_rows(
    self, rows: tf.Tensor, indices: tf.Tensor, variable: Any
  ) -> list[Any]:
    """Returns Adagrad's update of rows."""
    accumulator = self.get_slot(variable, "accumulator")
    rate = adagrad_rate(self, rows.dtype)
    total = tf.gather(accumulator, indices)
    if not self._accumulates:
      change = rate * rows / tf.sqrt(total)
      return [v1.scatter_sub(variable, indices, change)]
    total += rows**2
    return [
      v1.scatter_update(accumulator, indices, total),
      v1.scatter_sub(variable, indices, rate * rows / tf.sqrt(total)),
    ]
