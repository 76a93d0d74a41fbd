"""Whether a shape has numbers in it or `Dimension` objects, by who reads it.

TensorFlow has one switch for the whole process, the property
`TensorShape._v2_behavior`. Here it depends on the module that reads the shape.
Tested on TensorFlow 2.15.1 and 2.21.0.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any


def show_dimensions(to: Callable[[Mapping[str, Any]], bool]) -> None:
  """Lets some modules read `Dimension` objects, as in TensorFlow 1.

  Args:
    to: says by a module's globals whether it does; all others read numbers.
  """
  import tensorflow as tf  # Only now: it takes seconds.

  def reads_numbers(shape: Any) -> bool:
    del shape
    # The method of the shape asks for this property; who called that?
    return not to(sys._getframe(2).f_globals)

  tf.TensorShape._v2_behavior = property(reads_numbers)
