"""What the serve_stage command runs: a server, until it is told to end."""

import signal
import threading

from estimator_mp.cli import commands
from estimator_mp.cli.prediction import serve_flags
from estimator_mp.serving import stage_server

import tensorflow as tf


def run_command(options: serve_flags.ServeOptions) -> int:
  """Serves a stage until Ctrl-C or SIGTERM.

  Args:
    options: Which stage, and where.

  Returns:
    The exit code: 0; 2 if an option is wrong.
  """
  tf.get_logger().setLevel("FATAL")
  assert options.stage_dir is not None
  ended = threading.Event()
  for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: ended.set())
  try:
    server = stage_server.StageServer(
      options.stage_dir, options.listen, options.port
    )
  except ValueError as error:
    return commands.complain("serve_stage", error)
  stage = server.runner.description["stage"]
  print(f"stage {stage} listens on {server.address}", flush=True)
  ended.wait()
  server.stop()
  return 0
