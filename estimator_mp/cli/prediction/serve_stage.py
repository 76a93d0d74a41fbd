"""The serve_stage command: one stage of a chain, on this machine.

  python -m estimator_mp.cli.prediction.serve_stage \
      --stage_dir=export/1700000000/stage_0 --port=8500

`--help` lists the flags.
"""

import os
import sys

from estimator_mp.cli import commands
from estimator_mp.cli.prediction import serve_flags


def main(argv: list[str]) -> int:
  """Runs the command; returns its exit code.

  Args:
    argv: The command and its arguments.
  """
  # What is wrong is said in one line, and not by gRPC, too.
  os.environ.setdefault("GRPC_VERBOSITY", "NONE")
  return commands.run(
    "serve_stage",
    serve_flags.parse,
    argv,
    "estimator_mp.cli.prediction.run_serve",
  )


def run_app() -> None:
  """Runs the command and exits."""
  sys.exit(main(list(sys.argv)))


if __name__ == "__main__":
  run_app()
