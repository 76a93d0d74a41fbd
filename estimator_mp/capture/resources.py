"""Resources: a program's variables are handles, whatever it says of them."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


@contextlib.contextmanager
def all_resources() -> Iterator[None]:
  """Makes each variable of the default graph a resource.

  Programs that switch TensorFlow 2's behaviour off get references
  (`VariableV2`), whose value is read by an edge of the graph that is also a
  way to write it; a resource is read by an op, and so can be split. Names and
  checkpoints are the same.

  Yields:
    None.
  """

  def create(next_creator: Callable[..., Any], **options: Any) -> Any:
    variable = next_creator(**{**options, "use_resource": True})
    if not tf.compat.v1.resource_variables_enabled():
      value = functools.partial(_initialized_value, variable)
      variable.initialized_value = value
    return variable

  with tf.compat.v1.variable_creator_scope(create):
    yield


def _initialized_value(variable: tf.Variable) -> tf.Tensor:
  """Returns a variable's value, or its first one as long as it has none.

  It is a method of references only: programs that have these may ask for it.
  """
  with tf.init_scope():
    return tf.cond(
      tf.compat.v1.is_variable_initialized(variable),
      variable.read_value,
      lambda: variable.initial_value,
    )
