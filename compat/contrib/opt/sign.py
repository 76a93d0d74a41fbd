"""AddSign and PowerSign, and how their exponents decay.

Bello, Zoph, Vasudevan and Le, "Neural Optimizer Search with Reinforcement
Learning", 2017.
"""

import math
from collections.abc import Callable
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
Decay = Callable[[tf.Tensor], tf.Tensor]


class _SignOptimizer(DenseHook, RowsHook, _Optimizer):
  """Scales a gradient by whether its sign is that of its moving average."""

  def __init__(
    self,
    learning_rate: Any,
    beta: Any,
    sign_decay_fn: Decay | None,
    use_locking: bool,
    name: str,
  ):
    super().__init__(use_locking, name)
    self._rate_given = learning_rate
    self._beta_given = beta
    self._sign_decay_fn = sign_decay_fn
    self._global_step: Any = None
    self._rate: Any = None
    self._beta: Any = None
    self._sign_decay: Any = None

  def apply_gradients(
    self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
  ) -> Any:
    """As tf.compat.v1.train.Optimizer's; the signs decay by the global step.

    Args:
      grads_and_vars: pairs, as compute_gradients returns them.
      global_step: a variable to add 1 to.
      name: of the op.

    Returns:
      The op that trains.
    """
    self._global_step = 0 if global_step is None else global_step
    return super().apply_gradients(grads_and_vars, global_step, name)

  def scale(self, agreement: tf.Tensor) -> tf.Tensor:
    """Returns the factors of a gradient.

    Args:
      agreement: 1 where it goes the way of its average, -1 where it does not,
        times the decay.
    """
    raise NotImplementedError(f"{type(self).__name__} has no scale().")

  def _create_slots(self, var_list: list[Any]) -> None:
    for variable in var_list:
      make_slot(self, variable, "m")

  def _prepare(self) -> None:
    self._rate = tf.convert_to_tensor(
      value_of(self._rate_given), name="learning_rate"
    )
    self._beta = tf.convert_to_tensor(value_of(self._beta_given), name="beta")
    self._sign_decay = tf.constant(1.0)
    if self._sign_decay_fn is not None:
      step = tf.cast(self._global_step, tf.float32)
      self._sign_decay = tf.convert_to_tensor(self._sign_decay_fn(step))

  def _change(self, gradient: tf.Tensor, average: tf.Tensor) -> tf.Tensor:
    dtype = gradient.dtype
    agreement = tf.sign(gradient) * tf.sign(average)
    agreement *= tf.cast(self._sign_decay, dtype)
    return tf.cast(self._rate, dtype) * self.scale(agreement) * gradient

  def update(self, gradient: tf.Tensor, variable: Any) -> list[Any]:
    """Returns the update of a variable."""
    slot = self.get_slot(variable, "m")
    beta = tf.cast(self._beta, gradient.dtype)
    average = beta * slot + (1 - beta) * gradient
    return [
      v1.assign(slot, average),
      v1.assign_sub(variable, self._change(gradient, average)),
    ]

  def update_rows(
    self, rows: tf.Tensor, indices: tf.Tensor, variable: Any
  ) -> list[Any]:
    """Returns the update of rows; the averages of all rows decay."""
    slot = self.get_slot(variable, "m")
    beta = tf.cast(self._beta, rows.dtype)
    average = beta * tf.gather(slot, indices) + (1 - beta) * rows
    with tf.control_dependencies([average]):
      decayed = v1.assign(slot, beta * slot)
    with tf.control_dependencies([decayed]):
      return [
        v1.scatter_update(slot, indices, average),
        v1.scatter_sub(variable, indices, self._change(rows, average)),
      ]


class AddSignOptimizer(_SignOptimizer):
  """Scales a gradient by alpha, plus or minus 1 by its sign."""

  def __init__(
    self,
    learning_rate: Any = 0.1,
    alpha: Any = 1.0,
    beta: Any = 0.9,
    sign_decay_fn: Decay | None = None,
    use_locking: bool = False,
    name: str = "AddSignOptimizer",
  ):
    """Makes the optimizer.

    Args:
      learning_rate: a number, tensor or function.
      alpha: what is added to plus or minus 1.
      beta: how much of the average stays at each step.
      sign_decay_fn: takes the global step and returns a factor of the signs.
      use_locking: whether updates lock their variables.
      name: of the slots' variables.
    """
    super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
    self._alpha = alpha

  def scale(self, agreement: tf.Tensor) -> tf.Tensor:
    """Returns alpha and the agreement."""
    return tf.cast(value_of(self._alpha), agreement.dtype) + agreement


class PowerSignOptimizer(_SignOptimizer):
  """Scales a gradient by base or its inverse, by its sign."""

  def __init__(
    self,
    learning_rate: Any = 0.1,
    base: Any = math.e,
    beta: Any = 0.9,
    sign_decay_fn: Decay | None = None,
    use_locking: bool = False,
    name: str = "PowerSignOptimizer",
  ):
    """Makes the optimizer.

    Args:
      learning_rate: a number, tensor or function.
      base: raised to the power of plus or minus 1.
      beta: how much of the average stays at each step.
      sign_decay_fn: takes the global step and returns a factor of the signs.
      use_locking: whether updates lock their variables.
      name: of the slots' variables.
    """
    super().__init__(learning_rate, beta, sign_decay_fn, use_locking, name)
    self._base = base

  def scale(self, agreement: tf.Tensor) -> tf.Tensor:
    """Returns the base to the power of the agreement."""
    return tf.pow(tf.cast(value_of(self._base), agreement.dtype), agreement)


def get_linear_decay_fn(decay_steps: int) -> Decay:
  """Returns a function of the global step that falls from 1 to 0.

  Args:
    decay_steps: at which step it is 0, and from then on.
  """

  def linear_decay(global_step: tf.Tensor) -> tf.Tensor:
    return 1 - _part_done(global_step, decay_steps)

  return linear_decay


def get_cosine_decay_fn(
  decay_steps: int, num_periods: float = 0.5, zero_after: float | None = None
) -> Decay:
  """Returns a function of the global step, a cosine between 1 and 0.

  Args:
    decay_steps: at which step it ends.
    num_periods: how many waves it has until then.
    zero_after: after how many waves it is 0; None for never.
  """

  def cosine_decay(global_step: tf.Tensor) -> tf.Tensor:
    waves = num_periods * _part_done(global_step, decay_steps)
    value = 0.5 * (1 + tf.cos(2 * math.pi * waves))
    return _zero_after(value, waves, zero_after)

  return cosine_decay


def get_restart_decay_fn(
  decay_steps: int, num_periods: float = 1, zero_after: float | None = None
) -> Decay:
  """Returns a function of the global step, half waves that restart at 1.

  Args:
    decay_steps: at which step it ends.
    num_periods: how many half waves it has until then.
    zero_after: after how many half waves it is 0; None for never.
  """

  def restart_decay(global_step: tf.Tensor) -> tf.Tensor:
    waves = num_periods * _part_done(global_step, decay_steps)
    value = 0.5 * (1 + tf.cos(math.pi * (waves % 1)))
    return _zero_after(value, waves, zero_after)

  return restart_decay


def _part_done(global_step: tf.Tensor, decay_steps: int) -> tf.Tensor:
  step = tf.minimum(tf.cast(global_step, tf.float32), float(decay_steps))
  return step / float(decay_steps)


def _zero_after(
  value: tf.Tensor, waves: tf.Tensor, most: float | None
) -> tf.Tensor:
  if most is None:
    return value
  return tf.where(waves < most, value, tf.zeros_like(value))
