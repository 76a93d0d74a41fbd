"""Shapes as TensorFlow 1 had them, in a process that has others, too.

Whether a shape has numbers in it or `Dimension` objects depends on the module
that reads it; TensorFlow has one switch for the whole process, the property
`TensorShape._v2_behavior`. Tested on TensorFlow 2.15.1 and 2.21.0.
"""

import sys
import types
from collections.abc import Callable
from typing import Any


def show_dimensions(to: Callable[[types.FrameType], bool]) -> None:
  """Lets some modules read `Dimension` objects, as in TensorFlow 1.

  Args:
    to: says of the code that reads whether it does; all other reads numbers.
  """
  import tensorflow as tf  # Only now: it takes seconds.

  def reads_numbers(shape: Any) -> bool:
    del shape
    # The method of the shape asks for this property; who called that?
    return not to(sys._getframe(2))

  tf.TensorShape._v2_behavior = property(reads_numbers)


def accept_whole_floats() -> None:
  """Lets a size be a float without a fraction, as in TensorFlow 1.

  `units / 2` is one in Python 3; a program may compute its sizes so.
  """
  from tensorflow.python.framework import tensor_shape

  original = tensor_shape.Dimension.__init__

  def __init__(self: Any, value: Any) -> None:
    is_whole = isinstance(value, float) and value.is_integer()
    original(self, int(value) if is_whole else value)

  tensor_shape.Dimension.__init__ = __init__
