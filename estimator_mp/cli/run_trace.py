"""The trace command: some steps of training, the last one drawn."""

import tempfile

from estimator_mp.cli import model_dirs, run_train, train_flags
from estimator_mp.observe import trace_hook


def run_command(options: train_flags.TraceOptions) -> int:
  """Trains for some steps, draws the last one, and keeps nothing else.

  Args:
    options: The options of the command.

  Returns:
    0.

  Raises:
    ValueError: Something does not fit; the text is one line with its fix.
  """
  model_dirs.make_writable("out", options.out)
  with tempfile.TemporaryDirectory() as model_dir:
    program = run_train.prepare(options.training(model_dir))
    hook = trace_hook.TraceHook(
      [options.step], options.out, program.mesh, print
    )
    program.estimator.train(
      program.recipe.train_input_fn, hooks=[hook], max_steps=options.step
    )
  return 0
