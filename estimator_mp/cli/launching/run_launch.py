"""The launch command: a cluster, from network to exit code."""

import contextlib
import os
import pathlib
import sys
import sysconfig
import tempfile

from estimator_mp.cli import commands
from estimator_mp.cli.launching import (
  guardian,
  network,
  supervision,
  task_output,
  task_process,
)
from estimator_mp.cli.launching import tasks as tasks_lib
from estimator_mp.cli.launching.launch_flags import OWN, LaunchOptions
from estimator_mp.cluster import ports
from estimator_mp.distributed import network as network_check

_ADDRESS = "127.0.0.1"
_STANDARD_OUTPUT = 1
_CANNOT_RUN = 126


def run_command(options: LaunchOptions) -> int:
  """Runs a cluster; returns the exit code.

  Args:
    options: The cluster.
  """
  try:
    network_in_words = _enter_network(options.network)
    log_dir = _make_log_dir(options.log_dir)
  except commands.FlagsError as error:
    return commands.print_error("launch", error)
  names = ", ".join(map(str, options.all_tasks))
  _say(f"{names} {network_in_words}; logs in {log_dir}")
  try:
    return _run(options, log_dir)
  except OSError as error:
    return commands.print_error("launch", error, _CANNOT_RUN)


def _run(options: LaunchOptions, log_dir: str) -> int:
  """Runs the cluster; returns the exit code.

  Raises:
    OSError: If there are too few ports, or a task or its log cannot be made.
  """
  tasks = options.all_tasks
  terminal = task_output.Terminal(_STANDARD_OUTPUT)
  with contextlib.ExitStack() as stack:
    watcher = stack.enter_context(guardian.Guardian())
    processes = {}
    addresses = [f"{_ADDRESS}:{port}" for port in ports.free_ports(len(tasks))]
    for task in tasks:
      config = tasks_lib.tf_config(task, tasks, addresses)
      environment = {**_environment(), "TF_CONFIG": config}
      log = os.path.join(log_dir, f"{task.job}_{task.index}.log")
      output = task_output.TaskOutput(str(task), log, terminal)
      stack.enter_context(output)
      processes[task] = task_process.TaskProcess(
        task, options, environment, output, watcher
      )
    running = supervision.Supervision(processes, options, terminal, _say)
    return running.run()


def _say(text: str) -> None:
  """Prints a line of the launcher's, beside those of the tasks."""
  with contextlib.suppress(BrokenPipeError):
    print(f"launch: {text}", file=sys.stderr, flush=True)


def _enter_network(wanted: str) -> str:
  """Moves this process to the network of the cluster; returns it in words."""
  if wanted == OWN:
    return network.enter_or_refuse(
      "if you trust all hosts that can reach these, give --network=host"
    )
  others = ", ".join(network_check.outer_interfaces())
  if others:
    return (
      "on the host's network, NOT in one of their own: their servers can be "
      f"reached on {others}, without authentication"
    )
  return "on the host's network, which is loopback only"


def _make_log_dir(log_dir: str | None) -> str:
  if log_dir is None:
    return tempfile.mkdtemp(prefix="launch-")
  try:
    os.makedirs(log_dir, exist_ok=True)
  except OSError as error:
    raise commands.FlagsError(
      f"--log_dir={log_dir} cannot be made ({error.strerror}); give another"
    ) from error
  return log_dir


def _environment() -> dict[str, str]:
  """Returns the environment of all tasks, but for TF_CONFIG."""
  environment = {**os.environ, "PYTHONPATH": _python_path()}
  # Lines of a task are shown at once.
  environment.setdefault("PYTHONUNBUFFERED", "1")
  # Where http_proxy is set, gRPC would look there for other tasks, too.
  direct = environment.get("no_grpc_proxy") or environment.get("no_proxy")
  environment["no_grpc_proxy"] = ",".join(filter(None, [direct, _ADDRESS]))
  return environment


def _python_path() -> str:
  """Returns PYTHONPATH with this package on it, if it is not installed."""
  root = str(pathlib.Path(os.path.abspath(__file__)).parents[3])
  paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
  if root not in (sysconfig.get_path("purelib"), *paths):
    paths.append(root)
  return os.pathsep.join(filter(None, paths))
