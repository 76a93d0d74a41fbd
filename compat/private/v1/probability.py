"""Distributions tell both of their parameters to programs of TensorFlow 1.

A distribution that is given `logits` had `probs` as well, and the other way
round, until TensorFlow Probability 0.8; since then what was not given is None.
Tested on TensorFlow Probability 0.23 and 0.25.
"""

import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

_PARAMETERS = ("logits", "probs")


def show_parameters(to: Callable[[types.FrameType], bool]) -> None:
  """Lets some modules read the parameter that was not given.

  Args:
    to: says of the code that reads whether it does; all other reads None.
  """
  import tensorflow_probability as tfp

  for kind in filter(inspect.isclass, vars(tfp.distributions).values()):
    for name in _PARAMETERS:
      read = getattr(vars(kind).get(name), "fget", None)
      if read is not None and hasattr(kind, f"{name}_parameter"):
        setattr(kind, name, _parameter(name, read, to))


def _parameter(
  name: str,
  read: Callable[[Any], Any],
  to: Callable[[types.FrameType], bool],
) -> property:
  def found(distribution: Any) -> Any:
    given = read(distribution)
    if given is None and to(sys._getframe(1)):
      return getattr(distribution, f"{name}_parameter")()
    return given

  return property(found, doc=f"The parameter `{name}`.")
