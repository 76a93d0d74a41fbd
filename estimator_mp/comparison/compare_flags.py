"""The flags of the compare command, and the options that they become."""

import dataclasses
from typing import Any

from estimator_mp.cli import command_flags, train_flags
from estimator_mp.config import options as options_lib
from estimator_mp.config.sharding_options import ShardingOptions

from absl import flags

_COMMAND = command_flags.Command(
  "compare",
  "Trains a model plain and sharded, in turns, and compares every step.",
  ("Model and data", options_lib.FLAGS_TITLE, "Comparison"),
)
_EXAMPLE = "my_model:model_fn"
_MAX_SEED = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class CompareOptions:
  """What is to be compared. Paths are absolute.

  The fields are the flags of the same names, `define_flags` says what they
  mean; `sharding` is what the flags of sharding say.
  """

  model_fn: str | None
  input_fn: str | None
  params: str | None
  model: str
  batch_size: int
  steps: int
  tolerance: float
  seed: int
  checkpoint: str | None
  restart_each_step: bool
  sharding: ShardingOptions


def define_flags(flag_values: flags.FlagValues) -> None:
  """Defines the flags of the compare command.

  Args:
    flag_values: Where to define them.
  """
  group = command_flags.Group("Model and data", flag_values)
  group.text(
    "model_fn",
    None,
    "The model_fn of your Estimator, as module:function; the module is looked"
    " for in this directory too. Without it: --model on digits.",
  )
  group.text(
    "input_fn",
    None,
    "The input_fn that it trains on, as module:function.",
  )
  group.text("params", None, 'The Estimator\'s params as JSON: {"units": 64}.')
  group.choice(
    "model", train_flags.MODELS, "mlp", "The train command's model to compare."
  )
  group.integer("batch_size", 64, 1, "Images per training step of --model.")
  options_lib.define_flags(ShardingOptions, flag_values, mesh="stage:3")
  group = command_flags.Group("Comparison", flag_values)
  group.integer("steps", 5, 1, "Training steps to compare.")
  group.number(
    "tolerance",
    1e-5,
    "The largest difference of a loss, a gradient norm or a variable that"
    " counts as equal, as a part of the plain one.",
  )
  group.integer(
    "seed", 1, 0, "The Estimator's tf_random_seed.", maximum=_MAX_SEED
  )
  group.text(
    "checkpoint",
    None,
    "A checkpoint, or a model_dir with one, to start from. Without it: the"
    " plain model's initial values.",
  )
  group.boolean(
    "restart_each_step",
    False,
    "Begin each step of the sharded model with the plain one's variables, so"
    " that no difference can grow.",
  )


def parse(argv: list[str]) -> CompareOptions:
  """Returns the options that a command line means.

  Args:
    argv: The command and its arguments.

  Raises:
    ValueError: If a flag is wrong, or they do not fit together.
  """
  # Flags of their own: the user's module may define the same names.
  flag_values = flags.FlagValues()
  define_flags(flag_values)
  command_flags.parse_flags(_COMMAND, argv, flag_values)
  values: dict[str, Any] = {
    field.name: flag_values[field.name].value
    for field in dataclasses.fields(CompareOptions)
    if field.name != "sharding"
  }
  sharding = ShardingOptions(
    **options_lib.values_of_flags(ShardingOptions, flag_values)
  )
  command_flags.check_one_process(sharding.aggregation)
  if values["checkpoint"] is not None:
    values["checkpoint"] = command_flags.absolute_path(values["checkpoint"])
  options = CompareOptions(**values, sharding=sharding)
  _check_model(options, flag_values)
  return options


def _check_model(
  options: CompareOptions, flag_values: flags.FlagValues
) -> None:
  """Raises if what is said of the model does not fit together."""
  if options.model_fn is None:
    for name in ("input_fn", "params"):
      if getattr(options, name) is not None:
        raise command_flags.FlagsError(
          f"--{name} is given without --model_fn; say which model it is for, "
          f"such as --model_fn={_EXAMPLE}"
        )
    return
  for name in ("model", "batch_size"):
    if flag_values[name].present:
      raise command_flags.FlagsError(
        f"--{name} is for this project's models, but --model_fn="
        f"{options.model_fn} is given; leave one of them out"
      )
  if options.input_fn is None:
    raise command_flags.FlagsError(
      f"--model_fn={options.model_fn} needs --input_fn: what it trains on, such"
      " as --input_fn=my_model:input_fn"
    )
  command_flags.check_function("model_fn", options.model_fn)
  command_flags.check_function("input_fn", options.input_fn)
  command_flags.parse_params(options.params)
