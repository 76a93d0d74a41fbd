"""A network of the cluster's own: a namespace that has loopback only.

TensorFlow's server listens on all interfaces, also if TF_CONFIG names one
address, and has no authentication. In a network namespace of Linux
(network_namespaces in section 7 of the manual) there is nothing else to listen
on. A user other than root gets one within a user namespace that keeps the
user's number: files that tasks write are theirs.
"""

import ctypes
import errno
import os

from estimator_mp.cli import commands
from estimator_mp.distributed import network

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_LOOPBACK = "lo"


def enter_or_refuse(otherwise: str) -> str:
  """Moves this process to a network that no other process reaches.

  It must have no other thread.

  Args:
    otherwise: The advice if there can be none.

  Returns:
    The network, in words.

  Raises:
    FlagsError: If there can be none, and others reach this machine.
  """
  reason = reason_against()
  if reason is None:
    enter()
    return "in a network of their own"
  others = ", ".join(network.outer_interfaces())
  if others:
    raise commands.FlagsError(
      f"this machine permits no network of the tasks' own ({reason}), and "
      "TensorFlow's servers listen on all interfaces without authentication, "
      f"here on {others}; {otherwise}"
    )
  return f"on loopback; no network of their own is permitted ({reason})"


def reason_against() -> str | None:
  """Returns why this process cannot have a network of its own; None if it can.

  A process that was refused half way cannot go back. So a child tries.
  """
  reading, writing = os.pipe()
  child = os.fork()
  if not child:
    os.close(reading)
    try:
      enter()
    except OSError as error:
      os.write(writing, (error.strerror or str(error)).encode())
    finally:
      os._exit(0)
  os.close(writing)
  with open(reading, encoding="utf-8") as file:
    reason = file.read()
  os.waitpid(child, 0)
  return reason or None


def enter() -> None:
  """Moves this process, with all that it will start, to a network of its own.

  It must have no other thread.

  Raises:
    OSError: If that is not permitted; then the process is of no use any more.
  """
  user, group = os.geteuid(), os.getegid()
  try:
    _unshare(_CLONE_NEWNET)
  except PermissionError:
    _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
  flags = network.ask_interface(network.GET_FLAGS, _LOOPBACK)
  network.ask_interface(network.SET_FLAGS, _LOOPBACK, flags | network.IS_UP)


def _unshare(flags: int) -> None:
  libc = ctypes.CDLL(None, use_errno=True)
  # Python has os.unshare from 3.12 on.
  if not hasattr(libc, "unshare"):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
  if libc.unshare(flags):
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def _write(path: str, text: str) -> None:
  with open(path, "w", encoding="utf-8") as file:
    file.write(text)
