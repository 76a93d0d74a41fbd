"""The environment of an input_fn: that of one process.

Where one mesh spans the tasks, the chief's input is all of the input. An
input_fn that reads TF_CONFIG, as is usual where each worker has a model of its
own, would leave out what it takes to be the others' part, and nothing would
fail. So it is called without TF_CONFIG, as in one process. Which part a task is
to read, `input_context` says: see `input_by_task`.
"""

import inspect
import os
from collections.abc import Callable, Iterable
from typing import Any

from compat.private import estimators

_VARIABLE = "TF_CONFIG"


def with_arguments(
  function: Callable[..., Any], names: Iterable[str]
) -> Callable[..., Any]:
  """Lets an Estimator, which looks at arguments, find these of a function.

  Args:
    function: A function that takes any arguments.
    names: Those that it is to be given.

  Returns:
    The same function.
  """
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  vars(function)["__signature__"] = inspect.Signature(
    [inspect.Parameter(name, kind) for name in names]
  )
  return function


def without_tf_config(input_fn: Callable[..., Any]) -> Callable[..., Any]:
  """Returns an input_fn that is called without TF_CONFIG.

  Args:
    input_fn: The input_fn; the result takes the same arguments.
  """

  def alone(*args: Any, **kwargs: Any) -> Any:
    kept = os.environ.pop(_VARIABLE, None)
    try:
      return input_fn(*args, **kwargs)
    finally:
      if kept is not None:
        os.environ[_VARIABLE] = kept

  return with_arguments(alone, estimators.arguments_of(input_fn))
