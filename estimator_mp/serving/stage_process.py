"""A stage in a process of its own, which ends with the one that started it.

  python -m estimator_mp.serving.stage_process FOLDER

prints the address where it listens, and ends when its standard input does.
"""

import os
import sys

from estimator_mp.cluster import child_process

_MODULE = "estimator_mp.serving.stage_process"
_QUIET = ("GRPC_VERBOSITY", "NONE"), ("TF_CPP_MIN_LOG_LEVEL", "3")


class StageProcess(child_process.ChildProcess):
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
    quiet = {name: os.environ.get(name, value) for name, value in _QUIET}
    super().__init__(_MODULE, [folder], quiet)
    self.address = ""
    self._stage = stage

  def wait_until_ready(self) -> None:
    """Waits until the process listens.

    Raises:
      RuntimeError: If it ends before, or takes too long.
    """
    self.address = self.first_line(f"stage {self._stage}")


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
