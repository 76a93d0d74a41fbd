"""Recovery: training that loses a task goes on when it is back.

The chief makes its session anew, from a graph that is built anew, and takes up
the last checkpoint with its place in the data, as it does when it is started
again itself: one way back, whoever has died. MonitoredSession's own recovery is
off meanwhile. It knows of two kinds of errors only, asks for a session that
waits for the task without a word, and saves in it before the input is ready.

    train --- error --- was a task lost? --- no ---> raise
      ^                       | yes
      '--- all answer <--- wait for it --- lost_after ---> raise

The steps since the last checkpoint are lost.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from compat.private import estimators
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.cluster.run_log import LOG
from estimator_mp.distributed import watch as watch_lib

import tensorflow as tf

_Result = TypeVar("_Result")

# The errors of a session that cannot reach a task; also if a connection broke
# between two tasks that are well.
_UNREACHABLE = (tf.errors.AbortedError, tf.errors.UnavailableError)
# How often that counts as a reason if all tasks are well, soon after another.
_MOST_BROKEN = 3
_SOON_SECONDS = 600.0
_PAUSE_SECONDS = 0.5


def run(
  train: Callable[[int], _Result],
  addresses: Mapping[tasks_lib.Task, str],
  heartbeat_timeout: float,
  lost_after: float,
  raise_if_stopped: Callable[[], None] = lambda: None,
) -> _Result:
  """Trains, and goes on when a task was lost and is back.

  Args:
    train: Trains from the last checkpoint to the end, as `Estimator.train`
      does. It is called again after each loss, and is told how often it was
      called before.
    addresses: Where the other tasks listen, host:port. All of them answer.
    heartbeat_timeout: After how many seconds a silent task is named.
    lost_after: After how many seconds it is lost.
    raise_if_stopped: Raises if lost tasks are no longer waited for.

  Returns:
    The result of `train`.

  Raises:
    LostTaskError: If a task does not come back.
    Exception: Any other exception of `train`.
  """
  broken = 0
  with (
    watch_lib.Watch(addresses, heartbeat_timeout, lost_after) as watch,
    estimators.errors_end_sessions(),
  ):
    for num_before in itertools.count():
      watch.begin(_wait_for_all(watch, raise_if_stopped))
      began = time.monotonic()
      try:
        return train(num_before)
      except Exception as error:  # The call to the lost task raises.
        watch.check_none_is_lost()
        lost = watch.lost()
        is_soon = time.monotonic() - began < _SOON_SECONDS
        broken = broken + 1 if is_soon and not lost else 1
        if not lost and (not _is_broken(error) or broken > _MOST_BROKEN):
          raise
        _say_lost(lost, addresses, error)
      finally:
        watch.end()
  raise AssertionError


def _is_broken(error: BaseException) -> bool:
  """Whether an error is of a connection."""
  return any(isinstance(cause, _UNREACHABLE) for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
  seen: set[int] = set()
  while error is not None and id(error) not in seen:
    seen.add(id(error))
    yield error
    error = error.__cause__ or error.__context__


def _say_lost(
  lost: tuple[tasks_lib.Task, ...],
  addresses: Mapping[tasks_lib.Task, str],
  error: BaseException,
) -> None:
  names = ", ".join(f"{task} at {addresses[task]}" for task in lost)
  text = f"the run lost {names}" if lost else "a connection between tasks broke"
  LOG.warning(
    "%s (%s); training goes on from the last checkpoint",
    text,
    type(error).__name__,
  )


def _wait_for_all(
  watch: watch_lib.Watch, raise_if_stopped: Callable[[], None]
) -> dict[tasks_lib.Task, bytes]:
  """Returns `Status.start` of all tasks, as soon as all of them answer."""
  while True:
    raise_if_stopped()
    starts = watch_lib.ask_all(watch.addresses)
    if len(starts) == len(watch.addresses):
      return starts
    watch.check_none_is_lost()
    time.sleep(_PAUSE_SECONDS)
