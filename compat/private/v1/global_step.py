"""The global step of tf.estimator, which a program may put another one for.

Estimators of 1.15 took it from `tensorflow.python.training.training_util` when
they needed it, so AdaNet, which sets that function, lets each candidate count
its own steps. Those of today take it from `tf.compat.v1.train`. Tested on
TensorFlow 2.15.1 and 2.21.0.
"""

import functools
from typing import Any

import tensorflow as tf
from tensorflow.python.training import training_util

_NAMES = ("get_global_step", "get_or_create_global_step")


def supply() -> None:
  """Lets `tf.compat.v1.train` give what `training_util` has."""
  for name in _NAMES:
    plain = getattr(training_util, name)
    setattr(tf.compat.v1.train, name, _current(name, plain))


def _current(name: str, plain: Any) -> Any:
  @functools.wraps(plain)
  def current(*args: Any, **kwargs: Any) -> Any:
    found = getattr(training_util, name)
    # Who puts back what `tf.train` has shown puts this function there.
    return (plain if found is current else found)(*args, **kwargs)

  return current
