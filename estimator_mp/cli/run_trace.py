"""What the trace command runs: some steps of training, the last one drawn."""

import tempfile

from estimator_mp.cli import commands, run_record, run_train, train_flags
from estimator_mp.observe import trace_hook

import tensorflow as tf


def run(options: train_flags.TraceOptions) -> None:
  """Trains for some steps, and draws the last one.

  Args:
    options: What is to be traced.

  Raises:
    ValueError: Something does not fit; the text is one line and says what
      would be right.
  """
  run_record.make_writable("out", options.out)
  with tempfile.TemporaryDirectory() as model_dir:
    training = options.training(model_dir)
    job = run_train.prepare(training)
    hook = trace_hook.TraceHook([options.step], options.out, job.mesh, print)
    job.estimator.train(
      job.recipe.train_input_fn, hooks=[hook], max_steps=options.step
    )


def run_command(options: train_flags.TraceOptions) -> int:
  """Draws a step, or says what is wrong in one line.

  Args:
    options: What is to be traced.

  Returns:
    The exit code: 0; 2 if an option or the data is wrong.
  """
  tf.get_logger().setLevel("FATAL")
  try:
    run(options)
  except ValueError as error:
    return commands.complain("trace", error)
  return 0
