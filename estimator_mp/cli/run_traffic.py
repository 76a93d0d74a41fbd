"""The traffic command: the bytes that a step sends between devices."""

from estimator_mp import mesh as mesh_lib
from estimator_mp.cli import run_trace, train_flags
from estimator_mp.observe import trace_reading, traced_steps, traffic

import tensorflow as tf


def run_command(options: train_flags.TrafficOptions) -> int:
  """Trains for some steps, and prints what the last one sent; returns 0.

  Args:
    options: The options of the command.

  Raises:
    ValueError: Something does not fit; the text is one line and says what
      would be right.
  """

  def make_hook(mesh: mesh_lib.Mesh) -> tf.estimator.SessionRunHook:
    def show(step: int, metadata: tf.compat.v1.RunMetadata) -> None:
      sent = trace_reading.sent_tensors(metadata, mesh.devices)
      print(f"step {step}\n\n{traffic.table(sent, options.largest)}")

    return traced_steps.TracedSteps([options.step], show)

  run_trace.train_to_step(options, make_hook)
  return 0
