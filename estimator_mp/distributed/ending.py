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
  answer for `startup_timeout` seconds gives up, with an error; before that, the
  log names the chief.

With parameter servers the workers train, too, and the chief ends last: each
worker writes into a variable in its own server how many runs it has done, and
the chief looks there before it tells anybody.
"""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.cluster.run_log import LOG
from estimator_mp.distributed import silence, status

import tensorflow as tf

v1 = tf.compat.v1

_VARIABLE = "estimator_mp_ended_runs"
_DONE_VARIABLE = "estimator_mp_done_runs"
_PAUSE_SECONDS = 0.5
# After this silence at the end of a run a worker is taken to have ended.
_GONE_SECONDS = 30.0
# To tell a task that answers takes milliseconds.
_TELL_SECONDS = 20.0


@dataclasses.dataclass(frozen=True)
class Run:
  """A run of the program, as one of the tasks sees it.

  Attributes:
    target: The server of this task.
    cluster: The cluster; its `task` is this process.
    number: Which run, from 1.
    startup_timeout: For how many seconds the chief may be away: at the start,
      and in between.
    heartbeat_timeout: After how many seconds the log names a chief that is
      silent.
  """

  target: str
  cluster: tasks_lib.Cluster
  number: int
  startup_timeout: float
  heartbeat_timeout: float = 30.0

  def tell(self) -> None:
    """Tells all other tasks that the chief, which this one is, has ended it.

    A task that does not answer is not waited for.
    """
    cluster = self.cluster
    others = [task for task in cluster.tasks if task != cluster.task]
    end = time.monotonic() + _TELL_SECONDS
    threads = [
      threading.Thread(target=self._tell_one, args=(x,), daemon=True)
      for x in others
    ]
    for thread in threads:
      thread.start()
    for thread, task in zip(threads, others, strict=True):
      thread.join(max(0.0, end - time.monotonic()))
      if thread.is_alive():
        self._warn(task)

  def _tell_one(self, task: tasks_lib.Task) -> None:
    with status.Probe(self.cluster.address(task)) as probe:
      if probe.ask() is None:
        self._warn(task)
        return
    try:
      self._write(task, _VARIABLE)
    except tf.errors.OpError:
      self._warn(task)

  def _warn(self, task: tasks_lib.Task) -> None:
    LOG.warning(
      "%s at %s did not answer when the run ended; end it by hand if it is "
      "still there",
      task,
      self.cluster.address(task),
    )

  def wait(self) -> None:
    """Waits until the chief has ended it.

    Raises:
      TaskError: If the chief is away for too long.
    """
    cluster, seconds = self.cluster, self.startup_timeout
    chief, address = cluster.chief, cluster.address(cluster.chief)
    silent = silence.Silence(
      f"{chief} at {address}",
      self.heartbeat_timeout,
      seconds,
      time.monotonic(),
    )
    with (
      self._reading(cluster.task, _VARIABLE) as number,
      status.Probe(address) as probe,
    ):
      while number() < self.number:
        answer = probe.ask()
        if answer is not None:
          status.check_is(chief, address, answer)
          text = silent.hear(time.monotonic())
        else:
          text = silent.miss(time.monotonic(), probe.is_refused)
        if silent.is_lost:
          raise status.TaskError(
            f"{chief} at {address} did not answer {cluster.task} for "
            f"{seconds:g} s; start it, open its port between the machines, or "
            "raise startup_timeout"
          )
        if text is not None:
          LOG.warning("%s", text)
        time.sleep(_PAUSE_SECONDS)

  def say_done(self) -> None:
    """Says in this task's own server that it has no more work to do."""
    self._write(self.cluster.task, _DONE_VARIABLE)

  def wait_until_all_done(self, tasks: Sequence[tasks_lib.Task]) -> None:
    """Waits until other tasks have said that they are done with it.

    One that does not answer for half a minute is not waited for: nobody needs
    it any more.

    Args:
      tasks: The other tasks of the run.
    """
    for task in tasks:
      with status.Probe(self.cluster.address(task)) as probe:
        seen = time.monotonic()
        while time.monotonic() - seen < _GONE_SECONDS:
          if probe.ask() is not None:
            seen = time.monotonic()
            if self._num_done(task) >= self.number:
              break
          time.sleep(_PAUSE_SECONDS)
        else:
          self._warn(task)

  def _num_done(self, task: tasks_lib.Task) -> int:
    """Returns how many runs a task says that it has done."""
    try:
      with self._reading(task, _DONE_VARIABLE) as number:
        return number()
    except tf.errors.OpError:
      return 0  # It has ended after it had answered.

  def _write(self, task: tasks_lib.Task, name: str) -> None:
    """Writes the number of the run into a variable of a task."""
    with self._session(task) as session:
      session.run(_number(task, name).assign(self.number))

  @contextlib.contextmanager
  def _reading(
    self, task: tasks_lib.Task, name: str
  ) -> Iterator[Callable[[], int]]:
    """Yields a reader of a task's number; 0 as long as nobody wrote it."""
    with self._session(task) as session:
      number = _number(task, name)
      value, is_there = number.read_value(), v1.is_variable_initialized(number)
      yield lambda: int(session.run(value)) if session.run(is_there) else 0

  def _session(self, task: tasks_lib.Task) -> tf.compat.v1.Session:
    """Returns a session, of a new graph, that needs this and one other task."""
    filters = [x.device_prefix for x in (self.cluster.task, task)]
    config = v1.ConfigProto(device_filters=filters)
    return v1.Session(self.target, graph=tf.Graph(), config=config)


def _number(task: tasks_lib.Task, name: str) -> Any:
  """Returns a variable of a task, in the graph that is the default."""
  with tf.device(f"{task.device_prefix}/device:CPU:0"):
    return v1.get_variable(
      name, [], tf.int64, v1.zeros_initializer(), use_resource=True
    )
