"""Hosts that can reach this machine, and so a server of TensorFlow's.

It listens on all interfaces, whatever address TF_CONFIG names ("0.0.0.0" on
TensorFlow 2.15 and 2.21), and has no authentication: anyone who reaches its
port can read and write files, and run code, as the user of the process.
"""

import contextlib
import fcntl
import os
import socket
import struct

from estimator_mp.cluster import tasks as tasks_lib

# gRPC's own variable: hosts that are reached without a proxy.
DIRECT = "no_grpc_proxy"
# linux/sockios.h and linux/if.h.
GET_FLAGS = 0x8913
SET_FLAGS = 0x8914
IS_UP = 0x1
_IS_LOOPBACK = 0x8
# Of C's ifreq: the name of an interface, and its flags.
_REQUEST = struct.Struct("16sH14x")


def ask_interface(request: int, name: str, flags: int = 0) -> int:
  """Gets or sets the flags of a network interface; returns them.

  As in netdevice in section 7 of Linux' manual.

  Args:
    request: `GET_FLAGS` or `SET_FLAGS`.
    name: The interface.
    flags: The flags to set.

  Raises:
    OSError: If it does not say, or that is not permitted.
  """
  with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
    answer = fcntl.ioctl(asked, request, _REQUEST.pack(name.encode(), flags))
  return int(_REQUEST.unpack(answer)[1])


def outer_interfaces() -> tuple[str, ...]:
  """Returns the network interfaces that are up, but for the loopback.

  They are those of the network namespace that this process is in.
  """
  return tuple(name for _, name in socket.if_nameindex() if _is_outer(name))


def _is_outer(name: str) -> bool:
  flags = IS_UP  # One that does not say is taken to be one.
  with contextlib.suppress(OSError):
    flags = ask_interface(GET_FLAGS, name)
  return bool(flags & IS_UP) and not flags & _IS_LOOPBACK


def check_network(cluster: tasks_lib.Cluster, trusted_network: bool) -> None:
  """Raises if others could reach a server, and `trusted_network` is not set.

  Args:
    cluster: The cluster that this process is a task of.
    trusted_network: Whether only the cluster can reach its ports.

  Raises:
    ValueError: If so.
  """
  if trusted_network or not cluster.is_served:
    return
  interfaces = outer_interfaces()
  if interfaces:
    raise ValueError(
      f"{cluster.task} would serve on all interfaces of this machine "
      f"({', '.join(interfaces)}), whatever address TF_CONFIG names, and "
      "TensorFlow's server lets anyone who reaches it run code, but "
      "trusted_network=True is not set; set it (--trusted_network) if a "
      "firewall lets only machines of the cluster reach it, or start the tasks "
      "by `estimator-mp launch`, in a network of their own"
    )


def reach_directly(cluster: tasks_lib.Cluster) -> None:
  """Lets TensorFlow's connections to the tasks of a cluster pass no proxy.

  Where http_proxy is set, gRPC looks there for other tasks, too, even on the
  same machine, and waits for ever.

  Args:
    cluster: The cluster.
  """
  direct = os.environ.get(DIRECT) or os.environ.get("no_proxy") or ""
  known = [host for host in direct.split(",") if host]
  hosts = {cluster.address(task).rpartition(":")[0] for task in cluster.tasks}
  os.environ[DIRECT] = ",".join([*known, *sorted(hosts - {*known})])
