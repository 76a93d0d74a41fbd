"""The serve command: a server, until it is interrupted."""

import os
import signal
import threading

from estimator_mp.cli.prediction import serve_flags
from estimator_mp.serving import stage_server


def run_command(options: serve_flags.ServeOptions) -> int:
  """Serves a stage until Ctrl-C or SIGTERM.

  Args:
    options: The stage, and its address.

  Returns:
    The exit code: 0.

  Raises:
    ValueError: If an option is wrong.
  """
  # An error is one line of this command, and none of gRPC's.
  os.environ.setdefault("GRPC_VERBOSITY", "NONE")
  ended = threading.Event()
  for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: ended.set())
  server = stage_server.StageServer(
    options.stage_dir, options.listen, options.port
  )
  stage = server.runner.description.stage
  print(f"stage {stage} listens on {server.address}", flush=True)
  ended.wait()
  server.stop()
  return 0
