"""Processes that multiprocessing starts afresh have what their parent has.

A child of the start methods "spawn" and "forkserver" imports the program, so
compat has to be installed in it before, as in the parent. What was called there
travels in what multiprocessing sends to each child first.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

_LOCK = threading.Lock()
_calls: list["_Call"] = []


class _Call:
  """Is a call of a function in the process that unpickles it."""

  def __init__(self, function: Callable[..., object], *arguments: Any):
    self.call = function, arguments

  def __reduce__(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
    return self.call


def also_call(function: Callable[..., object], *arguments: Any) -> None:
  """Calls a function in each child from now on, before the program.

  Args:
    function: of a module. Each call is made once, in the order of the first.
    *arguments: what can be pickled.
  """
  with _LOCK:
    if not _calls:
      _send_calls()
    if (function, arguments) not in [one.call for one in _calls]:
      _calls.append(_Call(function, *arguments))


def _send_calls() -> None:
  from multiprocessing import spawn  # Only now: it takes 0.05 s.

  original = spawn.get_preparation_data

  def get_preparation_data(name: str) -> dict[str, Any]:
    data = original(name)
    # The child finds this package, whatever else has its name, and after that
    # what its parent finds.
    paths = [os.path.dirname(os.path.dirname(__file__)), *data["sys_path"]]
    path = _Call(spawn.prepare, {"sys_path": paths})
    return {"compat's path": path, "compat": _calls, **data}

  spawn.get_preparation_data = get_preparation_data
