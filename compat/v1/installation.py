"""Puts the view of TensorFlow 1.15 before a program."""

import dataclasses
import types

from compat.errors import CompatError
from compat.private.v1 import global_step, old_protobuf
from compat.v1 import behavior, imports, python
from compat.v1.membership import PROGRAM
from compat.v1.names import methods
from compat.v1.view import view_of_tensorflow


@dataclasses.dataclass(frozen=True)
class Choices:
  """A user's choices for a TensorFlow 1 program.

  Attributes:
    packages: packages that belong to the program although they are installed.
    v2_control_flow: whether loops and conditions are functions, as in 2.
    resource_variables: whether variables are resources, as in 2.
  """

  packages: tuple[str, ...] = ()
  v2_control_flow: bool = False
  resource_variables: bool = False


_chosen: Choices | None = None


def supply(tensorflow: types.ModuleType, choices: Choices) -> None:
  """Makes the modules of the program see TensorFlow 1.15's `tf`.

  Calling it again adds packages to the program.

  Args:
    tensorflow: the module, with tf.estimator and tf.contrib.
    choices: see there.

  Raises:
    CompatError: if it was called before and other behavior was chosen then.
  """
  global _chosen
  PROGRAM.add(choices.packages)
  if _chosen is not None:
    _check_same_behavior(_chosen, choices)
    return
  behavior.choose(
    tensorflow, choices.v2_control_flow, choices.resource_variables
  )
  methods.supply(tensorflow)
  global_step.supply()
  python.supply()
  imports.redirect(view_of_tensorflow(tensorflow))
  old_protobuf.accept()
  _chosen = choices


def _check_same_behavior(before: Choices, now: Choices) -> None:
  for name in ("v2_control_flow", "resource_variables"):
    chosen = getattr(before, name)
    if getattr(now, name) != chosen:
      raise CompatError(
        f"{name} is {not chosen}, but was {chosen} when the view of "
        "TensorFlow 1.15 was installed; a process has one behavior. Choose the "
        "same each time."
      )
