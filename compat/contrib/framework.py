"""Names of tf.contrib.framework."""

from typing import Any

from compat.contrib import absent

import tensorflow as tf

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

assert_global_step = tf.compat.v1.train.assert_global_step
create_global_step = tf.compat.v1.train.create_global_step
get_global_step = tf.compat.v1.train.get_global_step
get_or_create_global_step = tf.compat.v1.train.get_or_create_global_step
init_from_checkpoint = tf.compat.v1.train.init_from_checkpoint
is_tensor = tf.is_tensor
list_variables = tf.train.list_variables
load_checkpoint = tf.train.load_checkpoint
load_variable = tf.train.load_variable
nest = tf.nest
sort = tf.sort
argsort = tf.argsort


def get_variables(
  scope: Any = None,
  suffix: str | None = None,
  collection: str = tf.compat.v1.GraphKeys.GLOBAL_VARIABLES,
) -> list[Any]:
  """Returns the variables of a scope, in the order they were made.

  Args:
    scope: a variable scope or the name of one; all variables by default.
    suffix: keeps only the variables whose names end so.
    collection: the graph collection to look in.
  """
  name = getattr(scope, "name", scope)
  found: list[Any] = tf.compat.v1.get_collection(collection, name)
  if suffix is None:
    return found
  return [variable for variable in found if variable.op.name.endswith(suffix)]


def get_trainable_variables(
  scope: Any = None, suffix: str | None = None
) -> list[Any]:
  """Returns the trainable variables of a scope; see get_variables."""
  trainable = tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES
  return get_variables(scope, suffix, trainable)
