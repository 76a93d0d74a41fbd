"""The process of one device: a TensorFlow server, until its parent ends.

  python -m estimator_mp.cli.sizing.device_process '{"device": [...]}' 0

The parent measures it, and limits its memory, from outside.
"""

import json
import sys

import tensorflow as tf


def main(cluster: str, task: int) -> None:
  """Serves one device until standard input is closed.

  Args:
    cluster: The addresses of all processes as JSON, by job.
    task: Which of the job "device" this is.
  """
  config = tf.compat.v1.ConfigProto(
    intra_op_parallelism_threads=1, inter_op_parallelism_threads=2
  )
  server = tf.distribute.Server(
    json.loads(cluster), "device", task, config=config
  )
  print(server.target, flush=True)
  sys.stdin.read()


if __name__ == "__main__":
  main(sys.argv[1], int(sys.argv[2]))
