"""Machines of a test: network namespaces with addresses of their own.

    outside (the test; nothing is changed here)
    the switch: a namespace with a bridge
      |-- veth -- machine 0, 10.77.0.1
      |-- veth -- machine 1, 10.77.0.2
      ...

A namespace lives as long as a process in it, and these end with the test. Who
is not root has them within a user namespace. See network_namespaces and veth in
sections 7 and 4 of the manual.
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import time

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_TOOLS = ("ip", "nsenter", "setpriv", "sleep", "unshare")
_SECONDS = 600.0
_NETWORK = "10.77.0"
_LISTENING = "0A"


class NotPermittedError(Exception):
  """This machine permits no such namespaces; the text says why."""


class Machines:
  """Some machines that reach each other, and nothing else.

  Attributes:
    addresses: The address of each.
  """

  def __init__(self, processes, count):
    """Makes them.

    Args:
      processes: A stack that ends what is started.
      count: How many.

    Raises:
      NotPermittedError: If that is not permitted.
    """
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
      raise NotPermittedError(f"there is no {missing[0]}")
    self.addresses = [f"{_NETWORK}.{i + 1}" for i in range(count)]
    self._is_root = os.geteuid() == 0
    of_user = [] if self._is_root else ["--user", "--map-root-user"]
    self._switch = _hold(processes, ["unshare", "--net", *of_user])
    self._ip(self._switch, "link add switch type bridge")
    self._ip(self._switch, "link set switch up")
    within = [*self._enter(self._switch), "unshare", "--net"]
    self._holders = [_hold(processes, within) for _ in range(count)]
    for number in range(count):
      self._join(number)

  def command(self, number):
    """Returns what the command of a process on a machine begins with.

    Args:
      number: Which machine.
    """
    return self._enter(self._holders[number])

  def _join(self, number):
    holder = self._holders[number]
    port = f"port{number}"
    pair = f"link add {port} type veth peer name eth0 netns {holder}"
    self._ip(self._switch, pair)
    self._ip(self._switch, f"link set {port} master switch up")
    self._ip(holder, f"address add {self.addresses[number]}/24 dev eth0")
    self._ip(holder, "link set eth0 up")
    self._ip(holder, "link set lo up")

  def _enter(self, holder):
    of_user = [] if self._is_root else ["--user", "--preserve-credentials"]
    return [
      *("nsenter", f"--target={holder}", "--net", *of_user),
      # To enter a user namespace takes away what the test has set.
      *("setpriv", "--pdeathsig", "KILL"),
    ]

  def _ip(self, holder, arguments):
    done = subprocess.run(
      [*self._enter(holder), "ip", *arguments.split()],
      capture_output=True,
      text=True,
      check=False,
    )
    if done.returncode:
      reason = " ".join(done.stderr.split())
      raise NotPermittedError(f"ip {arguments}: {reason}")


@contextlib.contextmanager
def machines(test, count):
  """Makes machines, or skips a test and says why.

  Args:
    test: The test.
    count: How many.

  Yields:
    The `Machines`.
  """
  with contextlib.ExitStack() as processes:
    try:
      made = Machines(processes, count)
    except NotPermittedError as error:
      test.skipTest(f"no network namespaces are permitted here: {error}")
    yield made


def listening_sockets(process="self"):
  """Returns what listens in the network that a process is in.

  Args:
    process: The number of the process.

  Returns:
    Pairs of a port and the number (inode) of the socket, which is another one
    for each socket of this Linux.
  """
  found = set()
  for name in ("tcp", "tcp6"):
    path = pathlib.Path(f"/proc/{process}/net/{name}")
    for line in path.read_text().splitlines()[1:] if path.exists() else ():
      _, address, _, state, *others = line.split()
      if state == _LISTENING:
        found.add((int(address.rpartition(":")[2], 16), int(others[5])))
  return found


def _hold(processes, command):
  """Starts a process that holds a namespace; returns its number.

  Args:
    processes: A stack that ends it.
    command: What makes the namespace, and then runs what follows.
  """
  process = subprocess.Popen(
    [*command, "setpriv", "--pdeathsig", "KILL", "sleep", "infinity"],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
    preexec_fn=lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
  )
  processes.enter_context(process)
  processes.callback(process.kill)
  end = time.monotonic() + _SECONDS
  while _name(process.pid) != "sleep":
    if process.poll() is not None or time.monotonic() > end:
      process.kill()
      raise NotPermittedError(" ".join(process.communicate()[1].split()))
    time.sleep(0.01)
  return process.pid


def _name(pid):
  return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
