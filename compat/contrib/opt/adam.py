"""Adam's relatives: lazy on rows, by the global step, Nadam and AdaMax.

Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015; Dozat,
"Incorporating Nesterov Momentum into Adam", 2015.
"""

from typing import Any

from compat.private.contrib.optimizers import (
  DenseHook,
  RowsHook,
  adam_values,
  make_non_slot,
  make_slot,
  non_slot,
  value_of,
)

import tensorflow as tf

v1 = tf.compat.v1
_Adam: Any = v1.train.AdamOptimizer


class _LazyRows(RowsHook):
  """For an Adam that leaves alone what has no gradient."""

  get_slot: Any

  def update_rows(
    self, rows: tf.Tensor, indices: tf.Tensor, variable: Any
  ) -> list[Any]:
    """Returns Adam's update of these rows, and of their moments only."""
    adam = adam_values(self, rows.dtype)
    first, second = self.get_slot(variable, "m"), self.get_slot(variable, "v")
    m = adam.beta1 * tf.gather(first, indices) + (1 - adam.beta1) * rows
    v = adam.beta2 * tf.gather(second, indices) + (1 - adam.beta2) * rows**2
    change = adam.corrected_rate * m / (tf.sqrt(v) + adam.epsilon)
    return [
      v1.scatter_update(first, indices, m),
      v1.scatter_update(second, indices, v),
      v1.scatter_sub(variable, indices, change),
    ]


class LazyAdamOptimizer(_LazyRows, _Adam):
  """Adam that updates of a sparse gradient only the rows that it has.

  The moments of all other rows stay as they are, too, where AdamOptimizer
  lets them decay and moves every row at every step. The arguments are those of
  tf.compat.v1.train.AdamOptimizer.
  """


class AdamGSOptimizer(_Adam):
  """Adam that counts by the global step, and not by variables of its own."""

  def __init__(
    self,
    global_step: Any = 0,
    learning_rate: Any = 0.001,
    beta1: Any = 0.9,
    beta2: Any = 0.999,
    epsilon: Any = 1e-8,
    use_locking: bool = False,
    name: str = "Adam",
  ):
    """Makes the optimizer.

    Args:
      global_step: the variable of the steps done before.
      learning_rate: a number, tensor or function.
      beta1: how much of the first moment stays at each step.
      beta2: how much of the second moment stays at each step.
      epsilon: added to the root of the second moment.
      use_locking: whether updates lock their variables.
      name: of the slots' variables.
    """
    super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)
    self._global_step = global_step
    self._betas = (beta1, beta2)

  def _create_slots(self, var_list: list[Any]) -> None:
    for variable in var_list:
      make_slot(self, variable, "m")
      make_slot(self, variable, "v")

  def _get_beta_accumulators(self) -> tuple[tf.Tensor, ...]:
    number = tf.cast(self._global_step, tf.float32) + 1
    return tuple(tf.pow(value_of(beta), number) for beta in self._betas)

  def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
    return tf.group(*update_ops, name=name_scope)


class LazyAdamGSOptimizer(_LazyRows, AdamGSOptimizer):
  """LazyAdamOptimizer that counts by the global step, as AdamGSOptimizer."""


class NadamOptimizer(DenseHook, RowsHook, _Adam):
  """Adam with Nesterov's momentum.

  The arguments are those of tf.compat.v1.train.AdamOptimizer. A sparse
  gradient lets all moments decay, and moves its own rows only.
  """

  def update(self, gradient: tf.Tensor, variable: Any) -> list[Any]:
    """Returns Nadam's update of a variable."""
    adam = adam_values(self, gradient.dtype)
    first, second = self.get_slot(variable, "m"), self.get_slot(variable, "v")
    m = adam.beta1 * first + (1 - adam.beta1) * gradient
    v = adam.beta2 * second + (1 - adam.beta2) * gradient**2
    ahead = adam.beta1 * m + (1 - adam.beta1) * gradient
    change = adam.corrected_rate * ahead / (tf.sqrt(v) + adam.epsilon)
    return [
      v1.assign(first, m),
      v1.assign(second, v),
      v1.assign_sub(variable, change),
    ]

  def update_rows(
    self, rows: tf.Tensor, indices: tf.Tensor, variable: Any
  ) -> list[Any]:
    """Returns Nadam's update of rows."""
    adam = adam_values(self, rows.dtype)
    first, second = self.get_slot(variable, "m"), self.get_slot(variable, "v")
    m = adam.beta1 * tf.gather(first, indices) + (1 - adam.beta1) * rows
    v = adam.beta2 * tf.gather(second, indices) + (1 - adam.beta2) * rows**2
    ahead = adam.beta1 * m + (1 - adam.beta1) * rows
    change = adam.corrected_rate * ahead / (tf.sqrt(v) + adam.epsilon)
    with tf.control_dependencies([m, v]):
      decayed = [
        v1.assign(first, adam.beta1 * first),
        v1.assign(second, adam.beta2 * second),
      ]
    with tf.control_dependencies(decayed):
      return [
        v1.scatter_update(first, indices, m),
        v1.scatter_update(second, indices, v),
        v1.scatter_sub(variable, indices, change),
      ]


class AdaMaxOptimizer(DenseHook, RowsHook, _Adam):
  """Adam with the infinity norm in the place of the second moment.

  Of a sparse gradient it updates only the rows that it has.
  """

  def __init__(
    self,
    learning_rate: Any = 0.001,
    beta1: Any = 0.9,
    beta2: Any = 0.999,
    epsilon: Any = 1e-8,
    use_locking: bool = False,
    name: str = "AdaMax",
  ):
    """Makes the optimizer.

    Args:
      learning_rate: a number, tensor or function.
      beta1: how much of the first moment stays at each step.
      beta2: how much of the norm stays at each step.
      epsilon: added to the norm.
      use_locking: whether updates lock their variables.
      name: of the slots' variables.
    """
    super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)
    self._first_beta = beta1

  def _create_slots(self, var_list: list[Any]) -> None:
    first = min(var_list, key=lambda variable: variable.name)
    make_non_slot(self, self._first_beta, "beta1_power", first)
    for variable in var_list:
      make_slot(self, variable, "m")
      make_slot(self, variable, "v")

  def _get_beta_accumulators(self) -> tuple[Any, Any]:
    power = non_slot(self, "beta1_power")
    return power, 0.0  # The norm has no start to correct.

  def update(self, gradient: tf.Tensor, variable: Any) -> list[Any]:
    """Returns AdaMax' update of a variable."""
    adam = adam_values(self, gradient.dtype)
    first, norm = self.get_slot(variable, "m"), self.get_slot(variable, "v")
    m = adam.beta1 * first + (1 - adam.beta1) * gradient
    v = tf.maximum(adam.beta2 * norm, tf.abs(gradient))
    change = adam.corrected_rate * m / (v + adam.epsilon)
    return [
      v1.assign(first, m),
      v1.assign(norm, v),
      v1.assign_sub(variable, change),
    ]

  def update_rows(
    self, rows: tf.Tensor, indices: tf.Tensor, variable: Any
  ) -> list[Any]:
    """Returns AdaMax' update of rows."""
    adam = adam_values(self, rows.dtype)
    first, norm = self.get_slot(variable, "m"), self.get_slot(variable, "v")
    m = adam.beta1 * tf.gather(first, indices) + (1 - adam.beta1) * rows
    v = tf.maximum(adam.beta2 * tf.gather(norm, indices), tf.abs(rows))
    change = adam.corrected_rate * m / (v + adam.epsilon)
    return [
      v1.scatter_update(first, indices, m),
      v1.scatter_update(norm, indices, v),
      v1.scatter_sub(variable, indices, change),
    ]

  def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
    power = non_slot(self, "beta1_power")
    beta1 = adam_values(self, power.dtype.base_dtype).beta1
    with tf.control_dependencies(update_ops):
      counted = v1.assign(power, power * beta1)
    return tf.group(*update_ops, counted, name=name_scope)
