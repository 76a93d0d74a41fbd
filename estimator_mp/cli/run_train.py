"""The train command: a model of this project, its layers on several devices.

An Estimator program such as any other: a model_fn for a mesh, `run_config`,
hooks, `train_and_evaluate`. In addition, the command locks its model_dir, and
prints each error in one line.
"""

import dataclasses
import os
import shlex
import signal
import time
from typing import Any

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.cli import (
  commands,
  deliberate_errors,
  failures,
  model_dirs,
  results,
  train_flags,
)
from estimator_mp.session import whole_checkpoints
from model_fns.recipes import recipe as recipe_lib

import tensorflow as tf

# Options of the checkpoint, which a resumed run cannot change.
_IDENTITY = ("model", "dataset", "optimizer")
# An evaluator looks for new checkpoints so often, in seconds.
_EVALUATOR_PAUSE = 1


class RunError(RuntimeError):
  """Training failed, whose options were right; the text is one line."""


@dataclasses.dataclass(frozen=True)
class Program:
  """A model that is ready to be trained.

  Attributes:
    options: The options of the run.
    mesh: The devices.
    recipe: The model and its data.
    estimator: The Estimator, with its model_dir.
  """

  options: train_flags.TrainOptions
  mesh: estimator_mp.Mesh
  recipe: recipe_lib.Recipe
  estimator: tf.estimator.Estimator


def prepare(options: train_flags.TrainOptions) -> Program:
  """Checks the options, and returns the program of a run.

  Args:
    options: The options of the run.

  Raises:
    ValueError: Something does not fit: the mesh, the data, the batch size, the
      model. The text is one line with its fix.
  """
  # The run has its own verification hook, to print the devices.
  config = estimator_mp.ShardingConfig.of(options, verify_placement=False)
  names = [field.name for field in dataclasses.fields(recipe_lib.Request)]
  request = {name: getattr(options, name) for name in names}
  recipe = recipe_lib.make(recipe_lib.Request(**request))
  estimator = tf.estimator.Estimator(
    recipe.make_model_fn(config),
    config=estimator_mp.run_config(
      config,
      options.model_dir,
      options.save_input_position,
      tf_random_seed=options.seed,
      save_checkpoints_steps=options.save_checkpoints_steps,
    ),
  )
  return Program(options, config.create_mesh(), recipe, estimator)


def train(options: train_flags.TrainOptions) -> results.Result | None:
  """Trains a model, evaluates it, and writes the result to its model_dir.

  Resumes from the newest checkpoint in the model_dir.

  Args:
    options: The options of the run.

  Returns:
    The result that `result.json` holds; None in a cluster's other tasks than
    its chief, which take part until that has ended.

  Raises:
    ValueError: The options do not fit; see `prepare`.
    ModelDirError: Another process trains in the model_dir, or its files are
      those of another run.
    RunError: Standard output was closed; a checkpoint was saved.
    SystemExit: SIGTERM ended the run after a checkpoint; see
      `train_and_evaluate`, also for other errors.
  """
  progress = toolbox.ProgressHook(options.train_steps, options.log_every)
  program = prepare(options)
  run_config = program.estimator.config
  if not run_config.is_chief:
    task = f"{run_config.task_type} {run_config.task_id}"
    progress.write(f"{task} of the cluster takes part.")
    _train_and_evaluate(program, progress, [])
    progress.write("Finished.")
    return None
  if options.export_dir is not None:
    model_dirs.make_writable("export_dir", options.export_dir)
  now = options.by_flag() | {"mesh": str(program.mesh)}
  with model_dirs.claimed(options.model_dir, now, _IDENTITY) as changed:
    return _train(program, progress, changed)


def _train(
  program: Program, progress: toolbox.ProgressHook, changed: list[str]
) -> results.Result:
  """Trains and evaluates; returns, writes and shows the result."""
  options, mesh = program.options, program.mesh
  start = time.monotonic()
  trained = _trained_steps(options.model_dir)
  progress.write("\n".join(_header(program, trained)))
  if trained and changed:
    progress.write(f"Options differ from the run before: {', '.join(changed)}")
  if trained >= options.train_steps:
    progress.write(
      f"Already trained to step {trained}: nothing to do. Raise --train_steps "
      "to train on, or choose another --model_dir."
    )
  verification = toolbox.PlacementVerificationHook()
  hooks = [progress]
  if options.verify_placement:
    hooks.append(verification)
  if options.trace_steps:
    folder = os.path.join(options.model_dir, "trace")
    hooks.append(
      estimator_mp.TraceHook(options.trace_steps, folder, mesh, progress.write)
    )
  # Last, so that the step is shown, and its time taken, before it is saved.
  hooks.append(
    tf.estimator.CheckpointSaverHook(
      options.model_dir, save_steps=options.save_checkpoints_steps
    )
  )
  try:
    metrics = _train_and_evaluate(program, progress, hooks)
    if progress.error is not None:
      raise RunError(
        f"standard output cannot be written ({progress.error.strerror}); send "
        f"it to a file; {_resume_hint(options.model_dir)}"
      )
    if metrics is None:
      metrics = program.estimator.evaluate(program.recipe.eval_input_fn)
  finally:
    progress.close()
  devices = {
    device: contents.variable_bytes
    for device, contents in verification.observed.items()
    if contents.variables or device in mesh.devices
  }
  seconds = time.monotonic() - start
  result = _result(program, metrics, seconds, progress, devices or None)
  path = result.write(options.model_dir)
  progress.write("\n".join(["Finished.", *result.lines()]))
  progress.write(f"  {'result':<12} {path}")
  board = f"tensorboard --logdir={shlex.quote(options.model_dir)}"
  progress.write(f"  {'TensorBoard':<12} {board}")
  return result


def _train_and_evaluate(
  program: Program,
  progress: toolbox.ProgressHook,
  hooks: list[tf.estimator.SessionRunHook],
) -> dict[str, Any] | None:
  """Returns the metrics of the last evaluation; None if there was none here."""
  options, recipe = program.options, program.recipe
  train_spec = tf.estimator.TrainSpec(
    recipe.train_input_fn, max_steps=options.train_steps, hooks=hooks
  )
  is_chief = program.estimator.config.is_chief
  eval_spec = tf.estimator.EvalSpec(
    recipe.eval_input_fn,
    steps=None,
    exporters=[toolbox.EvaluationReport(progress, recipe.outcome)],
    start_delay_secs=0,
    throttle_secs=0 if is_chief else _EVALUATOR_PAUSE,
  )
  metrics, _ = estimator_mp.train_and_evaluate(
    program.estimator,
    train_spec,
    eval_spec,
    trusted_network=options.trusted_network,
    startup_timeout=options.startup_timeout,
    heartbeat_timeout=options.heartbeat_timeout,
    lost_after=options.lost_after,
  ) or (None, None)
  return metrics


def _header(program: Program, trained: int) -> list[str]:
  """Returns the lines of a run's options."""
  options, mesh = program.options, program.mesh
  replicas = mesh.axis_size("data")
  batches = f"batches of {options.batch_size}"
  if replicas > 1:
    of_replica = options.batch_size // replicas
    batches += f" ({of_replica} for each of {replicas} replicas)"
  facts = {
    "model": options.model,
    "dataset": program.recipe.data,
    "mesh": f"{mesh} ({', '.join(mesh.devices)})",
    "steps": (
      f"{trained} to {max(trained, options.train_steps)}, {batches},"
      f" {options.optimizer} at {options.learning_rate}, seed {options.seed}"
    ),
    "model_dir": options.model_dir,
    "TensorFlow": tf.__version__,
  }
  return [f"  {name:<12} {value}" for name, value in facts.items()]


def _result(
  program: Program,
  metrics: dict[str, Any],
  seconds: float,
  progress: toolbox.ProgressHook,
  devices: dict[str, int] | None,
) -> results.Result:
  """Returns the result of an evaluation, of a model that is exported now."""
  options, recipe = program.options, program.recipe
  baseline, value = recipe.baseline(), float(metrics[recipe.figure])
  saved_model = None
  if options.export_dir is not None:
    saved_model = estimator_mp.export_saved_model(
      program.estimator, options.export_dir, recipe.serving_input_receiver_fn
    )
  return results.Result(
    model=options.model,
    dataset=options.dataset,
    mesh=str(program.mesh),
    seed=options.seed,
    global_step=int(metrics["global_step"]),
    loss=float(metrics[recipe.loss]),
    figure=recipe.figure,
    value=value,
    baseline=baseline.name,
    baseline_value=baseline.value,
    beats_baseline=recipe.is_better(value, baseline.value),
    seconds=seconds,
    steps_per_second=progress.steps_per_second,
    devices=devices,
    checkpoint=program.estimator.latest_checkpoint(),
    saved_model=saved_model,
  )


def _trained_steps(model_dir: str) -> int:
  """Returns the global step of the newest checkpoint; 0 if there is none."""
  path = tf.train.latest_checkpoint(model_dir)
  return int(tf.train.load_variable(path, "global_step")) if path else 0


def run_command(options: train_flags.TrainOptions) -> int:
  """Trains as `train` does; prints errors of the run in one line.

  Args:
    options: The options of the run.

  Returns:
    The exit code: 0; 130 or 143 if a signal ended it in order, 138 if a task
    of its cluster was lost.

  Raises:
    ValueError: An option or the data is wrong.
    RunError: Training failed, or files did.
  """
  # `train_and_evaluate` then ends training at Ctrl-C, after a checkpoint.
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  directories = [options.model_dir, options.export_dir or options.model_dir]
  try:
    with failures.quiet_threads(directories):
      train(options)
  except SystemExit as end:
    text = f"{end}; {_resume_hint(options.model_dir)}"
    return commands.print_error("train", text, int(str(end.code)))
  except tf.estimator.NanLossDuringTrainingError as error:
    raise RunError(
      f"the loss is NaN; --learning_rate={options.learning_rate} is too large"
      f" for --optimizer={options.optimizer}; use a smaller one and another"
      " --model_dir"
    ) from error
  except Exception as error:
    if deliberate_errors.is_deliberate(error):
      raise
    line = _damage(error, options.model_dir)
    if line is None:
      line = failures.file_error_line(error, directories)
      line = line and f"{line}; {_resume_hint(options.model_dir)}"
    if line is None:
      raise
    raise RunError(line) from error
  return 0


def _resume_hint(model_dir: str) -> str:
  """Returns the checkpoint that a run is resumed from, in words."""
  path = tf.train.latest_checkpoint(model_dir)
  if path is None:
    return "no checkpoint was saved"
  return f"{path} is saved, and the same command resumes from it"


def _damage(error: Exception, model_dir: str) -> str | None:
  """Returns the damage of the checkpoint, if it may have caused an error."""
  path = tf.train.latest_checkpoint(model_dir)
  if path is None or not isinstance(error, whole_checkpoints.UNREADABLE):
    return None
  damage = whole_checkpoints.damage(path)
  return damage and (
    f"{path} is damaged ({damage}); remove {os.path.basename(path)}.* to "
    "resume from the checkpoint before it, or choose another --model_dir"
  )
