"""Internals of an optimizer of TensorFlow 1: slots, and its four hooks.

Tested on TensorFlow 2.15.1 and 2.21.0. `tf.compat.v1.train.Optimizer` is made
to be subclassed, with methods of private names:

- `_zeros_slot`, `_get_or_make_slot`, `_create_non_slot_variable` and
  `_get_non_slot_variable` make and find the variables of an optimizer.
- `_apply_dense`, `_resource_apply_dense`, `_apply_sparse` and
  `_resource_apply_sparse` make the update of one variable. Here they are two.
- `_name`, and the tensors that AdamOptimizer and AdagradOptimizer make of their
  arguments, are read.
- `Variable._save_slice_info` tells of which variable it is a part.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf


class DenseHook:
  """For an optimizer with one rule for references and resources, `update`.

  It comes first among the bases.
  """

  def update(self, gradient: tf.Tensor, variable: Any) -> Any:
    """Returns ops that update a variable.

    Args:
      gradient: of the variable's shape and dtype.
      variable: a reference or a resource.
    """
    raise NotImplementedError(f"{type(self).__name__} has no update().")

  def _apply_dense(self, grad: tf.Tensor, var: Any) -> Any:
    return tf.group(self.update(grad, var))

  def _resource_apply_dense(self, grad: tf.Tensor, handle: Any) -> Any:
    return tf.group(self.update(grad, handle))


class RowsHook:
  """For an optimizer with one rule for rows of references and resources.

  It is `update_rows`, and comes first among the bases.
  """

  def update_rows(
    self, rows: tf.Tensor, indices: tf.Tensor, variable: Any
  ) -> Any:
    """Returns ops that update rows of a variable.

    Args:
      rows: the gradient of these rows.
      indices: their numbers, each once.
      variable: a reference or a resource.
    """
    raise NotImplementedError(f"{type(self).__name__} has no update_rows().")

  def _apply_sparse(self, grad: Any, var: Any) -> Any:
    return tf.group(self.update_rows(grad.values, grad.indices, var))

  def _resource_apply_sparse(
    self, grad: tf.Tensor, handle: Any, indices: tf.Tensor
  ) -> Any:
    return tf.group(self.update_rows(grad, indices, handle))


@dataclasses.dataclass(frozen=True)
class AdamValues:
  """The values of AdamOptimizer at a step, as tensors of one dtype.

  Attributes:
    rate: the learning rate.
    beta1: of the first moment.
    beta2: of the second moment.
    epsilon: added to the root of the second moment.
    power1: beta1 to the power of the number of this step, from 1.
    power2: the same of beta2.
  """

  rate: tf.Tensor
  beta1: tf.Tensor
  beta2: tf.Tensor
  epsilon: tf.Tensor
  power1: tf.Tensor
  power2: tf.Tensor

  @property
  def corrected_rate(self) -> tf.Tensor:
    """The learning rate that corrects both moments' start at zero."""
    return self.rate * tf.sqrt(1 - self.power2) / (1 - self.power1)


def adam_values(optimizer: Any, dtype: tf.DType) -> AdamValues:
  """Returns the values of an AdamOptimizer whose update is being made.

  Args:
    optimizer: an AdamOptimizer, or of a class below it.
    dtype: of the variable.
  """
  values = (
    optimizer._lr_t,
    optimizer._beta1_t,
    optimizer._beta2_t,
    optimizer._epsilon_t,
    *optimizer._get_beta_accumulators(),
  )
  return AdamValues(*(tf.cast(value, dtype) for value in values))


def adagrad_rate(optimizer: Any, dtype: tf.DType) -> tf.Tensor:
  """Returns the learning rate of an AdagradOptimizer at its update.

  Args:
    optimizer: an AdagradOptimizer, or of a class below it.
    dtype: of the variable.
  """
  return tf.cast(optimizer._learning_rate_tensor, dtype)


def make_slot(
  optimizer: Any, variable: Any, name: str, initial: Any = None
) -> Any:
  """Returns a slot of a variable, made if it is not there.

  Args:
    optimizer: whose slot it is; its variable is called as the optimizer.
    variable: the variable.
    name: of the slot.
    initial: its initial value, a tensor; zeros like the variable by default.
  """
  if initial is None:
    return optimizer._zeros_slot(variable, name, optimizer._name)
  return optimizer._get_or_make_slot(variable, initial, name, optimizer._name)


def make_non_slot(
  optimizer: Any, initial: Any, name: str, colocate_with: Any
) -> Any:
  """Returns a variable of an optimizer itself, made if it is not there.

  Args:
    optimizer: whose it is.
    initial: its initial value.
    name: of the variable.
    colocate_with: the variable beside which it lies.
  """
  return optimizer._create_non_slot_variable(initial, name, colocate_with)


def non_slot(optimizer: Any, name: str) -> Any:
  """Returns a variable that make_non_slot made in the current graph."""
  graph = None if tf.executing_eagerly() else _outermost_graph()
  return optimizer._get_non_slot_variable(name, graph=graph)


def _outermost_graph() -> tf.Graph:
  """The graph of the variables; a branch of a condition has one of its own."""
  with tf.init_scope():
    return tf.compat.v1.get_default_graph()


def value_of(argument: Any) -> Any:
  """Returns an argument, or what it returns if it is a function."""
  return argument() if callable(argument) else argument


def saved_name(variable: Any) -> str:
  """Returns what a Saver calls a variable, or that of which it is a part."""
  part = getattr(variable, "_save_slice_info", None)
  return str(variable.op.name if part is None else part.full_name)


def wrap_updates(
  optimizer: Any, wrap: Callable[[Callable[[], Any], Any], Any]
) -> None:
  """Puts a function around all updates of variables that an optimizer makes.

  Args:
    optimizer: an instance; its hooks are replaced.
    wrap: takes the function that makes an update, and the gradient, a tensor or
      the values of the rows, and returns what is to be made.
  """
  for hook in (
    "_apply_dense",
    "_resource_apply_dense",
    "_apply_sparse_duplicate_indices",
    "_resource_apply_sparse_duplicate_indices",
  ):
    setattr(optimizer, hook, _wrapped(getattr(optimizer, hook), wrap))


def _wrapped(
  make: Callable[..., Any], wrap: Callable[[Callable[[], Any], Any], Any]
) -> Callable[..., Any]:
  def make_wrapped(gradient: Any, *args: Any) -> Any:
    values = getattr(gradient, "values", gradient)
    return wrap(lambda: make(gradient, *args), values)

  return make_wrapped
