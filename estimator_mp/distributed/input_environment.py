"""The environment of an input_fn: that of one process.

Where one mesh spans the tasks, the chief's input is all of the input. An
input_fn that reads TF_CONFIG, as is usual where each worker has a model of its
own, would leave out what it takes to be the others' part, and nothing would
fail. So it is called without TF_CONFIG, as in one process. Which part a task is
to read, `input_context` says: see `input_by_task`.
"""

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

from compat.private import estimators

_VARIABLE = "TF_CONFIG"


def without_tf_config(input_fn: Callable[..., Any]) -> Callable[..., Any]:
  """Returns an input_fn that is called without TF_CONFIG.

  Args:
    input_fn: The input_fn; the result takes the same arguments.
  """

  @functools.wraps(input_fn, updated=())
  def alone(*args: Any, **kwargs: Any) -> Any:
    with _without_tf_config():
      return input_fn(*args, **kwargs)

  # Estimator looks at the arguments of this one, as it does at input_fn's.
  del alone.__wrapped__
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  vars(alone)["__signature__"] = inspect.Signature(
    [
      inspect.Parameter(name, kind)
      for name in estimators.arguments_of(input_fn)
    ]
  )
  return alone


@contextlib.contextmanager
def _without_tf_config() -> Iterator[None]:
  kept = os.environ.pop(_VARIABLE, None)
  try:
    yield
  finally:
    if kept is not None:
      os.environ[_VARIABLE] = kept
