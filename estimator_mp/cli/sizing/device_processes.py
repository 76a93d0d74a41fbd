"""Processes of devices: a cluster on this machine, measured and limited.

Linux counts what a process holds in real memory, and the most it ever held
(VmRSS and VmHWM of /proc/PID/status), and refuses memory for data beyond
RLIMIT_DATA. A device's own process runs this file, too:

  python -m estimator_mp.cli.sizing.device_processes '{"device": [...]}' 0
"""

import contextlib
import dataclasses
import json
import resource
import sys
from collections.abc import Iterator, Sequence

from estimator_mp import json_values
from estimator_mp.cluster import child_process, memory_limit, ports
from estimator_mp.distributed import network

import tensorflow as tf

_MODULE = "estimator_mp.cli.sizing.device_processes"

# oneDNN keeps no packed copies for each thread.
_ENVIRONMENT = {**memory_limit.RETURNS_AT_ONCE, "TF_ENABLE_ONEDNN_OPTS": "0"}


@dataclasses.dataclass(frozen=True)
class DeviceProcesses:
  """The processes of some devices, as `started` starts them.

  Attributes:
    target: The address that a session is to connect to.
    processes: The process of each device.
  """

  target: str
  processes: Sequence[child_process.ChildProcess]

  def limit(self, num_bytes: int) -> None:
    """Lets no process take more data than it has now, and some bytes.

    Args:
      num_bytes: How many more.
    """
    for process in self.processes:
      most = _status(process.pid, "VmData") + num_bytes
      resource.prlimit(process.pid, resource.RLIMIT_DATA, (most, most))

  def forget_peaks(self) -> None:
    """Lets the peaks begin anew at what processes hold now."""
    for process in self.processes:
      with open(f"/proc/{process.pid}/clear_refs", "w") as file:
        file.write("5")

  def peaks(self) -> list[int]:
    """Returns the most bytes of real memory that each process has held."""
    return [_status(process.pid, "VmHWM") for process in self.processes]

  def held(self) -> list[int]:
    """Returns the bytes of real memory that each process holds."""
    return [_status(process.pid, "VmRSS") for process in self.processes]


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

  Raises:
    ValueError: If others than this machine could reach them.
  """
  others = network.outer_interfaces()
  if others:
    raise ValueError(
      "the processes of devices would serve on all interfaces of this machine "
      f"({', '.join(others)}), without authentication; measure by "
      "//estimator_mp:capacity --measure, in a network of its own"
    )
  addresses = [f"localhost:{port}" for port in ports.free_ports(count + 1)]
  cluster = {"chief": addresses[:1], "device": addresses[1:]}
  with contextlib.ExitStack() as stack:
    processes = []
    for task in range(count):
      process = child_process.ChildProcess(
        _MODULE, [json.dumps(cluster), str(task)], _ENVIRONMENT
      )
      stack.callback(process.stop)
      processes.append(process)
    for task, process in enumerate(processes):
      process.first_line(f"the process of device {task}")
    chief = tf.distribute.Server(cluster, "chief", 0)
    yield DeviceProcesses(chief.target, processes)


def main(cluster: str, task: int) -> None:
  """Serves one device until standard input is closed.

  Args:
    cluster: The addresses of all processes as JSON, by job.
    task: Which of the job "device" this is.
  """
  config = tf.compat.v1.ConfigProto(
    intra_op_parallelism_threads=1, inter_op_parallelism_threads=2
  )
  server = tf.distribute.Server(
    json_values.parse(cluster), "device", task, config=config
  )
  print(server.target, flush=True)
  sys.stdin.read()


if __name__ == "__main__":
  main(sys.argv[1], int(sys.argv[2]))
