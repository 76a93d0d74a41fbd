"""A stage in a process of its own, which ends with the one that started it.

  python -m estimator_mp.serving.stage_process FOLDER

prints the address where it listens, and ends when its standard input does.
"""

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping

_MODULE = "estimator_mp.serving.stage_process"
_START_SECONDS = 300.0
_STOP_SECONDS = 5.0


class StageProcess:
  """A process that serves a stage on this machine.

  Attributes:
    address: Where it listens, from `wait_until_ready` on.
  """

  def __init__(self, stage: int, folder: str):
    """Starts the process.

    Args:
      stage: The stage, for messages.
      folder: Its folder.
    """
    self.address = ""
    self._stage = stage
    self._errors = tempfile.TemporaryFile()  # noqa: SIM115
    self._process = subprocess.Popen(
      [sys.executable, "-m", _MODULE, folder],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._errors,
      env=_environment(),
      start_new_session=True,  # Ctrl-C is for the process that waits.
    )

  @property
  def pid(self) -> int:
    """The number of the process."""
    return self._process.pid

  def wait_until_ready(self) -> None:
    """Waits until the process listens.

    Raises:
      RuntimeError: If it ends before, or takes too long.
    """
    assert self._process.stdout is not None
    end = time.monotonic() + _START_SECONDS
    line = b""
    while not line.endswith(b"\n"):
      ready, _, _ = select.select(
        [self._process.stdout], [], [], max(0.0, end - time.monotonic())
      )
      if not ready:
        raise RuntimeError(
          f"stage {self._stage} was not loaded in {_START_SECONDS:g} s"
        )
      read = os.read(self._process.stdout.fileno(), 4096)
      if not read:
        self._process.wait()
        raise RuntimeError(
          f"stage {self._stage} could not be loaded: {self._last_words()}"
        )
      line += read
    self.address = line.decode().strip()

  def exit_code(self) -> int | None:
    """Returns the code that the process has ended with; None if it has not."""
    try:  # The connection may be lost before the process is gone.
      return self._process.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
      return None

  def stop(self) -> None:
    """Ends the process."""
    assert self._process.stdin is not None
    assert self._process.stdout is not None
    self._process.stdin.close()
    for end in (self._process.terminate, self._process.kill):
      try:
        self._process.wait(_STOP_SECONDS)
        break
      except subprocess.TimeoutExpired:
        end()
    self._process.wait()
    self._process.stdout.close()
    self._errors.close()

  def _last_words(self) -> str:
    """Returns the last line that the process has written of errors."""
    self._errors.seek(0)
    lines = self._errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {self._process.returncode}"


def _environment() -> Mapping[str, str]:
  """Returns the environment of a process that finds the same modules."""
  paths = os.pathsep.join(path for path in sys.path if path)
  quiet = {"GRPC_VERBOSITY": "NONE", "TF_CPP_MIN_LOG_LEVEL": "3"}
  return {**quiet, **os.environ, "PYTHONPATH": paths}


def main(argv: list[str]) -> int:
  """Serves a stage until standard input ends; returns the exit code.

  Args:
    argv: The command and the folder of the stage.
  """
  # The process that starts this one needs no TensorFlow of this module's.
  from estimator_mp.serving import stage_server

  try:
    server = stage_server.StageServer(argv[1])
  except ValueError as error:
    print(" ".join(str(error).split()), file=sys.stderr)
    return 2
  print(server.address, flush=True)
  sys.stdin.buffer.read()
  server.stop()
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
