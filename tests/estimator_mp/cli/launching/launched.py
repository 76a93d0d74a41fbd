"""Runs the launch command as a process, with programs of a few lines."""

import contextlib
import ctypes
import pathlib
import signal
import subprocess
import sys
import time

from estimator_mp.cli.launching import network
from tests.compat import processes

_COMMAND = [sys.executable, "-m", "estimator_mp", "launch"]
_PR_SET_PDEATHSIG = 1
_SECONDS = 600

# Where tests do not need a network of their own, any machine will do.
HOST = "--network=host"
# What a program needs to know who it is; `me` is such as "worker1".
WHO = """
import json, os, signal, sys, time
config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
me = f"{job}{index}"
"""
# A worker serves until it is ended.
SERVE = WHO + "\nif job in ('worker', 'ps'): time.sleep(1000)\n"


def python(program: str) -> list[str]:
  """Returns a command that runs a program without what starts slowly."""
  return [sys.executable, "-I", "-S", "-u", "-c", program]


@contextlib.contextmanager
def started(*arguments, cwd=None, environment=None):
  """Starts the command; its process does not outlive the test's."""
  libc = ctypes.CDLL(None)
  process = subprocess.Popen(
    [*_COMMAND, *arguments],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    cwd=cwd,
    env=processes.environment(**(environment or {})),
    preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
  )
  with process:
    try:
      yield process
    finally:
      process.kill()


def run(*arguments, **kwargs):
  """Returns the exit code, standard output and standard error."""
  with started(*arguments, **kwargs) as process:
    output, errors = process.communicate(timeout=_SECONDS)
    return process.returncode, output, errors


def wait_until(is_so, what="what was awaited"):
  """Waits until something is so; fails if that takes too long."""
  end = time.monotonic() + _SECONDS
  while not is_so():
    if time.monotonic() > end:
      raise AssertionError(f"{what} has not come")
    time.sleep(0.01)


def pids(folder):
  """Returns the processes whose numbers are names of files in a folder."""
  return [int(path.name) for path in pathlib.Path(folder).iterdir()]


def is_alive(pid):
  """Whether there is such a process, and it has not ended."""
  try:
    status = pathlib.Path(f"/proc/{pid}/stat").read_text()
  except (FileNotFoundError, ProcessLookupError):
    return False
  return status.rpartition(")")[2].split()[0] not in "ZX"


def skip_without_namespaces(test):
  """Skips a test where no network namespace is permitted, and says why."""
  reason = network.reason_against()
  if reason is not None:
    test.skipTest(f"no network namespace is permitted here: {reason}")
