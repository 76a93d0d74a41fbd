"""Processes that make steps when they are asked to, over pipes.

So programs that cannot share a process take turns. The process ends with its
standard input, and so with whoever asks.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

_MARK = "answer "
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))


class AskedProcess:
  """A process that runs `answer`.

  Attributes:
    losses: The loss of each step so far.
  """

  def __init__(self, python: str, module: str, arguments: list[str]):
    """Starts it; it is not waited for.

    Args:
      python: The interpreter.
      module: The module, by its path from the repository's root.
      arguments: Of its command line.
    """
    self.losses: list[float] = []
    self._module = module
    self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 `end` closes it.
    self._process = subprocess.Popen(
      [python, "-m", module, *arguments],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._log,
      env=os.environ
      | {
        # The packages are those of its interpreter.
        "PYTHONPATH": _ROOT,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_USE_LEGACY_KERAS": "1",
      },
      text=True,
    )

  def __enter__(self) -> "AskedProcess":
    return self

  def __exit__(self, *error: object) -> None:
    assert self._process.stdin is not None
    self._process.stdin.close()
    self._process.kill()
    self._process.wait()
    self._log.close()

  @property
  def pid(self) -> int:
    """The number of the process."""
    return self._process.pid

  def run(self, steps: int) -> float:
    """Asks for steps, and returns the seconds that they took.

    Raises:
      RuntimeError: If the process has ended.
    """
    assert self._process.stdin is not None
    assert self._process.stdout is not None
    try:
      self._process.stdin.write(f"{steps}\n")
      self._process.stdin.flush()
    except BrokenPipeError:
      pass  # What it has written says why.
    for line in self._process.stdout:
      if line.startswith(_MARK):
        answer = json.loads(line.removeprefix(_MARK))
        self.losses += answer["losses"]
        return float(answer["seconds"])
    self._log.seek(0)
    raise RuntimeError(f"{self._module} ended: {self._log.read()[-2000:]}")


def answer(step: Callable[[], float]) -> None:
  """Makes as many steps as each line of standard input asks for.

  Args:
    step: Makes one, and returns its loss.
  """
  for line in sys.stdin:
    start = time.perf_counter()
    losses = [float(step()) for _ in range(int(line))]
    seconds = time.perf_counter() - start
    text = json.dumps({"seconds": seconds, "losses": losses})
    print(_MARK + text, flush=True)
