"""The connections of this process, which it can end from outside of gRPC.

A step waits for the answers of all tasks, and TensorFlow sets no limit to that:
if a machine is gone without a word, or a process is stopped, nothing comes, and
`Session.close` waits just so (seen on TensorFlow 2.15 and 2.21, with
`operation_timeout_in_ms`, too). A socket that is shut down under gRPC fails
all calls that wait for it at once, as if the task had died.
"""

import contextlib
import os
import socket
import stat
from typing import Any

# Where Linux has the descriptors that a process has open.
_DESCRIPTORS = "/proc/self/fd"


def shut_down(address: str) -> int:
  """Shuts down all connections from this process to an address.

  Args:
    address: Where the others listen, host:port.

  Returns:
    How many there were.
  """
  host, _, port = address.rpartition(":")
  with contextlib.suppress(OSError):
    entries = socket.getaddrinfo(host.strip("[]"), int(port))
    peers = {(entry[4][0], entry[4][1]) for entry in entries}
    return sum(
      _shut_down(int(name), peers) for name in os.listdir(_DESCRIPTORS)
    )
  return 0


def _shut_down(descriptor: int, peers: set[tuple[Any, Any]]) -> bool:
  """Shuts down a socket that is connected to a peer; whether it was one."""
  with contextlib.suppress(OSError):
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
      return False
    with socket.socket(fileno=os.dup(descriptor)) as copy:
      if copy.family not in (socket.AF_INET, socket.AF_INET6):
        return False
      host, port = copy.getpeername()[:2]
      if (host.removeprefix("::ffff:"), port) not in peers:
        return False
      copy.shutdown(socket.SHUT_RDWR)
      return True
  return False
