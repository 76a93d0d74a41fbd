"""The first training of a user's program: its Estimator and its input_fn.

The program runs unchanged up to its first `Estimator.train`. There, with all
that it has set up, something else is done with its Estimator, and it ends.
"""

import os
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, TypeVar

from compat import program
from compat.private import estimators
from estimator_mp import sharding
from estimator_mp.cli import commands
from estimator_mp.config import options as options_lib

import tensorflow as tf

_T = TypeVar("_T")


class _TrainingReached(BaseException):
  """Ends a program, whichever errors it handles itself."""


def act_at_training(
  words: Sequence[str],
  act: Callable[[tf.compat.v1.estimator.Estimator, Callable[..., Any]], _T],
) -> _T:
  """Runs a program up to its first training, and does something else there.

  Args:
    words: A script, or -m and a module, and its arguments.
    act: Is called with the Estimator and the input_fn.

  Returns:
    The result of `act`.

  Raises:
    FlagsError: If the program trains no Estimator, or one that is sharded.
    Exception: Any exception of `act`, or of the program itself.
  """
  name = " ".join(words)
  acted: futures.Future[_T] = futures.Future()

  def train(estimator: Any, input_fn: Callable[..., Any]) -> None:
    if not acted.done():
      try:
        _check_plain(estimator, name)
        acted.set_result(act(estimator, input_fn))
      except Exception as error:
        acted.set_exception(error)
    raise _TrainingReached

  with estimators.intercepted_training(train):
    end = _run(words)
  if acted.done():
    return acted.result()
  if isinstance(end, Exception):
    raise end
  state = f" ({end!r})" if end else ""
  raise commands.FlagsError(
    f"{name} ended{state} before an Estimator trained; give it the arguments "
    "with which it trains"
  )


def _run(words: Sequence[str]) -> BaseException | None:
  """Runs a program; returns how it ended, None if it came to its end."""
  path = options_lib.absolute_path(words[0])
  os.chdir(options_lib.user_directory())
  try:
    if words[0] == "-m":
      program.run_as_main(words[1], True, words[2:])
    else:
      program.run_as_main(path, False, words[1:])
  except (Exception, SystemExit, _TrainingReached) as end:
    return end
  return None


def _check_plain(estimator: Any, name: str) -> None:
  """Raises if an Estimator is sharded."""
  if sharding.is_sharded(estimators.model_fn_of(estimator)):
    raise commands.FlagsError(
      f"{name} shards its {type(estimator).__name__} itself; leave that line "
      "out, and give this command's flags for sharding"
    )
