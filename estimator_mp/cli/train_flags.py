"""The flags of the train command, and the options that they become."""

import dataclasses
import os
from types import MappingProxyType
from typing import Any

from estimator_mp.cli import command_flags
from estimator_mp.config import axes
from estimator_mp.config import options as options_lib
from estimator_mp.config.sharding_options import ShardingOptions

from absl import flags

MODELS = ("cifar10_cnn", "mlp")
DATASETS = ("digits", "cifar10")
OPTIMIZERS = ("adam", "adagrad", "momentum", "rmsprop", "sgd")
# The fields of ShardingConfig that are flags of the command.
SHARDING_FLAGS = (
  "mesh",
  "devices",
  "verify_placement",
  "num_micro_batches",
  "schedule",
  "recompute",
  "variables",
  "optimizer_state",
  "aggregation",
  "bucket_bytes",
  "chunk_bytes",
  "compression",
  "top_k_fraction",
)
SHARDING_DEFAULTS = MappingProxyType(
  {"mesh": "stage:3", "num_micro_batches": 4}
)
# The models are cut by layer_split, which needs a device for each stage.
SHARDING_CHOICES = MappingProxyType({"schedule": ("none", "gpipe", "1f1b")})

FlagsError = command_flags.FlagsError

_MAX_SEED = 2**31 - 1
_COMMAND = command_flags.Command(
  "train",
  "Trains an image classifier whose layers are spread over several devices.",
  ("Model and data", options_lib.FLAGS_TITLE, "Training", "Output"),
)


@dataclasses.dataclass(frozen=True)
class TrainOptions:
  """What a training run is told. Paths are absolute.

  The fields are the flags of the same names; `define_flags` says what they
  mean.
  """

  model: str
  dataset: str
  data_dir: str | None
  mesh: str
  devices: tuple[str, ...]
  verify_placement: bool
  num_micro_batches: int
  schedule: str
  recompute: str
  variables: str
  optimizer_state: str
  aggregation: str
  bucket_bytes: int
  chunk_bytes: int | None
  compression: str
  top_k_fraction: float
  batch_size: int
  train_steps: int
  learning_rate: float
  optimizer: str
  seed: int
  model_dir: str
  export_dir: str | None
  save_checkpoints_steps: int
  save_input_position: bool
  eval_every_secs: int
  log_every: int
  trace_steps: tuple[int, ...]


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
  """Defines the flags of the train command.

  Args:
    flag_values: Where to define them.
  """
  define_model_flags(command_flags.Group("Model and data", flag_values))
  options_lib.define_flags(
    ShardingOptions,
    flag_values,
    SHARDING_FLAGS,
    SHARDING_CHOICES,
    **SHARDING_DEFAULTS,
  )
  _define_training_flags(command_flags.Group("Training", flag_values))
  _define_output_flags(command_flags.Group("Output", flag_values))


def define_model_flags(group: command_flags.Group) -> None:
  """Defines the flags that choose the model and its data.

  Args:
    group: The group to define them in.
  """
  group.choice("model", MODELS, "cifar10_cnn", "The model to train.")
  group.choice("dataset", DATASETS, "digits", "The images to learn.")
  group.text(
    "data_dir",
    None,
    "Directory with CIFAR-10's binary files (data_batch_1.bin to"
    " data_batch_5.bin, test_batch.bin). Without it they are downloaded once.",
  )


def _define_training_flags(group: command_flags.Group) -> None:
  group.integer("batch_size", 64, 1, "Images per training step.")
  group.integer(
    "train_steps", 600, 1, "Global step at which training is finished."
  )
  group.number("learning_rate", 0.001, "Learning rate of the optimizer.")
  group.choice(
    "optimizer", OPTIMIZERS, "adam", "The optimizer (momentum is 0.9)."
  )
  group.integer(
    "seed",
    1,
    0,
    "Fixes the initial weights, the order of the images and their"
    " augmentation.",
    maximum=_MAX_SEED,
  )


def _define_output_flags(group: command_flags.Group) -> None:
  group.text(
    "model_dir",
    None,
    "Directory for checkpoints, summaries and result.json; training resumes"
    " from the newest checkpoint in it. By default runs/MODEL-DATASET.",
  )
  group.text(
    "export_dir",
    None,
    "Directory to export a SavedModel to, in a directory named after the time."
    " Without it nothing is exported.",
  )
  group.integer(
    "save_checkpoints_steps", 200, 1, "Steps between two checkpoints."
  )
  group.boolean(
    "save_input_position",
    True,
    "Save with each checkpoint how far the images were read, so that a run that"
    " resumes goes on with the next batch; otherwise they begin anew.",
  )
  group.integer(
    "eval_every_secs",
    0,
    0,
    "Evaluate a new checkpoint if the last evaluation began at least so many"
    " seconds ago; 0 evaluates every one. The last one is always evaluated.",
  )
  group.integer(
    "log_every",
    50,
    1,
    "Steps between two lines of progress where the output is not a terminal.",
  )
  group.integers(
    "trace_steps",
    "20",
    1,
    "Global steps to draw as they really ran, into MODEL_DIR/trace: a picture"
    " and a file for chrome://tracing each. none for no step.",
  )


def parse_flags(
  argv: list[str], flag_values: flags.FlagValues = flags.FLAGS
) -> list[str]:
  """Parses a command line; prints the help and exits if it asks for that.

  Args:
    argv: The command and its arguments.
    flag_values: The flags.

  Returns:
    The command, alone.

  Raises:
    FlagsError: A flag is unknown or has a value that it cannot have.
  """
  return command_flags.parse_flags(_COMMAND, argv, flag_values)


def options_from_flags(
  flag_values: flags.FlagValues = flags.FLAGS,
) -> TrainOptions:
  """Returns the options that parsed flags mean.

  Relative paths start at the user's directory, which under `bazel run` is not
  the directory that the command runs in.

  Args:
    flag_values: The flags, parsed.
  """
  values: dict[str, Any] = {
    field.name: flag_values[field.name].value
    for field in dataclasses.fields(TrainOptions)
  }
  values |= options_lib.values_of_flags(ShardingOptions, flag_values)
  if values["model_dir"] is None:
    values["model_dir"] = f"runs/{values['model']}-{values['dataset']}"
  for name in ("data_dir", "model_dir", "export_dir"):
    if values[name] is not None:
      values[name] = command_flags.absolute_path(values[name])
  return TrainOptions(**values)


def check_options(options: TrainOptions) -> ShardingOptions:
  """Raises if options can be seen to be wrong without TensorFlow.

  Args:
    options: The options.

  Returns:
    Those of sharding.

  Raises:
    ValueError: With what would be right.
  """
  given = {name: getattr(options, name) for name in SHARDING_FLAGS}
  sharding = ShardingOptions(**given)
  command_flags.check_one_process(options.aggregation)
  if "cluster" in os.environ.get("TF_CONFIG", ""):
    raise ValueError(
      "TF_CONFIG names a cluster, but this command trains on one machine; unset"
      " TF_CONFIG"
    )
  check_batch(options, axes.parse_axes(options.mesh).get("data", 1))
  return sharding


def check_batch(options: TrainOptions, num_replicas: int) -> None:
  """Raises if a batch cannot be cut for replicas and their micro-batches.

  Args:
    options: The options.
    num_replicas: The size of the mesh's data axis.

  Raises:
    ValueError: If it cannot; the text says which sizes can.
  """
  size, count = options.batch_size, options.num_micro_batches
  if size % num_replicas:
    fitting = (
      [size // num_replicas * num_replicas] if size > num_replicas else []
    )
    fitting.append(-(-size // num_replicas) * num_replicas)
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


def help_text(flag_values: flags.FlagValues = flags.FLAGS) -> str:
  """Returns the help: every flag with its default, by group."""
  return command_flags.help_text(_COMMAND, flag_values)
