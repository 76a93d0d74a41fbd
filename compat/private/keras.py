"""Reads of Keras 2 that have no public names.

Tested on TensorFlow and tf-keras 2.15.1 and 2.21.0.

- `tensorflow._tf_uses_legacy_keras` tells which Keras TensorFlow has taken.
- `backend._SEED_GENERATOR` is where layers, tf_keras's and those of
  tf.compat.v1.layers, draw the seeds that they were not given.
  `tf.keras.utils.set_random_seed` sets it; without that it is `random`. Up to
  2.18, tf-keras asks it for numbers up to a float, which Python 3.12 refuses.
- `Model._get_compile_args` returns what `compile` was given, of the eager Model
  and of the one that Keras makes in a graph of TensorFlow 1.
- `Tensor.__eq__` compares objects in a graph of TensorFlow 1, whatever
  `tensor == 0` means in an eager program; `equality_of_values` changes that.
- Optimizers keep a schedule of learning rates as `_learning_rate`, the legacy
  ones in `_hyper`.
"""

import contextlib
import inspect
import numbers
import random
import sys
import types
from collections.abc import Iterator
from typing import Any

_PACKAGES = (
  "collections",
  "compat",
  "estimator_mp",
  "keras",
  "model_fns",
  "tensorflow",
  "tensorflow_estimator",
  "tf_keras",
  "weakref",
)


def uses_legacy_keras(tensorflow: types.ModuleType) -> bool:
  """Returns whether TensorFlow has taken tf-keras as tf.keras.

  Args:
    tensorflow: the module, of version 2.16 or later.
  """
  return bool(getattr(tensorflow, "_tf_uses_legacy_keras", False))


def seeds_of_layers(tensorflow: types.ModuleType) -> Any:
  """Returns what has, as `generator`, the source of the layers' seeds.

  Args:
    tensorflow: the module.
  """
  keras = inspect.getmodule(tensorflow.keras.utils.set_random_seed)
  return vars(keras)["backend"]._SEED_GENERATOR


class _Seeds(random.Random):
  """Draws whole numbers up to a whole float, too."""

  def randint(self, a: int, b: float) -> int:
    return super().randint(a, int(b))


@contextlib.contextmanager
def seeded_layers(
  tensorflow: types.ModuleType, seed: int | None
) -> Iterator[None]:
  """Fixes the seeds that layers made inside draw, in this thread.

  They are those after `tf.keras.utils.set_random_seed(seed)`. Python's own
  `random` is left as it is.

  Args:
    tensorflow: the module.
    seed: the seed; None, or a program that has called `set_random_seed` itself,
      leaves all as it is.

  Yields:
    None.
  """
  seeds = seeds_of_layers(tensorflow)
  if seed is None or getattr(seeds, "generator", None) is not None:
    yield
    return
  seeds.generator = _Seeds(seed)
  try:
    yield
  finally:
    seeds.generator = None


def compile_arguments(model: Any) -> dict[str, Any]:
  """Returns what a model's `compile` was given, as it was given.

  Args:
    model: A compiled tf_keras model.

  Returns:
    The optimizer, as Keras keeps it, the loss, loss_weights, metrics and
    weighted_metrics; None for what was not given.
  """
  given = model._get_compile_args()
  names = ("loss", "loss_weights", "metrics", "weighted_metrics")
  # In a graph, Keras keeps an empty dict or list for None.
  found = {
    name: None if _is_empty(given.get(name)) else given[name] for name in names
  }
  return {**found, "optimizer": model.optimizer}


def learning_rate(optimizer: Any) -> Any:
  """Returns the learning rate that a tf_keras optimizer was given.

  Args:
    optimizer: Of `tf.keras.optimizers`, legacy or not.

  Returns:
    A schedule, a function, a number or a variable.
  """
  if hasattr(optimizer, "_hyper"):
    return optimizer._hyper["learning_rate"]
  return optimizer._learning_rate


@contextlib.contextmanager
def equality_of_values(tensorflow: types.ModuleType) -> Iterator[None]:
  """Lets `==` and `!=` of tensors of a graph compare values, as eager ones do.

  A model that was written for eager execution means that by `words == 0`, and
  would get False. Inside the block a tensor is compared by its value with a
  number or an array, and by the program's own code with a tensor. What
  TensorFlow, Keras and this project compare are objects, as before.

  Args:
    tensorflow: the module.

  Yields:
    None.
  """
  tf = tensorflow
  equal, unequal = tf.Tensor.__eq__, tf.Tensor.__ne__

  def compares_values(other: Any) -> bool:
    if isinstance(other, numbers.Number) or type(other).__module__ == "numpy":
      return True
    caller = sys._getframe(2).f_globals.get("__name__", "")
    return tf.is_tensor(other) and caller.split(".")[0] not in _PACKAGES

  def eq(tensor: Any, other: Any) -> Any:
    by_value = not tf.executing_eagerly() and compares_values(other)
    return tf.equal(tensor, other) if by_value else equal(tensor, other)

  def ne(tensor: Any, other: Any) -> Any:
    by_value = not tf.executing_eagerly() and compares_values(other)
    return tf.not_equal(tensor, other) if by_value else unequal(tensor, other)

  tf.Tensor.__eq__, tf.Tensor.__ne__ = eq, ne
  try:
    yield
  finally:
    tf.Tensor.__eq__, tf.Tensor.__ne__ = equal, unequal


def _is_empty(value: Any) -> bool:
  return value is None or (isinstance(value, dict | list) and not value)
