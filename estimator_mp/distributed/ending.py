"""The end of a run: how the tasks that only serve learn of it.

The chief counts the runs of its program (calls of `train_and_evaluate`), and so
does each task. When the chief has ended its n-th run, it writes n into a
variable on every other task, in the task's own server. A task's n-th run ends
when it finds n there, or more:

    chief     run 1 ........ writes 1 | run 2 ........ writes 2 | ends
    worker 0  serves run 1 ........... | serves run 2 .......... | ends

- A chief that is killed and started again writes nothing meanwhile, and counts
  from 1 again: in a run that has ended before, it finds all steps done.
- A worker that is started again has lost the number, and hears the next one,
  which is as large or larger.
- A chief that fails writes nothing, either: whoever watches the processes
  starts it again, or ends them all. A worker that has not heard its chief
  answer for `startup_timeout` seconds gives up, with an error.

With parameter servers the workers train, too, and the chief ends last: each
worker writes into a variable in its own server how many runs it has done, and
the chief looks there before it tells anybody.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import status

import tensorflow as tf

v1 = tf.compat.v1

_VARIABLE = "estimator_mp_ended_runs"
_OWN_VARIABLE = "estimator_mp_done_runs"
_PAUSE_SECONDS = 0.5
# After what silence at the end of a run a worker is taken to have ended.
_GONE_SECONDS = 30.0
# To tell a task that answers takes milliseconds.
_TELL_SECONDS = 20.0


def tell(target: str, cluster: tasks_lib.Cluster, num_runs: int) -> None:
  """Tells all other tasks of a cluster that the chief has ended a run.

  A task that does not answer is not waited for.

  Args:
    target: The chief's server.
    cluster: The cluster; its `task` is the chief.
    num_runs: How many runs the chief has ended.
  """
  others = [task for task in cluster.tasks if task != cluster.task]
  end = time.monotonic() + _TELL_SECONDS
  threads = [
    threading.Thread(
      target=_tell_one, args=(target, cluster, x, num_runs), daemon=True
    )
    for x in others
  ]
  for thread in threads:
    thread.start()
  for thread, task in zip(threads, others, strict=True):
    thread.join(max(0.0, end - time.monotonic()))
    if thread.is_alive():
      _warn(cluster, task)


def _tell_one(
  target: str, cluster: tasks_lib.Cluster, task: tasks_lib.Task, num_runs: int
) -> None:
  with status.Probe(cluster.address(task)) as probe:
    if probe.ask() is None:
      _warn(cluster, task)
      return
  try:
    _write(target, cluster, task, _VARIABLE, num_runs)
  except tf.errors.OpError:
    _warn(cluster, task)


def _warn(cluster: tasks_lib.Cluster, task: tasks_lib.Task) -> None:
  logging.getLogger("tensorflow").warning(
    "%s at %s did not answer when the run ended; end it by hand if it is still "
    "there",
    task,
    cluster.address(task),
  )


def wait(
  target: str, cluster: tasks_lib.Cluster, num_run: int, seconds: float
) -> None:
  """Waits until the chief has ended a run.

  Args:
    target: The server of this task.
    cluster: The cluster; its `task` is this process.
    num_run: Which run, from 1.
    seconds: How long the chief may be away: at the start, and in between.

  Raises:
    TaskError: If it is away for longer.
  """
  chief, address = cluster.chief, cluster.address(cluster.chief)
  seen = time.monotonic()
  with (
    _reading(target, cluster, cluster.task, _VARIABLE) as number,
    status.Probe(address) as probe,
  ):
    while number() < num_run:
      found = probe.ask()
      if found is not None:
        status.check_is(chief, address, found)
        seen = time.monotonic()
      elif time.monotonic() - seen > seconds:
        raise status.TaskError(
          f"{chief} at {address} did not answer {cluster.task} for "
          f"{seconds:g} s; start it, let nothing between the machines hold "
          "back its port, or raise startup_timeout"
        )
      time.sleep(_PAUSE_SECONDS)


def say_done(target: str, cluster: tasks_lib.Cluster, num_runs: int) -> None:
  """Says in this task's own server that it has no more work to do.

  Args:
    target: The server of this task.
    cluster: The cluster; its `task` is this process.
    num_runs: How many runs it has done.
  """
  _write(target, cluster, cluster.task, _OWN_VARIABLE, num_runs)


def wait_until_all_done(
  target: str,
  cluster: tasks_lib.Cluster,
  tasks: Sequence[tasks_lib.Task],
  num_run: int,
) -> None:
  """Waits until other tasks have said that they are done with a run.

  One that does not answer for half a minute is not waited for: nobody needs it
  any more.

  Args:
    target: The server of this task.
    cluster: The cluster; its `task` is this process.
    tasks: Who else works in the run.
    num_run: Which run, from 1.
  """
  for task in tasks:
    with status.Probe(cluster.address(task)) as probe:
      seen = time.monotonic()
      while time.monotonic() - seen < _GONE_SECONDS:
        if probe.ask() is not None:
          seen = time.monotonic()
          if _num_done(target, cluster, task) >= num_run:
            break
        time.sleep(_PAUSE_SECONDS)
      else:
        _warn(cluster, task)


def _num_done(
  target: str, cluster: tasks_lib.Cluster, task: tasks_lib.Task
) -> int:
  """Returns how many runs a task says that it has done."""
  try:
    with _reading(target, cluster, task, _OWN_VARIABLE) as number:
      return number()
  except tf.errors.OpError:
    return 0  # It has ended after it had answered.


def _write(
  target: str,
  cluster: tasks_lib.Cluster,
  task: tasks_lib.Task,
  name: str,
  value: int,
) -> None:
  """Writes a number into a variable of a task."""
  with _session(target, cluster, task) as session:
    session.run(_number(task, name).assign(value))


@contextlib.contextmanager
def _reading(
  target: str, cluster: tasks_lib.Cluster, task: tasks_lib.Task, name: str
) -> Iterator[Callable[[], int]]:
  """Yields what reads a number of a task; 0 as long as nobody wrote it."""
  with _session(target, cluster, task) as session:
    number = _number(task, name)
    value, is_there = number.read_value(), v1.is_variable_initialized(number)
    yield lambda: int(session.run(value)) if session.run(is_there) else 0


def _number(task: tasks_lib.Task, name: str) -> Any:
  """Returns a variable of a task, in the graph that is the default."""
  with tf.device(f"{task.device_prefix}/device:CPU:0"):
    return v1.get_variable(
      name, [], tf.int64, v1.zeros_initializer(), use_resource=True
    )


def _session(
  target: str, cluster: tasks_lib.Cluster, task: tasks_lib.Task
) -> tf.compat.v1.Session:
  """Returns a session, of a new graph, that needs this and one other task."""
  filters = [x.device_prefix for x in (cluster.task, task)]
  config = v1.ConfigProto(device_filters=filters)
  return v1.Session(target, graph=tf.Graph(), config=config)
