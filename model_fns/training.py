"""Common parts of the training graphs of all factories."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

OptimizerOrFn: TypeAlias = (
  tf.compat.v1.train.Optimizer | Callable[[], tf.compat.v1.train.Optimizer]
)
# Makes the training step of a loss.
Train: TypeAlias = Callable[[tf.Tensor], tf.Operation]


def check_optimizer(optimizer: Any) -> None:
  """Raises if something is neither an optimizer nor makes one.

  Args:
    optimizer: The argument that the user passed.

  Raises:
    TypeError: If it is neither.
  """
  if isinstance(optimizer, tf.compat.v1.train.Optimizer):
    return
  if callable(optimizer) and not isinstance(optimizer, tf.Module):
    return
  raise TypeError(
    f"optimizer is {optimizer!r}; pass a tf.compat.v1.train.Optimizer, or a "
    "function without arguments that returns one"
  )


def make_optimizer(optimizer: OptimizerOrFn) -> tf.compat.v1.train.Optimizer:
  """Returns the optimizer, made in the current graph if it is a function.

  Args:
    optimizer: A v1 optimizer, or a function that returns one.

  Raises:
    TypeError: If the function returns something else.
  """
  if isinstance(optimizer, tf.compat.v1.train.Optimizer):
    return optimizer
  made = optimizer()
  if not isinstance(made, tf.compat.v1.train.Optimizer):
    raise TypeError(
      f"optimizer() returned {made!r}; it has to return a "
      "tf.compat.v1.train.Optimizer"
    )
  return made


def make_train_op(
  loss: tf.Tensor,
  optimizer: OptimizerOrFn,
  update_ops: Sequence[tf.Operation] = (),
  clip_norm: float | None = None,
) -> tf.Operation:
  """Returns the training step, with each gradient beside its forward op.

  Args:
    loss: The loss of the batch.
    optimizer: The user's optimizer.
    update_ops: The ops that have to run before variables change.
    clip_norm: The largest norm that all gradients together may have; larger
      ones are scaled down (Pascanu et al., 2013, arXiv:1211.5063). None for
      any.
  """
  # The head's name scope would be in the name of Adam's beta1_power.
  with tf.compat.v1.name_scope(None):
    made = make_optimizer(optimizer)
    gradients = made.compute_gradients(loss, colocate_gradients_with_ops=True)
    if clip_norm is not None:
      values, variables = zip(*gradients, strict=True)
      clipped, _ = tf.clip_by_global_norm(values, clip_norm)
      gradients = list(zip(clipped, variables, strict=True))
    with tf.control_dependencies(update_ops):
      return made.apply_gradients(
        gradients, global_step=tf.compat.v1.train.get_global_step()
      )


def make_train_op_of_parts(
  loss: tf.Tensor, optimizers: Mapping[str, OptimizerOrFn]
) -> tf.Operation:
  """Returns the training step of a model whose parts have own optimizers.

  As in `tf.estimator.DNNLinearCombinedEstimator`, each optimizer minimizes the
  loss over the variables of its part.

  Args:
    loss: The loss of the batch.
    optimizers: The optimizer of each part, by the scope of its variables.
  """
  with tf.compat.v1.name_scope(None):
    updates = [
      make_optimizer(optimizer).minimize(
        loss,
        var_list=tf.compat.v1.trainable_variables(scope),
        colocate_gradients_with_ops=True,
      )
      for scope, optimizer in optimizers.items()
    ]
    step = tf.compat.v1.train.get_global_step()
    with tf.control_dependencies(updates):
      return tf.compat.v1.assign_add(step, 1).op
