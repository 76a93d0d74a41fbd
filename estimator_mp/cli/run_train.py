"""What the train command runs: one model, its layers on several devices.

`train(options)` is the same for programs.
"""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable

import estimator_mp
from estimator_mp.cli import (
  checkpoints,
  commands,
  run_record,
  train_flags,
)
from estimator_mp.cli import interruption as interruption_lib
from estimator_mp.cli import progress as progress_lib
from estimator_mp.config import placement_file, split_rules
from estimator_mp.observe import trace_hook
from estimator_mp.observe import verification as verification_lib
from estimator_mp.session import input_position
from model_fns import cifar10_cnn, datasets, layer_split, mlp

import tensorflow as tf
from absl import flags, logging
from absl.logging import converter

MODELS = {"cifar10_cnn": cifar10_cnn.layers, "mlp": mlp.layers}
_MOMENTUM = 0.9
_TRACE_FOLDER = "trace"
_EVALUATION_FOLDER = "eval"
_FAILED = 1


@dataclasses.dataclass(frozen=True)
class Job:
  """A training run whose options have been checked; nothing has run yet.

  Attributes:
    options: What the run was told.
    mesh: The devices.
    dataset: The validated data set.
    estimator: The Estimator, with its model_dir.
  """

  options: train_flags.TrainOptions
  mesh: estimator_mp.Mesh
  dataset: datasets.Dataset
  estimator: tf.estimator.Estimator


def prepare(options: train_flags.TrainOptions) -> Job:
  """Checks all of the options, and makes what a run needs.

  Args:
    options: What the run is told.

  Returns:
    The run, ready to start.

  Raises:
    ValueError: Something does not fit: the mesh, the data, the batch size, the
      model, the model_dir. The text is one line and says what would be right.
    ModelDirError: Another process trains in the model_dir, or a file is in the
      way there.
    CheckpointError: The checkpoints in the model_dir are damaged.
  """
  train_flags.check_options(options)
  # The run verifies with a hook of its own, which it asks for the facts.
  config = estimator_mp.ShardingConfig.of(
    dataclasses.replace(options.sharding, verify_placement=False)
  )
  mesh = config.create_mesh()
  progress_lib.check_bar(sys.stdout)
  dataset = datasets.load(options.dataset, options.data_dir)
  dataset.train_input_fn(options.batch_size, options.seed)
  model_fn = layer_split(
    MODELS[options.model](dataset.num_classes, options.seed),
    tf.estimator.MultiClassHead(dataset.num_classes),
    config,
    lambda: make_optimizer(options.optimizer, options.learning_rate),
    feature_key="image",
    verify_placement=False,
  )
  if options.export_dir is not None:
    run_record.make_writable("export_dir", options.export_dir)
  with _claimed_model_dir(options):
    pass  # Only to say so early; `run` claims it for as long as it takes.
  run_config = estimator_mp.run_config(
    config,
    options.model_dir,
    options.save_input_position,
    tf_random_seed=options.seed,
    save_checkpoints_steps=options.save_checkpoints_steps,
  )
  estimator = tf.estimator.Estimator(model_fn, config=run_config)
  return Job(options, mesh, dataset, estimator)


def _claimed_model_dir(
  options: train_flags.TrainOptions,
) -> contextlib.AbstractContextManager[None]:
  folders = [_EVALUATION_FOLDER]
  if options.trace_steps:
    folders.append(_TRACE_FOLDER)
  return run_record.claimed_model_dir(
    options.model_dir,
    run_record.RunIdentity(options.model, options.dataset, options.optimizer),
    folders,
  )


def train(options: train_flags.TrainOptions) -> run_record.Result:
  """Trains a model, evaluates it, and writes the result to its model_dir.

  Resumes from the newest checkpoint in the model_dir. SIGINT and SIGTERM end
  it after a checkpoint; call it in the main thread.

  Args:
    options: What the run is told.

  Returns:
    The result that `result.json` holds.

  Raises:
    ValueError: The options do not fit; see `prepare`, also for other errors.
    TrainingInterrupted: A signal ended the run, or its output was closed; a
      checkpoint was saved.
  """
  return run(prepare(options))


def run(job: Job) -> run_record.Result:
  """Runs a job: see `train`.

  Args:
    job: What `prepare` returned.
  """
  with _claimed_model_dir(job.options):
    return _Run(job).result()


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
    trained = self._show_header()
    try:
      with self._interruption:
        metrics = self._train_and_evaluate(trained)
    except interruption_lib.TrainingInterrupted as interrupted:
      interrupted.is_unheard = self._progress.is_closed
      raise
    finally:
      self._progress.close()
    result = self._result(metrics)
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
      options, self._job.mesh, self._job.dataset, trained
    )
    show("\n".join(header))
    if trained and not input_position.has_position(options.model_dir, trained):
      show("The order of the images begins anew: it was not saved.")
    return trained

  def _train_and_evaluate(self, trained: int) -> dict[str, float]:
    """Returns the metrics of the last evaluation, after the last step."""
    options, dataset = self._options, self._job.dataset
    leave_evaluation = interruption_lib.LeaveEvaluation(self._interruption)
    metrics: dict[str, float]
    if trained >= options.train_steps:
      self._progress.write(
        f"Already trained to step {trained}: nothing to do. Raise --train_steps"
        " to train on, or choose another --model_dir."
      )
      metrics = self._job.estimator.evaluate(
        dataset.test_input_fn(options.batch_size), hooks=[leave_evaluation]
      )
      return metrics
    train_spec = tf.estimator.TrainSpec(
      dataset.train_input_fn(options.batch_size, options.seed),
      max_steps=options.train_steps,
      hooks=self._hooks(),
      saving_listeners=[interruption_lib.LeaveAfterSaving(self._interruption)],
    )
    eval_spec = tf.estimator.EvalSpec(
      dataset.test_input_fn(options.batch_size),
      steps=None,
      hooks=[leave_evaluation],
      exporters=[progress_lib.EvaluationReport(self._progress)],
      start_delay_secs=0,
      throttle_secs=options.eval_every_secs,
    )
    metrics, _ = tf.estimator.train_and_evaluate(
      self._job.estimator, train_spec, eval_spec
    )
    return metrics

  def _hooks(self) -> list[tf.estimator.SessionRunHook]:
    options = self._options
    hooks = [
      progress_lib.PlacementTableHook(self._progress),
      self._progress,
      self._interruption,
    ]
    if options.sharding.verify_placement:
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

  def _result(self, metrics: dict[str, float]) -> run_record.Result:
    options, mesh = self._options, self._job.mesh
    speed = self._progress.steps_per_second
    devices: dict[str, int] | None = {
      device: contents.variable_bytes
      for device, contents in self._verification.observed.items()
      if contents.variables or device in mesh.devices
    }
    earlier = run_record.read_result(options.model_dir)
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
      loss=float(metrics["average_loss"]),
      accuracy=float(metrics["accuracy"]),
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
      self._job.dataset.serving_input_receiver_fn,
    )


def image_model_fn(
  model: str, num_classes: int, seed: int
) -> Callable[..., tf.estimator.EstimatorSpec]:
  """Returns a model of the train command, as a model_fn that knows no mesh.

  Args:
    model: One of `MODELS`.
    num_classes: How many classes the images have.
    seed: Fixes the initial weights.
  """

  def model_fn(
    features: dict[str, tf.Tensor], labels: tf.Tensor, mode: str
  ) -> tf.estimator.EstimatorSpec:
    logits = features["image"]
    for layer in MODELS[model](num_classes, seed):
      logits = layer(logits, training=mode == tf.estimator.ModeKeys.TRAIN)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    step = tf.compat.v1.train.get_global_step()
    train_op = make_optimizer("adam", 0.001).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def make_optimizer(name: str, rate: float) -> tf.compat.v1.train.Optimizer:
  """Returns an optimizer of the train command.

  Args:
    name: One of `train_flags.OPTIMIZERS`.
    rate: Its learning rate.
  """
  optimizers = tf.compat.v1.train
  if name == "momentum":
    return optimizers.MomentumOptimizer(rate, _MOMENTUM)
  made = {
    "adagrad": optimizers.AdagradOptimizer,
    "adam": optimizers.AdamOptimizer,
    "rmsprop": optimizers.RMSPropOptimizer,
    "sgd": optimizers.GradientDescentOptimizer,
  }
  return made[name](rate)


def run_command(options: train_flags.TrainOptions) -> int:
  """Trains as `train` does, and says what is wrong in one line.

  Args:
    options: What the run is told.

  Returns:
    The exit code: 0; 1 if training failed, or files did; 2 if an option or the
    data is wrong; 130 or 143 if a signal ended it in order.
  """
  directories = [options.model_dir, options.export_dir or options.model_dir]
  try:
    with checkpoints.quiet_threads(directories):
      return _run_command(options)
  except (checkpoints.CheckpointError, run_record.ModelDirError) as error:
    return commands.complain("train", error, _FAILED)
  except Exception as error:
    line = checkpoints.explain(error, directories)
    if line is None:
      raise
    return commands.complain("train", line, _FAILED)


def _run_command(options: train_flags.TrainOptions) -> int:
  try:
    job = prepare(options)
  except ValueError as error:
    return commands.complain("train", error)
  try:
    run(job)
  except interruption_lib.TrainingInterrupted as interrupted:
    return _report_interruption(interrupted, options.model_dir)
  except tf.estimator.NanLossDuringTrainingError:
    return commands.complain(
      "train",
      f"the loss is no longer a number; --learning_rate={options.learning_rate}"
      f" is too large for --optimizer={options.optimizer}, use a smaller one"
      " and another --model_dir",
      _FAILED,
    )
  except split_rules.SplitError as error:
    return commands.complain("train", error)
  except (
    verification_lib.PlacementError,
    placement_file.PlacementFileError,
  ) as error:
    return commands.complain("train", error, _FAILED)
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


def show_log(verbosity: flags.Flag) -> None:
  """Hides Estimator's log unless --verbosity was given; shows it once then.

  Args:
    verbosity: The flag.
  """
  logger = tf.get_logger()
  logger.propagate = False
  # What it logs as an error it also raises, and the command says so in a line.
  level = verbosity.value if verbosity.present else logging.FATAL
  logger.setLevel(converter.absl_to_standard(level))
