"""Puts the view of TensorFlow 1.15 before a program."""

import dataclasses
import types

from compat.errors import CompatError
from compat.v1 import behavior, imports
from compat.v1.membership import PROGRAM, folder_of_main
from compat.v1.names import methods
from compat.v1.view import view_of_tensorflow


@dataclasses.dataclass(frozen=True)
class Choices:
  """What a user chooses about a TensorFlow 1 program.

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
    CompatError: if a graph or an eager tensor was made before.
  """
  global _chosen
  PROGRAM.add(choices.packages, folder_of_main())
  if _chosen is not None:
    return
  try:
    behavior.choose(
      tensorflow, choices.v2_control_flow, choices.resource_variables
    )
  except ValueError as error:
    raise CompatError(
      "compat.install(v1=True) came too late: TensorFlow has computed "
      "something already, as TensorFlow 2 does. Call it before."
    ) from error
  methods.supply(tensorflow)
  imports.redirect(view_of_tensorflow(tensorflow))
  _chosen = choices
