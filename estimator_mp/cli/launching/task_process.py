"""The process of a task: its command and environment, and its end.

It leads a session of its own, so that Ctrl-C reaches the launcher only, and a
signal reaches all processes that the task has started. Linux kills it when the
launcher dies (PR_SET_PDEATHSIG in section 2 of the manual, prctl).
"""

import contextlib
import ctypes
import dataclasses
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Mapping

from estimator_mp.cli.launching import guardian as guardian_lib
from estimator_mp.cli.launching import task_output
from estimator_mp.cli.launching.launch_flags import LaunchOptions
from estimator_mp.cluster import memory_limit
from estimator_mp.cluster.tasks import LOST_A_TASK, Task
from estimator_mp.config import options as options_lib

_PR_SET_PDEATHSIG = 1
_MOST_READ = 1 << 16


@dataclasses.dataclass(eq=False)
class TaskProcess:
  """A task and its process, which may be started again when it has ended.

  Attributes:
    task: The task.
    options: The options of the launch command.
    environment: All variables of its environment.
    output: Where its output goes.
    guardian: The guardian that is to know its process group.
  """

  task: Task
  options: LaunchOptions
  environment: Mapping[str, str]
  output: task_output.TaskOutput
  guardian: guardian_lib.Guardian
  _process: subprocess.Popen[bytes] | None = None
  _reading: int = -1

  @property
  def is_running(self) -> bool:
    """Whether it was started and is not known to have ended."""
    return self._process is not None

  def start(self) -> int:
    """Starts it; returns the file that its output is to be read from.

    Raises:
      OSError: If the program cannot be run.
    """
    limit = self.options.mem_limit
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
      self._process = subprocess.Popen(
        self.options.program,
        env={
          **(memory_limit.RETURNS_AT_ONCE if limit else {}),
          **self.environment,
        },
        cwd=options_lib.user_directory(),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=writing,
        start_new_session=True,
        preexec_fn=_preparation(limit),
      )
    except BaseException:
      os.close(reading)
      raise
    finally:
      os.close(writing)
    self.guardian.watch(self._process.pid)
    self._reading = reading
    return reading

  def read(self) -> bool:
    """Passes on some of its output.

    Returns:
      Whether there was some, or may be later; False once all processes that
      could write have ended.
    """
    try:
      data = os.read(self._reading, _MOST_READ)
    except BlockingIOError:
      return True
    self.output.write(data)
    return bool(data)

  def read_rest(self) -> None:
    """Passes on the remaining output; no more is read after that."""
    with contextlib.suppress(BlockingIOError):
      # A process that has left its group may go on writing.
      while data := os.read(self._reading, _MOST_READ):
        self.output.write(data)
    os.close(self._reading)
    self.output.end()

  def poll(self) -> int | None:
    """Returns the exit code if it has just ended; None if it has not.

    It is that of a shell: 128 more than the number of the signal that has
    killed it. The others of its process group are killed then.
    """
    if self._process is None:
      return None
    pid = self._process.pid
    has_ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
    if os.waitid(os.P_PID, pid, has_ended) is None:
      return None
    # Until it is waited for, its number cannot be another's.
    self.signal(signal.SIGKILL)
    self.guardian.forget(pid)
    code = self._process.wait()
    self._process = None
    return code if code >= 0 else 128 - code

  def signal(self, number: int) -> None:
    """Sends a signal to its process group, also if that was stopped.

    Args:
      number: The signal.
    """
    if self._process is not None:
      with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(self._process.pid, number)
        os.killpg(self._process.pid, signal.SIGCONT)

  def kill(self) -> None:
    """Kills it, and waits until it has ended, which `poll` says next."""
    if self._process is not None:
      self.signal(signal.SIGKILL)
      os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)


def _preparation(limit: int | None) -> Callable[[], None]:
  """Returns a function for the process to call between fork and exec."""
  libc = ctypes.CDLL(None)
  launcher = os.getpid()
  _, most = resource.getrlimit(resource.RLIMIT_DATA)
  if limit is not None and most != resource.RLIM_INFINITY:
    limit = min(limit, most)  # It cannot be raised.

  def prepare() -> None:
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != launcher:
      os._exit(1)
    if limit is not None:
      resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

  return prepare


def describe_exit(code: int) -> str:
  """Returns an exit code in words, such as "was killed by SIGKILL".

  Args:
    code: The exit code, as of `TaskProcess.poll`.
  """
  if code == LOST_A_TASK:
    return f"has lost another task (exit code {code})"
  with contextlib.suppress(ValueError):
    return f"was killed by {signal.Signals(code - 128).name}"
  return f"ended with exit code {code}"
