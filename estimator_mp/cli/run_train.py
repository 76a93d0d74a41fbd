"""The train command: one model, its layers on several devices.

`train(options)` is the same for programs.
"""

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Sequence

import estimator_mp
from estimator_mp.cli import (
  checkpoints,
  commands,
  own_errors,
  run_record,
  train_flags,
)
from estimator_mp.cli import progress as progress_lib
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.config import split_rules
from estimator_mp.distributed import network, status
from estimator_mp.observe import trace_hook
from estimator_mp.observe import verification as verification_lib
from estimator_mp.session import input_position
from estimator_mp.session import interruption as interruption_lib
from model_fns.recipes import recipe as recipe_lib

import tensorflow as tf

_TRACE_FOLDER = "trace"
_EVALUATION_FOLDER = "eval"
_FAILED = 1
# What cannot change when a run is resumed: the checkpoint depends on it.
_IDENTITY = ("model", "dataset", "optimizer")
# An evaluator looks for new checkpoints so often, in seconds.
_EVALUATOR_PAUSE = 1


class RunError(RuntimeError):
  """Training failed, whose options were right; the text is one line."""


@dataclasses.dataclass(frozen=True)
class Job:
  """A training run whose options have been checked; nothing has run yet.

  Attributes:
    options: The options of the run.
    mesh: The devices.
    recipe: The model and its validated data.
    estimator: The Estimator, with its model_dir.
    cluster: The cluster that this process is a task of; None if it is alone.
    earlier: The result of the run before it in the model_dir, if there is one.
  """

  options: train_flags.TrainOptions
  mesh: estimator_mp.Mesh
  recipe: recipe_lib.Recipe
  estimator: tf.estimator.Estimator
  cluster: tasks_lib.Cluster | None
  earlier: run_record.Result | None = None

  @property
  def leads(self) -> bool:
    """Whether this process trains and says so: alone, or as the chief."""
    return self.cluster is None or self.cluster.task == self.cluster.chief


def prepare(options: train_flags.TrainOptions) -> Job:
  """Checks all of the options, and makes what a run needs.

  Args:
    options: The options of the run.

  Returns:
    The run, ready to start.

  Raises:
    ValueError: Something does not fit: the mesh, the data, the batch size, the
      model, the model_dir. The text is one line and says what would be right.
    ModelDirError: Another process trains in the model_dir, a file is in the way
      there, or a newer library trained there.
    CheckpointError: The checkpoints in the model_dir are damaged.
  """
  cluster = tasks_lib.from_environment()
  if cluster is not None:
    network.check_network(cluster, options.trusted_network)
  # The run verifies with a hook of its own, which it asks for the facts.
  config = estimator_mp.ShardingConfig.of(options, verify_placement=False)
  mesh = config.create_mesh()
  progress_lib.check_bar(sys.stdout)
  recipe = recipe_lib.make(_request(options))
  model_fn = recipe.make_model_fn(config)
  run_config = estimator_mp.run_config(
    config,
    options.model_dir,
    options.save_input_position,
    tf_random_seed=options.seed,
    save_checkpoints_steps=options.save_checkpoints_steps,
  )
  estimator = tf.estimator.Estimator(model_fn, config=run_config)
  job = Job(options, mesh, recipe, estimator, cluster)
  if job.leads:
    if options.export_dir is not None:
      run_record.make_writable("export_dir", options.export_dir)
    # To say early what is wrong; `run` claims it for as long as it takes.
    with _claimed_model_dir(options):
      earlier = run_record.read_result(options.model_dir)
    job = dataclasses.replace(job, earlier=earlier)
  return job


def _request(options: train_flags.TrainOptions) -> recipe_lib.Request:
  names = [field.name for field in dataclasses.fields(recipe_lib.Request)]
  return recipe_lib.Request(**{name: getattr(options, name) for name in names})


def _claimed_model_dir(
  options: train_flags.TrainOptions,
) -> contextlib.AbstractContextManager[None]:
  folders = [_EVALUATION_FOLDER]
  if options.trace_steps:
    folders.append(_TRACE_FOLDER)
  identity = {x: getattr(options, x) for x in _IDENTITY}
  return run_record.claimed_model_dir(options.model_dir, identity, folders)


def train(options: train_flags.TrainOptions) -> run_record.Result | None:
  """Trains a model, evaluates it, and writes the result to its model_dir.

  Resumes from the newest checkpoint in the model_dir. SIGINT and SIGTERM end
  it after a checkpoint; call it in the main thread.

  Args:
    options: The options of the run.

  Returns:
    The result that `result.json` holds; None in a cluster's other tasks than
    its chief, which take part until that has ended.

  Raises:
    ValueError: The options do not fit; see `prepare`, also for other errors.
    TaskError: A task of the cluster cannot serve, or cannot be reached.
    TrainingInterrupted: A signal ended the run, or its output was closed; a
      checkpoint was saved.
  """
  return run(prepare(options))


def run(job: Job) -> run_record.Result | None:
  """Runs a job: see `train`.

  Args:
    job: The result of `prepare`.
  """
  if not job.leads:
    _take_part(job)
    return None
  with _claimed_model_dir(job.options):
    return _Run(job).result()


def _take_part(job: Job) -> None:
  """Serves, trains or evaluates for a cluster whose chief is another task."""
  options, cluster = job.options, job.cluster
  assert cluster is not None
  progress = progress_lib.ProgressHook(options.train_steps, options.log_every)
  progress.write(f"{cluster.task} of a cluster ({cluster}) takes part.")
  _train_and_evaluate(
    job,
    tf.estimator.TrainSpec(
      job.recipe.train_input_fn, max_steps=options.train_steps
    ),
    _eval_spec(job, progress, ()),
  )
  progress.write("Finished.")


def _train_and_evaluate(
  job: Job,
  train_spec: tf.estimator.TrainSpec,
  eval_spec: tf.estimator.EvalSpec,
) -> dict[str, float] | None:
  """Returns the metrics of the last evaluation; None if others evaluate."""
  metrics, _ = estimator_mp.train_and_evaluate(
    job.estimator,
    train_spec,
    eval_spec,
    trusted_network=job.options.trusted_network,
    startup_timeout=job.options.startup_timeout,
    heartbeat_timeout=job.options.heartbeat_timeout,
    lost_after=job.options.lost_after,
  ) or (None, None)
  return metrics


def _eval_spec(
  job: Job,
  progress: progress_lib.ProgressHook,
  hooks: Sequence[tf.estimator.SessionRunHook],
) -> tf.estimator.EvalSpec:
  """Returns how each task evaluates, if it does."""
  return tf.estimator.EvalSpec(
    job.recipe.eval_input_fn,
    steps=None,
    hooks=hooks,
    exporters=[progress_lib.EvaluationReport(progress, job.recipe.outcome)],
    start_delay_secs=0,
    throttle_secs=0 if job.leads else _EVALUATOR_PAUSE,
  )


class _Run:
  """A run that has the model_dir to itself."""

  def __init__(self, job: Job):
    self._job = job
    self._options = job.options
    self._progress = progress_lib.ProgressHook(
      job.options.train_steps,
      job.options.log_every,
      on_closed=self._stop_unheard,
    )
    self._interruption = interruption_lib.Interruption(self._progress.write)
    self._verification = verification_lib.PlacementVerificationHook()

  def _stop_unheard(self, error: OSError) -> None:
    self._interruption.stop(
      interruption_lib.TrainingInterrupted(
        f"standard output cannot be written ({error.strerror}); send it to a"
        " file",
        _FAILED,
      )
    )

  def result(self) -> run_record.Result:
    """Trains and evaluates; returns, writes and shows the result."""
    started = time.monotonic()
    trained = self._show_header()
    try:
      with self._interruption:
        metrics = self._train_and_evaluate(trained)
    except interruption_lib.TrainingInterrupted as interrupted:
      interrupted.is_unheard = self._progress.is_closed
      raise
    finally:
      self._progress.close()
    result = self._result(metrics, time.monotonic() - started)
    model_dir = self._options.model_dir
    path = run_record.write_result(model_dir, result)
    show = self._progress.write
    show("\n".join(["Finished.", *result.lines()]))
    show(f"  {'result':<12} {path}")
    show(f"  {'TensorBoard':<12} {progress_lib.tensorboard_command(model_dir)}")
    self._interruption.raise_if_requested()
    return result

  def _show_header(self) -> int:
    """Says what the run begins with; returns the global step that it is at."""
    options, show = self._options, self._progress.write
    trained = checkpoints.trained_steps(options.model_dir)
    header = progress_lib.header(
      options, self._job.mesh, self._job.recipe.data, trained
    )
    show("\n".join(header))
    changed = run_record.changed_options(
      options.model_dir, options.by_flag() | {"mesh": str(self._job.mesh)}
    )
    if trained and changed:
      show(f"Options differ from the run before: {', '.join(changed)}")
    if trained and not input_position.has_position(options.model_dir, trained):
      show("The input starts from its beginning: its position was not saved.")
    return trained

  def _train_and_evaluate(self, trained: int) -> dict[str, float]:
    """Returns the metrics of the last evaluation, after the last step."""
    options, recipe = self._options, self._job.recipe
    leave_evaluation = interruption_lib.LeaveEvaluation(self._interruption)
    metrics: dict[str, float] | None = None
    if trained >= options.train_steps:
      self._progress.write(
        f"Already trained to step {trained}: nothing to do. Raise --train_steps"
        " to train on, or choose another --model_dir."
      )
    if trained < options.train_steps or self._job.cluster is not None:
      train_spec = tf.estimator.TrainSpec(
        recipe.train_input_fn,
        max_steps=options.train_steps,
        hooks=self._hooks(),
        saving_listeners=[
          interruption_lib.LeaveAfterSaving(self._interruption)
        ],
      )
      eval_spec = _eval_spec(self._job, self._progress, [leave_evaluation])
      metrics = _train_and_evaluate(self._job, train_spec, eval_spec)
    if metrics is None:
      metrics = self._job.estimator.evaluate(
        recipe.eval_input_fn, hooks=[leave_evaluation]
      )
    return metrics

  def _hooks(self) -> list[tf.estimator.SessionRunHook]:
    options = self._options
    hooks = [
      progress_lib.PlacementTableHook(self._progress),
      self._progress,
      self._interruption,
    ]
    if options.verify_placement:
      hooks.append(self._verification)
    if options.trace_steps:
      folder = os.path.join(options.model_dir, _TRACE_FOLDER)
      hooks.append(
        trace_hook.TraceHook(
          options.trace_steps, folder, self._job.mesh, self._progress.write
        )
      )
    # Last, so that the step is shown, and its time taken, before it is saved.
    hooks.append(
      tf.estimator.CheckpointSaverHook(
        options.model_dir, save_steps=options.save_checkpoints_steps
      )
    )
    return hooks

  def _result(
    self, metrics: dict[str, float], seconds: float
  ) -> run_record.Result:
    options, mesh, recipe = self._options, self._job.mesh, self._job.recipe
    baseline, value = recipe.baseline(), float(metrics[recipe.figure])
    speed = self._progress.steps_per_second
    devices: dict[str, int] | None = {
      device: contents.variable_bytes
      for device, contents in self._verification.observed.items()
      if contents.variables or device in mesh.devices
    }
    earlier = self._job.earlier
    if earlier is not None and earlier.mesh == str(mesh):
      # A run without steps of its own keeps what the run before it measured.
      speed = speed or earlier.steps_per_second
      devices = devices or earlier.devices
    return run_record.Result(
      model=options.model,
      dataset=options.dataset,
      mesh=str(mesh),
      seed=options.seed,
      global_step=int(metrics["global_step"]),
      loss=float(metrics[recipe.loss]),
      figure=recipe.figure,
      value=value,
      baseline=baseline.name,
      baseline_value=baseline.value,
      beats_baseline=recipe.is_better(value, baseline.value),
      seconds=seconds,
      steps_per_second=speed,
      devices=devices or None,
      checkpoint=self._job.estimator.latest_checkpoint(),
      saved_model=self._export(),
    )

  def _export(self) -> str | None:
    if self._options.export_dir is None:
      return None
    return estimator_mp.export_saved_model(
      self._job.estimator,
      self._options.export_dir,
      self._job.recipe.serving_input_receiver_fn,
    )


def run_command(options: train_flags.TrainOptions) -> int:
  """Trains as `train` does; each error that is no program's own is one line.

  Args:
    options: The options of the run.

  Returns:
    The exit code: 0; 1 if standard output was closed; 130 or 143 if a signal
    ended it in order.

  Raises:
    ValueError: An option or the data is wrong.
    RunError: Training failed, or files did.
  """
  directories = [options.model_dir, options.export_dir or options.model_dir]
  job = None
  try:
    with checkpoints.quiet_threads(directories):
      job = prepare(options)
      run(job)
  except interruption_lib.TrainingInterrupted as interrupted:
    return _report_interruption(interrupted, options.model_dir)
  except tf.estimator.NanLossDuringTrainingError as error:
    raise RunError(
      f"the loss is NaN; --learning_rate={options.learning_rate} is too large"
      f" for --optimizer={options.optimizer}; use a smaller one and another"
      " --model_dir"
    ) from error
  except split_rules.SplitError:
    raise  # It is of an option, which only the model can be compared with.
  except status.LostTaskError as error:
    return commands.complain("train", error, tasks_lib.LOST_A_TASK)
  except Exception as error:
    if own_errors.is_deliberate(error):
      if job is not None and isinstance(error, ValueError):
        raise RunError(str(error)) from error
      raise
    line = checkpoints.explain(error, directories)
    if line is None:
      raise
    raise RunError(line) from error
  return 0


def _report_interruption(
  interrupted: interruption_lib.TrainingInterrupted, model_dir: str
) -> int:
  """Says what is saved; returns the exit code."""
  step = checkpoints.trained_steps(model_dir)
  text = (
    f"Stopped at step {step}: {checkpoints.newest(model_dir)} is saved. Run the"
    " same command again to resume."
  )
  if interrupted.exit_code == _FAILED:
    return commands.complain("train", f"{interrupted}. {text}", _FAILED)
  try:
    # The other end of a pipe may have got the signal, too.
    print(text, file=sys.stderr if interrupted.is_unheard else sys.stdout)
    sys.stdout.flush()
  except OSError:
    progress_lib.detach(sys.stdout)
    print(text, file=sys.stderr)
  return interrupted.exit_code
