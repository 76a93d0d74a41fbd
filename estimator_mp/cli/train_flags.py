"""What the train command is told, and the trace command, which trains too.

The fields of the classes are the flags of the same names. Paths are absolute.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from estimator_mp.cli import commands
from estimator_mp.config import options as options_lib
from estimator_mp.config import sharding_options

from absl import flags

MODELS = ("cifar10_cnn", "mlp")
DATASETS = ("digits", "cifar10")
OPTIMIZERS = ("adam", "adagrad", "momentum", "rmsprop", "sgd")

_MODEL_AND_DATA = "Model and data"
_TRAINING = "Training"
_OUTPUT = "Output"
_MAX_SEED = 2**31 - 1
# The models are cut by layer_split, which places layers and knows their loss,
# needs a device for each stage, and has neither tables nor other inputs.
_NOT_OF_IMAGES = (
  "placement",
  "memory_limit",
  "measured_costs",
  "num_virtual_stages",
  "gradient_accumulation_steps",
  "batch_norm",
  "loss_reduction",
  "state_updates",
  "sparse_as_dense",
  "batch_axis",
  "initial_values",
  "plain_initial_bytes",
)
_SCHEDULES = ("none", "gpipe", "1f1b")
_DEFAULTS: Mapping[str, Any] = MappingProxyType(
  {"mesh": "stage:3", "num_micro_batches": 4}
)

_data = functools.partial(options_lib.option, group=_MODEL_AND_DATA)
_training = functools.partial(options_lib.option, group=_TRAINING)
_output = functools.partial(options_lib.option, group=_OUTPUT)


@dataclasses.dataclass(frozen=True)
class ImageOptions:
  """A model of images, what it learns, and how it is sharded."""

  model: str = _data("cifar10_cnn", "The model to train.", choices=MODELS)
  dataset: str = _data("digits", "The images to learn.", choices=DATASETS)
  data_dir: str | None = _data(
    None,
    "Directory with CIFAR-10's binary files (data_batch_1.bin to"
    " data_batch_5.bin, test_batch.bin). Without it they are downloaded once.",
    is_path=True,
  )
  batch_size: int = _data(64, "Images per training step.", minimum=1)
  sharding: sharding_options.ShardingOptions = dataclasses.field(
    default_factory=lambda: sharding_options.ShardingOptions(**_DEFAULTS)
  )


@dataclasses.dataclass(frozen=True)
class TrainOptions(ImageOptions):
  """What a training run is told."""

  train_steps: int = _training(
    600, "Global step at which training is finished.", minimum=1
  )
  learning_rate: float = _training(0.001, "Learning rate of the optimizer.")
  optimizer: str = _training(
    "adam", "The optimizer (momentum is 0.9).", choices=OPTIMIZERS
  )
  seed: int = _training(
    1,
    "Fixes the initial weights, the order of the images and their"
    " augmentation.",
    maximum=_MAX_SEED,
  )
  model_dir: str = _output(
    None,
    "Directory for checkpoints, summaries and result.json; training resumes"
    " from the newest checkpoint in it. By default runs/MODEL-DATASET.",
    is_path=True,
  )
  export_dir: str | None = _output(
    None,
    "Directory to export a SavedModel to, in a directory named after the time."
    " Without it nothing is exported.",
    is_path=True,
  )
  save_checkpoints_steps: int = _output(
    200, "Steps between two checkpoints.", minimum=1
  )
  save_input_position: bool = _output(
    True,
    "Save with each checkpoint how far the images were read, so that a run that"
    " resumes goes on with the next batch; otherwise they begin anew.",
  )
  eval_every_secs: int = _output(
    0,
    "Evaluate a new checkpoint if the last evaluation began at least so many"
    " seconds ago; 0 evaluates every one. The last one is always evaluated.",
  )
  log_every: int = _output(
    50,
    "Steps between two lines of progress where the output is not a terminal.",
    minimum=1,
  )
  trace_steps: tuple[int, ...] = _output(
    (20,),
    "Global steps to draw as they really ran, into MODEL_DIR/trace: a picture"
    " and a file for chrome://tracing each. none for no step.",
    minimum=1,
  )

  def __post_init__(self) -> None:
    if self.model_dir is None:
      folder = f"runs/{self.model}-{self.dataset}"
      object.__setattr__(self, "model_dir", options_lib.absolute_path(folder))


@dataclasses.dataclass(frozen=True)
class TraceOptions(ImageOptions):
  """What is to be traced: the last of some steps of training."""

  step: int = _output(
    20, "The step to trace. The first steps are slower than others.", minimum=1
  )
  out: str = _output(
    "trace",
    "Directory for step_N.png, step_N.svg and step_N.json, which"
    " chrome://tracing and ui.perfetto.dev show.",
    is_path=True,
  )

  def training(self, model_dir: str) -> TrainOptions:
    """Returns the training run that ends with the step.

    Args:
      model_dir: Where its checkpoints go.
    """
    names = [field.name for field in dataclasses.fields(ImageOptions)]
    return TrainOptions(
      **{name: getattr(self, name) for name in names},
      model_dir=model_dir,
      # Estimator saves the first step and the last; no others.
      save_checkpoints_steps=self.step + 1,
    )


_TRAIN = commands.Command(
  "train",
  "Trains an image classifier whose layers are spread over several devices.",
  TrainOptions,
  (_MODEL_AND_DATA, options_lib.SHARDING, _TRAINING, _OUTPUT),
  _NOT_OF_IMAGES,
  {"schedule": _SCHEDULES},
  _DEFAULTS,
)
_TRACE = commands.Command(
  "trace",
  "Draws what the devices do in a training step.",
  TraceOptions,
  (_MODEL_AND_DATA, options_lib.SHARDING, _OUTPUT),
  # The trace says where ops ran; a comparison would come a step too late. And
  # nothing is exported.
  (*_NOT_OF_IMAGES, "verify_placement", "export_shards"),
  {"schedule": _SCHEDULES},
  _DEFAULTS,
)


def define_flags(flag_values: flags.FlagValues) -> None:
  """Defines the flags of the train command.

  Args:
    flag_values: Where to define them.
  """
  _TRAIN.define_flags(flag_values)


def options_of_flags(flag_values: flags.FlagValues) -> TrainOptions:
  """Returns the options that parsed flags of the train command mean.

  Args:
    flag_values: The flags, parsed.

  Raises:
    ValueError: If they do not fit together.
  """
  options = _TRAIN.options_of_flags(flag_values)
  check_options(options)
  return options


def parse(
  argv: list[str], flag_values: flags.FlagValues | None = None
) -> TrainOptions:
  """Returns the options that a command line of the train command means.

  Args:
    argv: The command and its arguments.
    flag_values: Where to define its flags; None for nowhere.

  Raises:
    ValueError: If a flag is wrong, or they do not fit together.
  """
  if flag_values is None:
    flag_values = flags.FlagValues()
  options = _TRAIN.parse(argv, flag_values)
  check_options(options)
  return options


def parse_trace(argv: list[str]) -> TraceOptions:
  """Returns the options that a command line of the trace command means.

  Args:
    argv: The command and its arguments.

  Raises:
    ValueError: If a flag is wrong, or they do not fit together.
  """
  options = _TRACE.parse(argv, flags.FlagValues())
  check_options(options)
  return options


def check_options(options: ImageOptions) -> None:
  """Raises if options can be seen to be wrong without TensorFlow.

  Args:
    options: The options.

  Raises:
    ValueError: With what would be right.
  """
  sharding = options.sharding
  commands.check_one_process(sharding.aggregation)
  if "cluster" in os.environ.get("TF_CONFIG", ""):
    raise ValueError(
      "TF_CONFIG names a cluster, but this command trains on one machine; unset"
      " TF_CONFIG"
    )
  _check_batch(
    options.batch_size,
    sharding_options.parse_axes(sharding.mesh).get("data", 1),
    sharding.num_micro_batches,
  )


def _check_batch(size: int, num_replicas: int, count: int) -> None:
  """Raises if a batch cannot be cut for replicas and their micro-batches."""
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
