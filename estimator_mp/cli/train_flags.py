"""The options of the train command, and of the trace command.

The fields of the classes are the flags of the same names. Paths are absolute.
"""

import dataclasses
from typing import Any, TypeVar

from estimator_mp.cli import commands
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.config import mesh_axes, sharding_options
from estimator_mp.config import options as options_lib
from model_fns.recipes import catalogue

from absl import flags

MODELS = tuple(catalogue.ENTRIES)
IMAGE_MODELS = ("cifar10_cnn", "mlp")

_data = options_lib.Group("Model and data")
_training = options_lib.Group("Training")
_output = options_lib.Group("Output")
_cluster = options_lib.Group("Cluster")
_MAX_SEED = 2**31 - 1

# The trace says where ops ran; a comparison would come a step too late. And
# nothing is exported.
_NOT_OF_A_STEP = ("verify_placement", "export_shards")

_Options = TypeVar("_Options")


@dataclasses.dataclass(frozen=True)
class ModelOptions(commands.ShardedOptions):
  """A model, its data set, and how it is sharded.

  Attributes:
    model: The model to train. Each has defaults of its own: --model=NAME --help
      shows them.
    dataset: Data set that the model is trained on.
    data_dir: Directory with the files of the data set. cifar10: its binary
      files (data_batch_1.bin to data_batch_5.bin, test_batch.bin); by default
      they are downloaded once. criteo: its train.txt, or a file's own path.
    batch_size: Examples per training step.
  """

  mesh: str = sharding_options.MESH("stage:3")
  num_micro_batches: int = sharding_options.PIPELINE(4, 1)
  model: str = _data("cifar10_cnn", choices=MODELS)
  dataset: str = _data("digits", choices=catalogue.datasets())
  data_dir: str | None = _data(None, is_path=True)
  batch_size: int = _data(64, 1)

  def __post_init__(self) -> None:
    if self.mesh == mesh_axes.AUTO:
      raise ValueError(
        f"mesh={self.mesh} is for programs, as shard_estimator's or of the plan"
        " command; give the mesh that this model trains on, such as stage:2"
      )
    super().__post_init__()
    fitting = catalogue.ENTRIES[self.model].datasets
    if self.dataset not in fitting:
      raise ValueError(
        f"dataset={self.dataset} does not fit model={self.model}; use "
        f"{' or '.join(fitting)}"
      )
    _check_batch(
      self.batch_size, self.axis_size("data"), self.num_micro_batches
    )


@dataclasses.dataclass(frozen=True)
class TrainOptions(ModelOptions):
  """Options of a training run.

  Attributes:
    train_steps: Global step at which training is finished.
    learning_rate: Learning rate of the optimizer.
    optimizer: Optimizer (momentum is 0.9); own: the one of the model's paper,
      if it has one.
    seed: Fixes the initial weights, the order of the examples and their
      augmentation.
    model_dir: Directory for checkpoints, summaries and result.json; training
      resumes from the newest checkpoint in it. By default
      runs/MODEL-DATASET-MESH.
    export_dir: Directory to export a SavedModel to, in a directory named after
      the time. By default nothing is exported.
    save_checkpoints_steps: Steps between two checkpoints.
    save_input_position: Save the position in the input with each checkpoint, so
      that a resumed run continues with the next batch; otherwise the input
      starts anew.
    log_every: Steps between two lines of progress where the output is not a
      terminal.
    trace_steps: Global steps to trace, into MODEL_DIR/trace: a picture and a
      file for chrome://tracing each. none for no step.
    trusted_network: In a cluster of TF_CONFIG: confirms that only its machines
      can reach the ports of this machine. TensorFlow's server has no
      authentication.
    startup_timeout: Seconds that a task of a cluster waits for the others.
    heartbeat_timeout: Seconds after which the chief reports a task of its
      cluster that does not answer. The run continues when the task answers, or
      was restarted.
    lost_after: Seconds after which a task that does not answer is lost: the
      chief stops waiting for it, and ends with exit code 138.
  """

  train_steps: int = _training(600, 1)
  learning_rate: float = _training(0.001)
  optimizer: str = _training("adam", choices=catalogue.OPTIMIZERS)
  seed: int = _training(1, maximum=_MAX_SEED)
  model_dir: str = _output(None, is_path=True)
  export_dir: str | None = _output(None, is_path=True)
  save_checkpoints_steps: int = _output(200, 1)
  save_input_position: bool = _output(True)
  log_every: int = _output(50, 1)
  trace_steps: tuple[int, ...] = _output((20,), 1)
  trusted_network: bool = _cluster(False)
  startup_timeout: int = _cluster(600, 1)
  heartbeat_timeout: int = _cluster(30, 1)
  lost_after: int = _cluster(600, 1)

  def __post_init__(self) -> None:
    if self.model_dir is None:
      mesh = self.mesh.replace(":", "").replace(",", "-")
      folder = f"runs/{self.model}-{self.dataset}-{mesh}"
      object.__setattr__(self, "model_dir", options_lib.absolute_path(folder))
    super().__post_init__()
    tasks_lib.from_environment()  # It raises if TF_CONFIG is malformed.

  def by_flag(self) -> dict[str, Any]:
    """Returns the values of all options but the model_dir, by flag."""
    values = {x.name: getattr(self, x.name) for x in dataclasses.fields(self)}
    del values["model_dir"]
    return values


@dataclasses.dataclass(frozen=True)
class TraceOptions(ModelOptions):
  """Options of the trace of a step, the last one of a training.

  Attributes:
    step: The step to trace. The first steps are slower than others.
    out: Directory for step_N.png, step_N.svg and step_N.json, which
      chrome://tracing and ui.perfetto.dev show.
  """

  step: int = _output(20, 1)
  out: str = _output("trace", is_path=True)

  def __post_init__(self) -> None:
    super().__post_init__()
    cluster = tasks_lib.from_environment()
    if cluster is not None:
      raise ValueError(
        f"TF_CONFIG names a cluster ({cluster}), but this command trains on "
        "one machine; unset TF_CONFIG"
      )

  def training(self, model_dir: str) -> TrainOptions:
    """Returns the training run that ends with the step.

    Args:
      model_dir: Where its checkpoints go.
    """
    names = [field.name for field in dataclasses.fields(ModelOptions)]
    return TrainOptions(
      **{name: getattr(self, name) for name in names},
      model_dir=model_dir,
      # Estimator saves the first step and the last; no others.
      save_checkpoints_steps=self.step + 1,
    )


@dataclasses.dataclass(frozen=True)
class _ModelCommand(commands.Command[_Options]):
  """A command whose flags have the defaults of the model that it trains."""

  def options_of_flags(
    self, flag_values: flags.FlagValues, **given: Any
  ) -> _Options:
    """Returns the options that parsed flags mean; see `Command`."""
    self._set_defaults(flag_values)
    model = flag_values["model"].value
    entry = catalogue.ENTRIES[model]
    for name, reason in entry.without.items():
      if name in flag_values and flag_values[name].present:
        raise commands.FlagsError(
          f"--{name} does not fit --model={model}: {reason}; leave it out"
        )
    for name, words in entry.choices.items():
      if flag_values[name].value not in words:
        raise commands.FlagsError(
          f"--{name}={flag_values[name].value} does not fit --model={model};"
          f" use one of {', '.join(words)}"
        )
    return super().options_of_flags(flag_values, **given)

  def help(self, flag_values: flags.FlagValues) -> str:
    """Returns the help, with the defaults of the model that is named."""
    self._set_defaults(flag_values)
    return super().help(flag_values)

  def _set_defaults(self, flag_values: flags.FlagValues) -> None:
    """Gives flags that the user left out the model's defaults."""
    entry = catalogue.ENTRIES[flag_values["model"].value]
    defaults = {"dataset": entry.datasets[0], **entry.defaults}
    for name, value in defaults.items():
      if name in flag_values:
        flag_values.set_default(name, value)


TRAIN = _ModelCommand(
  "train",
  "Trains a model that is spread over several devices.",
  TrainOptions,
  (_data, options_lib.SHARDING, _training, _output, _cluster),
  "estimator_mp.cli.run_train",
)
TRACE = _ModelCommand(
  "trace",
  "Draws the timeline of a training step on the devices.",
  TraceOptions,
  (_data, options_lib.SHARDING, _output),
  "estimator_mp.cli.run_trace",
  _NOT_OF_A_STEP,
)


def _check_batch(size: int, num_replicas: int, count: int) -> None:
  """Raises if a batch cannot be cut for replicas and their micro-batches."""
  if size % num_replicas:
    below = size // num_replicas * num_replicas
    fitting = [x for x in (below, below + num_replicas) if x]
    raise ValueError(
      f"data:{num_replicas} does not divide batch_size={size}; use "
      f"--batch_size={' or '.join(map(str, fitting))}, or as many replicas as "
      "divide it"
    )
  of_replica = size // num_replicas
  if of_replica % count:
    fitting = [m for m in range(1, of_replica + 1) if of_replica % m == 0]
    *others, last = map(str, fitting)
    words = f"{', '.join(others)} or {last}" if others else last
    part = f"batch_size={size}"
    if num_replicas > 1:
      part = (
        f"the {of_replica} of {part} that each of {num_replicas} replicas gets"
      )
    raise ValueError(
      f"num_micro_batches={count} does not divide {part}; use {words}"
    )
