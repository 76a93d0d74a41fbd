"""The predict command: examples go through a chain of stages.

  python -m estimator_mp.predict --stages=export/1700000000 \
      --examples=examples.jsonl --out=predictions.jsonl

`--help` lists the flags. `estimator_mp.toolbox.StagePipeline` is the same for
programs.
"""

import os
import sys

from estimator_mp.cli import commands
from estimator_mp.cli.prediction import predict_flags


def main(argv: list[str]) -> int:
  """Runs the command; returns its exit code.

  Args:
    argv: The command and its arguments.
  """
  # What is wrong is said in one line, and not by gRPC, too.
  os.environ.setdefault("GRPC_VERBOSITY", "NONE")
  return commands.run(
    "predict",
    predict_flags.parse,
    argv,
    "estimator_mp.cli.prediction.run_predict",
  )


def run_app() -> None:
  """Runs the command and exits."""
  sys.exit(main(list(sys.argv)))


if __name__ == "__main__":
  run_app()
