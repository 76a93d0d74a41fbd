"""Layer-wise adaptive rates.

You, Gitman and Ginsburg, "Large Batch Training of Convolutional
Networks", 2017.
"""

from collections.abc import Sequence
from typing import Any

from compat.private.contrib.optimizers import (
  DenseHook,
  RowsHook,
  make_slot,
  value_of,
)

import tensorflow as tf

v1 = tf.compat.v1
_Optimizer: Any = v1.train.Optimizer


class LARSOptimizer(DenseHook, RowsHook, _Optimizer):
  """Momentum with a learning rate for each variable, by its norm.

  Of a sparse gradient it updates the rows that it has, with the plain learning
  rate and no weight decay.
  """

  def __init__(
    self,
    learning_rate: Any,
    momentum: Any = 0.9,
    weight_decay: float = 0.0001,
    eeta: float = 0.001,
    epsilon: float = 0.0,
    name: str = "LARSOptimizer",
    skip_list: Sequence[str] | None = None,
    use_nesterov: bool = False,
  ):
    """Makes the optimizer.

    Args:
      learning_rate: a number, tensor or function.
      momentum: a number, tensor or function, at least 0.
      weight_decay: what part of a variable is added to its gradient.
      eeta: the trust coefficient of the paper.
      epsilon: added to the norm of the gradient.
      name: of the slots' variables.
      skip_list: parts of the names of variables that get the plain learning
        rate and no weight decay, such as "bias".
      use_nesterov: whether the momentum is Nesterov's.

    Raises:
      ValueError: if the momentum is negative.
    """
    if isinstance(momentum, (int, float)) and momentum < 0:
      raise ValueError(f"momentum={momentum} must be at least 0.")
    super().__init__(False, name)
    self._given = (learning_rate, momentum)
    self._weight_decay = weight_decay
    self._eeta = eeta
    self._epsilon = epsilon
    self._skip_list = skip_list or ()
    self._use_nesterov = use_nesterov
    self._rate: Any = None
    self._momentum: Any = None

  def _create_slots(self, var_list: list[Any]) -> None:
    for variable in var_list:
      make_slot(self, variable, "momentum")

  def _prepare(self) -> None:
    learning_rate, momentum = map(value_of, self._given)
    self._rate = tf.convert_to_tensor(learning_rate, name="learning_rate")
    self._momentum = tf.convert_to_tensor(momentum, name="momentum")

  def compute_lr(
    self, grad: tf.Tensor, var: Any
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a variable's learning rate, and its gradient with the decay.

    Args:
      grad: the gradient of the loss.
      var: the variable.
    """
    rate = tf.cast(self._rate, grad.dtype)
    if any(part in var.name for part in self._skip_list):
      return rate, grad
    weight_norm, gradient_norm = tf.norm(var), tf.norm(grad)
    trust = (self._eeta * weight_norm) / (
      gradient_norm + self._weight_decay * weight_norm + self._epsilon
    )
    has_both = (weight_norm > 0) & (gradient_norm > 0)
    trust = tf.where(has_both, trust, tf.ones_like(trust))
    return rate * trust, grad + self._weight_decay * var

  def update(self, gradient: tf.Tensor, variable: Any) -> list[Any]:
    """Returns the update of a variable; the momentum is of its steps."""
    rate, gradient = self.compute_lr(gradient, variable)
    slot = self.get_slot(variable, "momentum")
    step = rate * gradient
    total = self._momentum_of(step) * slot + step
    if self._use_nesterov:
      step += self._momentum_of(step) * total
    else:
      step = total
    return [v1.assign(slot, total), v1.assign_sub(variable, step)]

  def update_rows(
    self, rows: tf.Tensor, indices: tf.Tensor, variable: Any
  ) -> list[Any]:
    """Returns the update of rows; the momentum is of their gradients."""
    slot = self.get_slot(variable, "momentum")
    total = self._momentum_of(rows) * tf.gather(slot, indices) + rows
    if self._use_nesterov:
      step = rows + self._momentum_of(rows) * total
    else:
      step = total
    rate = tf.cast(self._rate, rows.dtype)
    return [
      v1.scatter_update(slot, indices, total),
      v1.scatter_sub(variable, indices, rate * step),
    ]

  def _momentum_of(self, gradient: tf.Tensor) -> tf.Tensor:
    return tf.cast(self._momentum, gradient.dtype)
