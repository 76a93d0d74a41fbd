"""TensorFlow 1's behaviour: graphs, its variables and its control flow."""

import contextlib
import logging
import types
from collections.abc import Iterator

from compat.private import tensor_shapes
from compat.v1.membership import PROGRAM


def choose(
  tensorflow: types.ModuleType,
  v2_control_flow: bool = False,
  resource_variables: bool = False,
) -> None:
  """Makes TensorFlow behave as 1.15 did, in this process.

  A program builds graphs then, in which variables are references and loops and
  conditions are of Switch and Merge. Only the program's modules see `Dimension`
  objects in shapes; all others go on reading numbers.

  Args:
    tensorflow: the module; nothing may have been computed with it yet.
    v2_control_flow: whether loops and conditions are functions, as in 2.
    resource_variables: whether variables are resources, as in 2.
  """
  v1 = tensorflow.compat.v1
  with _quiet(tensorflow.get_logger()):
    v1.disable_v2_behavior()
    if v2_control_flow:
      v1.enable_control_flow_v2()
    if resource_variables:
      v1.enable_resource_variables()
  tensor_shapes.show_dimensions(PROGRAM.runs)
  tensor_shapes.accept_whole_floats()


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
  """Leaves out TensorFlow's warnings that all this is of the past."""
  level = logger.level
  logger.setLevel(logging.ERROR)
  try:
    yield
  finally:
    logger.setLevel(level)
