"""Free ports for the tasks of a local cluster.

Between the choice of a port and the moment that a task listens at it, another
process may take it. Linux does not give it away: connections, and programs that
ask for any port, get ports from a range of their own (ip_local_port_range), and
these here are below. Another process that chooses as this one does sees that
the port is reserved: a Unix socket has the port's name in the abstract
namespace (section 7 of the manual, unix), which belongs to a network as ports
do, and which Linux clears when the process ends, however it ends.
"""

import contextlib
import random
import socket

_LOWEST = 10_000
_HIGHEST = 65_535
_ENOUGH = 1_000
_TRIALS = 10_000

# Not the draws of `random` that a program has seeded.
_draw = random.SystemRandom()
# Open files, which end with the process.
_reserved: list[int] = []


def free_ports(count: int) -> list[int]:
  """Returns ports of this machine that no process listens at.

  They are this process's until it ends.

  Args:
    count: How many.

  Raises:
    OSError: If there are not as many.
  """
  candidates = _candidates()
  ports: list[int] = []
  for _ in range(_TRIALS):
    if len(ports) == count:
      return ports
    port = _draw.choice(candidates)
    if reserve(port):
      ports.append(port)
  raise OSError(f"this machine has no {count} free ports")


def reserve(port: int) -> bool:
  """Reserves a port for this process; returns False if it is taken.

  Args:
    port: The port.
  """
  name = socket.socket(socket.AF_UNIX)
  try:
    name.bind(f"\0estimator_mp/port/{port}")
    with contextlib.closing(socket.socket()) as listens:
      # TensorFlow's server listens on all interfaces.
      listens.bind(("", port))
  except OSError:
    name.close()
    return False
  _reserved.append(name.detach())
  return True


def _candidates() -> range:
  """Returns ports that Linux gives to no connection, if it leaves enough."""
  with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
    lowest_given = int(file.read().split()[0])
  if lowest_given - _LOWEST >= _ENOUGH:
    return range(_LOWEST, lowest_given)
  return range(_LOWEST, _HIGHEST + 1)
