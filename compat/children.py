"""Processes that multiprocessing starts afresh have what their parent has.

A child of the start methods "spawn" and "forkserver" imports the program, so
compat has to be installed in it before: with the options of the parent, which
travel in what multiprocessing sends to each child first.
"""

import importlib
import threading
from collections.abc import Callable
from multiprocessing import spawn
from typing import Any

_LOCK = threading.Lock()
_calls: list[dict[str, Any]] = []


class _Call:
  """Is a call of a function in the process that unpickles it."""

  def __init__(self, function: Callable[..., object], *arguments: Any):
    self._call = function, arguments

  def __reduce__(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
    return self._call


def install_alike(options: dict[str, Any]) -> None:
  """Calls compat.install in each child from now on, before the program.

  Args:
    options: its keyword arguments; those of earlier calls are not forgotten.
  """
  with _LOCK:
    if not _calls:
      _send_calls()
    if options not in _calls:
      _calls.append(options)


def _send_calls() -> None:
  original = spawn.get_preparation_data

  def get_preparation_data(name: str) -> dict[str, Any]:
    data = original(name)
    # A child that finds compat only where the program said calls it late.
    path = _Call(spawn.prepare, {"sys_path": data["sys_path"]})
    return {"compat's path": path, "compat": _Call(_install, _calls), **data}

  spawn.get_preparation_data = get_preparation_data


def _install(calls: list[dict[str, Any]]) -> None:
  compat = importlib.import_module("compat")
  for options in calls:
    if any(options.values()):
      compat.install(**options)
    else:
      compat.install_when_imported()  # A child may do without TensorFlow.
