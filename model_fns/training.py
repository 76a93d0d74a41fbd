"""What the training graphs of all factories have in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from model_fns import layers as layers_lib

import tensorflow as tf

OptimizerOrFn: TypeAlias = (
  tf.compat.v1.train.Optimizer | Callable[[], tf.compat.v1.train.Optimizer]
)


def check_optimizer(optimizer: Any) -> None:
  """Raises if something is neither an optimizer nor makes one.

  Args:
    optimizer: What the user passed.

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
  update_ops: Sequence[tf.Operation],
) -> tf.Operation:
  """Returns the training step, with each gradient beside its forward op.

  Args:
    loss: The loss of the batch.
    optimizer: The user's optimizer.
    update_ops: What has to run before variables change.
  """
  # The head's name scope would be in the name of Adam's beta1_power.
  with tf.compat.v1.name_scope(None):
    made = make_optimizer(optimizer)
    gradients = made.compute_gradients(loss, colocate_gradients_with_ops=True)
    with tf.control_dependencies(update_ops):
      return made.apply_gradients(
        gradients, global_step=tf.compat.v1.train.get_global_step()
      )


def select_inputs(features: Any, feature_key: str | None) -> Any:
  """Returns what the first layer gets of the features.

  Args:
    features: The features that the Estimator passes to the model_fn.
    feature_key: The feature to select, or None for all of them.

  Returns:
    `features[feature_key]`, or `features`.

  Raises:
    ValueError: If there is no such feature.
  """
  if feature_key is None:
    return features
  if not isinstance(features, Mapping) or feature_key not in features:
    names = (
      ", ".join(map(repr, features))
      if isinstance(features, Mapping)
      else f"a single {type(features).__name__}"
    )
    raise ValueError(
      f"feature_key={feature_key!r} is not among the features ({names}); "
      "change feature_key or the input_fn"
    )
  return features[feature_key]


def collect_update_ops(
  layers: Sequence[layers_lib.Layer],
) -> list[tf.Operation]:
  """Returns what has to run beside a training step, each op once."""
  collected = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
  return _unique([*collected, *(op for x in layers for op in x.update_ops)])


def collect_regularization_losses(
  layers: Sequence[layers_lib.Layer],
) -> list[tf.Tensor]:
  """Returns the scalar losses that variables add, each one once."""
  collected = tf.compat.v1.losses.get_regularization_losses()
  added = (loss for x in layers for loss in x.regularization_losses)
  return _unique([*collected, *added])


def _unique(items: Sequence[Any]) -> list[Any]:
  """Returns the items in order, without repetitions of the same object."""
  return list({id(item): item for item in items}.values())
