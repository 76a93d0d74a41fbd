"""Whether the tasks of a cluster answer.

Each server of TensorFlow's answers /tensorflow.WorkerService/GetStatus with its
devices, as soon as it serves, and without any session. A request without
fields is no bytes, so gRPC alone can ask. A process that is stopped, or a
machine that is cut off, does not answer in time.
"""

import contextlib
import dataclasses
import re
import time
from collections.abc import Mapping
from typing import Any

from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.cluster.run_log import LOG
from estimator_mp.distributed import silence

import grpc

_GET_STATUS = "/tensorflow.WorkerService/GetStatus"
_OPTIONS = (
  # Tasks reach each other, or nothing works.
  ("grpc.enable_http_proxy", 0),
  ("grpc.initial_reconnect_backoff_ms", 100),
  ("grpc.max_reconnect_backoff_ms", 1000),
  ("grpc.use_local_subchannel_pool", 1),
)
_DEVICE = re.compile(rb"/job:(\w+)/replica:0/task:(\d+)/device:CPU:0")
# How long one question takes at most, and the pause after it.
_ANSWER_SECONDS = 2.0
_PAUSE_SECONDS = 0.1


class TaskError(RuntimeError):
  """A task of the cluster cannot serve, or cannot be reached."""


class LostTaskError(TaskError, SystemExit):
  """A task was lost during the run, for good.

  A program that does not catch it ends with an exit code of its own, which
  tells whoever watches the process that to start the cluster again may help.

  Attributes:
    code: The exit code.
  """

  def __init__(self, text: str):
    """Makes the error.

    Args:
      text: The problem, and the fix.
    """
    super().__init__(text)
    self.code = tasks_lib.LOST_A_TASK


@dataclasses.dataclass(frozen=True)
class Status:
  """The answer of a server about itself.

  Attributes:
    task: The task that answered; None if it does not say.
    start: Equal for two answers if the process was not started anew between
      them: TensorFlow numbers the devices of each server at random.
  """

  task: tasks_lib.Task | None
  start: bytes


class Probe:
  """Asks one address, again and again, over one connection.

  Attributes:
    is_refused: Whether the last question could not be put, as nobody listens
      at the address.
  """

  def __init__(self, address: str):
    """Stores an address; the task is not asked yet.

    Args:
      address: host:port.
    """
    self._channel = grpc.insecure_channel(address, _OPTIONS)
    self._ask: Any = self._channel.unary_unary(_GET_STATUS)
    self.is_refused = False

  def ask(self, seconds: float = _ANSWER_SECONDS) -> Status | None:
    """Returns the answer of the server at the address.

    Args:
      seconds: How long to wait for it.

    Returns:
      None if nobody answers, at once or in time.
    """
    self.is_refused = False
    try:
      answer: bytes = self._ask(b"", timeout=seconds)
    except grpc.RpcError as error:
      self.is_refused = error.code() == grpc.StatusCode.UNAVAILABLE
      return None
    match = _DEVICE.search(answer)
    task = None
    if match is not None:
      task = tasks_lib.Task(match[1].decode(), int(match[2]))
    return Status(task, answer)

  def __enter__(self) -> "Probe":
    return self

  def __exit__(self, *exception: object) -> None:
    self._channel.close()


def wait_until_all_answer(
  addresses: Mapping[tasks_lib.Task, str], seconds: float
) -> None:
  """Waits until all of some tasks serve; the log says for which of them.

  Args:
    addresses: Where each listens, host:port.
    seconds: How long to wait for the last of them.

  Raises:
    TaskError: If a task does not answer in time, or another one does at its
      address.
  """
  began = time.monotonic()
  named = silence.START_SECONDS
  missing = dict(addresses)
  with contextlib.ExitStack() as stack:
    probes = {
      task: stack.enter_context(Probe(address))
      for task, address in addresses.items()
    }
    while True:
      # A question takes time, too: each task is asked once more in the end.
      is_last = time.monotonic() - began >= seconds
      for task, address in tuple(missing.items()):
        answer = probes[task].ask()
        if answer is not None:
          check_is(task, address, answer)
          del missing[task]
      waited = time.monotonic() - began
      if not missing:
        return
      if is_last:
        task, address = next(iter(missing.items()))
        raise TaskError(
          f"{task} at {address} did not answer within {seconds:g} s; start it, "
          "open its port between the machines, or raise startup_timeout"
        )
      if waited >= named:
        LOG.warning(
          "no answer yet, after %.0f s, from %s; the run starts when they "
          "answer, and ends after startup_timeout=%g",
          waited,
          ", ".join(f"{x} at {y}" for x, y in missing.items()),
          seconds,
        )
        named += silence.REMIND_SECONDS
      time.sleep(_PAUSE_SECONDS)


def check_is(task: tasks_lib.Task, address: str, answer: Status) -> None:
  """Raises if a server is that of another task.

  Args:
    task: Whose it should be.
    address: Where it listens, host:port.
    answer: The answer.

  Raises:
    TaskError: If it is another one's.
  """
  if answer.task is not None and answer.task != task:
    raise TaskError(
      f"{address} is {answer.task} of a cluster, but TF_CONFIG of this task "
      f"says that it is {task}; give all tasks the same cluster"
    )
