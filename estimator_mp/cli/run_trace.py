"""The trace command: some steps of training, the last one drawn."""

import tempfile
from collections.abc import Callable

from estimator_mp import mesh as mesh_lib
from estimator_mp.cli import run_record, run_train, train_flags
from estimator_mp.observe import trace_hook

import tensorflow as tf


def run_command(options: train_flags.TraceOptions) -> int:
  """Trains for some steps, and draws the last one; returns 0.

  Args:
    options: The options of the command.

  Raises:
    ValueError: Something does not fit; the text is one line and says what
      would be right.
  """
  run_record.make_writable("out", options.out)
  train_to_step(
    options,
    lambda mesh: trace_hook.TraceHook([options.step], options.out, mesh, print),
  )
  return 0


def train_to_step(
  options: train_flags.StepOptions,
  make_hook: Callable[[mesh_lib.Mesh], tf.estimator.SessionRunHook],
) -> None:
  """Trains until the step of the options, and keeps nothing.

  Args:
    options: The options of the command.
    make_hook: Takes the mesh, and returns the hook that reads the step.

  Raises:
    ValueError: Something does not fit; the text is one line and says what
      would be right.
  """
  with tempfile.TemporaryDirectory() as model_dir:
    job = run_train.prepare(options.training(model_dir))
    job.estimator.train(
      job.recipe.train_input_fn,
      hooks=[make_hook(job.mesh)],
      max_steps=options.step,
    )
