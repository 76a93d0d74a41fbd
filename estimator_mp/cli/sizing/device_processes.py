"""Processes of devices: a cluster on this machine, measured and limited.

Linux counts what a process holds in real memory, and the most it ever held
(VmRSS and VmHWM of /proc/PID/status), and refuses memory for data beyond
RLIMIT_DATA.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence

from estimator_mp.cluster import ports

# malloc keeps little of what was freed, in one arena, and oneDNN no packed
# copies for each thread: what a process holds is then what TensorFlow does.
_ENVIRONMENT = {
  "MALLOC_ARENA_MAX": "1",
  "MALLOC_MMAP_THRESHOLD_": "65536",
  "MALLOC_TRIM_THRESHOLD_": "65536",
  "TF_ENABLE_ONEDNN_OPTS": "0",
}
_SECONDS_TO_END = 10.0


class DeviceProcesses:
  """The processes of some devices.

  Attributes:
    target: What a session is to connect to.
  """

  def __init__(self, target: str, processes: Sequence[subprocess.Popen[str]]):
    """Knows processes that were started; see `started`."""
    self.target = target
    self._processes = processes

  def limit(self, num_bytes: int) -> None:
    """Lets no process take more data than it has now, and some bytes.

    Args:
      num_bytes: How many more.
    """
    for process in self._processes:
      most = _status(process.pid, "VmData") + num_bytes
      resource.prlimit(process.pid, resource.RLIMIT_DATA, (most, most))

  def forget_peaks(self) -> None:
    """Lets the peaks begin anew at what processes hold now."""
    for process in self._processes:
      with open(f"/proc/{process.pid}/clear_refs", "w") as file:
        file.write("5")

  def peaks(self) -> list[int]:
    """Returns the most bytes of real memory that each process has held."""
    return [_status(process.pid, "VmHWM") for process in self._processes]

  def held(self) -> list[int]:
    """Returns the bytes of real memory that each process holds."""
    return [_status(process.pid, "VmRSS") for process in self._processes]


def _status(pid: int, name: str) -> int:
  """Returns a number of bytes from a process's status; 0 if it has ended."""
  with (
    contextlib.suppress(FileNotFoundError, ProcessLookupError),
    open(f"/proc/{pid}/status") as file,
  ):
    for line in file:
      key, _, value = line.partition(":")
      if key == name:
        return int(value.split()[0]) * 1024
  return 0


@contextlib.contextmanager
def started(count: int) -> Iterator[DeviceProcesses]:
  """Starts the processes of devices, and ends them.

  Args:
    count: How many devices there are.

  Yields:
    The processes: device i is "/job:device/task:i/cpu:0".
  """
  # TensorFlow is imported once the flags are right.
  import tensorflow as tf

  addresses = [f"localhost:{port}" for port in ports.free_ports(count + 1)]
  cluster = {"chief": addresses[:1], "device": addresses[1:]}
  processes: list[subprocess.Popen[str]] = []
  try:
    for task in range(count):
      processes.append(_start(json.dumps(cluster), task))
    for process in processes:
      _wait(process)
    chief = tf.distribute.Server(cluster, "chief", 0)
    yield DeviceProcesses(chief.target, processes)
  finally:
    for process in processes:
      _end(process)


def _start(cluster: str, task: int) -> subprocess.Popen[str]:
  module = "estimator_mp.cli.sizing.device_process"
  paths = os.pathsep.join(path for path in sys.path if path)
  return subprocess.Popen(
    [sys.executable, "-m", module, cluster, str(task)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": paths},
    text=True,
  )


def _wait(process: subprocess.Popen[str]) -> None:
  """Waits until a process serves its device.

  Raises:
    RuntimeError: If it has ended instead.
  """
  assert process.stdout is not None
  if not process.stdout.readline():
    raise RuntimeError(
      f"the process of a device ended with {process.wait()} before it served"
    )


def _end(process: subprocess.Popen[str]) -> None:
  """Ends a process."""
  assert process.stdin is not None
  with contextlib.suppress(OSError):
    process.stdin.close()
  try:
    process.wait(_SECONDS_TO_END)
  except subprocess.TimeoutExpired:
    process.kill()
    process.wait()
