"""Resource variables that behave as reference variables do.

- `ResourceVariable` is the class that TensorFlow makes of `use_resource=True`;
  `RefVariable`, what it makes otherwise, says of each method here what it does.

Tested on TensorFlow 2.15.1 and 2.21.0.
"""

import inspect
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops


class ReferenceLikeVariable(resource_variable_ops.ResourceVariable):
  """A resource, for a program that has reference variables."""

  def __bool__(self) -> bool:
    """A reference is an object like others; a resource asks for its value."""
    return True

  def initialized_value(self) -> tf.Tensor:
    """Returns the value, or the first one as long as it has none."""
    with tf.init_scope():
      return tf.cond(
        tf.compat.v1.is_variable_initialized(self),
        self.read_value,
        lambda: self.initial_value,
      )


_ACCEPTED = frozenset(
  inspect.signature(resource_variable_ops.ResourceVariable.__init__).parameters
)


def make(options: dict[str, Any]) -> ReferenceLikeVariable:
  """Returns a resource variable for what would have been a reference.

  Args:
    options: The arguments of a `tf.compat.v1.variable_creator_scope` creator.
  """
  known = {name: x for name, x in options.items() if name in _ACCEPTED}
  return ReferenceLikeVariable(**known)
