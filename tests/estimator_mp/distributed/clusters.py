"""Clusters on this machine: servers in the process of a test, or processes.

`in_process` is the cheap one: the servers of all tasks are in one process, and
all that differs from several machines is that memory is shared. `Processes` are
real ones, each with its TF_CONFIG; they end with the test.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from unittest import mock

from estimator_mp.cluster import ports
from tests.compat import processes

import tensorflow as tf

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_SECONDS = 600.0


def free_addresses(count):
  """Returns addresses of this machine that are this process's until it ends."""
  return [f"localhost:{port}" for port in ports.free_ports(count)]


def free_ports_in_a_row(count):
  """Returns the first of some ports that are this process's until it ends."""
  while True:
    (first,) = ports.free_ports(1)
    if all(ports.reserve(first + number) for number in range(1, count)):
      return first


def make_cluster(**jobs):
  """Returns the addresses of a new cluster.

  Args:
    **jobs: How many tasks each job has, such as `chief=1, worker=2`.
  """
  addresses = iter(free_addresses(sum(jobs.values())))
  return {
    job: [next(addresses) for _ in range(count)] for job, count in jobs.items()
  }


def tf_config(cluster, job, index=0):
  """Returns the TF_CONFIG of a task."""
  return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


@contextlib.contextmanager
def task(cluster, job, index=0):
  """Makes this process a task of a cluster."""
  with mock.patch.dict(os.environ, TF_CONFIG=tf_config(cluster, job, index)):
    yield


@contextlib.contextmanager
def no_task():
  """Makes this process one without a cluster."""
  with mock.patch.dict(os.environ):
    os.environ.pop("TF_CONFIG", None)
    yield


@contextlib.contextmanager
def in_process(cpus=1, **jobs):
  """Starts the servers of a cluster in this process, which is its chief.

  The servers live on, as TensorFlow cannot stop them.

  Args:
    cpus: How many CPU devices each task has.
    **jobs: How many tasks each job has.

  Yields:
    The cluster: its addresses by job.
  """
  cluster = make_cluster(**jobs)
  config = tf.compat.v1.ConfigProto(device_count={"CPU": cpus})
  servers = [
    tf.distribute.Server(cluster, job, index, config=config)
    for job, addresses in cluster.items()
    for index in range(len(addresses))
  ]
  with task(cluster, "chief"):
    yield cluster
  del servers


class Processes:
  """The processes of a cluster, each of which runs a module.

  Attributes:
    cluster: The addresses by job.
  """

  def __init__(self, cluster):
    """Knows a cluster; see `start`."""
    self.cluster = cluster
    self._running = {}

  def __enter__(self):
    return self

  def __exit__(self, *error):
    for process, output in self._running.values():
      with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
      process.wait()
      output.close()

  def start(self, job, index, module, *arguments, within=(), **environment):
    """Starts a task: `python -m module arguments...`.

    Args:
      job: Its job.
      index: Its number in the job.
      module: What it runs.
      *arguments: Command-line arguments.
      within: What the command of the process begins with, if it is to run in
        a network namespace.
      **environment: More of the environment.

    Returns:
      The process.
    """
    output = tempfile.TemporaryFile("w+")  # noqa: SIM115 __exit__ closes it.
    process = subprocess.Popen(
      [*within, sys.executable, "-m", module, *map(str, arguments)],
      stdout=output,
      stderr=subprocess.STDOUT,
      env=processes.environment(
        **{"TF_CONFIG": tf_config(self.cluster, job, index)} | environment
      ),
      preexec_fn=_end_with_parent,
      start_new_session=True,
    )
    if (job, index) in self._running:
      self._running[job, index][1].close()
    self._running[job, index] = process, output
    return process

  def wait(self, job, index=0, seconds=_SECONDS):
    """Waits for a task to end; returns its exit code."""
    process, _ = self._running[job, index]
    return process.wait(seconds)

  def output(self, job, index=0):
    """Returns what a task has printed so far."""
    _, output = self._running[job, index]
    with open(f"/proc/self/fd/{output.fileno()}") as copy:
      return copy.read()


def _end_with_parent():
  _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
