"""The inspect command: the partition that a model_fn would get, and its costs.

  python -m estimator_mp.inspect --model_fn=my_model:model_fn \
      --features='ids:int32[?,128]' --labels='int32[?,1]' --mesh=stage:4

`--help` lists the flags. `inspect_model.inspect_model_fn` is the same for
programs.
"""

import dataclasses
import sys
from typing import Any

from estimator_mp.cli import command_flags, commands
from estimator_mp.config import options as options_lib
from estimator_mp.config.sharding_options import ShardingOptions

from absl import flags

_COMMAND = command_flags.Command(
  "inspect",
  "Shows how the layers of a model would be spread over several devices.",
  ("Model", options_lib.FLAGS_TITLE, "Output"),
)
# What a first step shows is nothing to inspect.
_SHARDING = (
  "mesh",
  "devices",
  "placement",
  "memory_limit",
  "measured_costs",
  "variables",
  "optimizer_state",
  "aggregation",
  "bucket_bytes",
  "chunk_bytes",
  "compression",
  "top_k_fraction",
  "sparse_as_dense",
)
_EXAMPLE = "my_model:model_fn"


@dataclasses.dataclass(frozen=True)
class InspectOptions:
  """What is to be inspected. Paths are absolute.

  The fields are the flags of the same names, `define_flags` says what they
  mean; `sharding` is what the flags of sharding say.
  """

  model_fn: str | None
  features: str | None
  labels: str | None
  params: str | None
  out: str | None
  sharding: ShardingOptions


def define_flags(flag_values: flags.FlagValues) -> None:
  """Defines the flags of the inspect command.

  Args:
    flag_values: Where to define them.
  """
  group = command_flags.Group("Model", flag_values)
  group.text(
    "model_fn",
    None,
    "The model_fn of your Estimator, as module:function; the module is looked"
    " for in this directory too. Without it: this project's cifar10_cnn.",
  )
  group.text(
    "features",
    None,
    "What your input_fn returns as features, as name:dtype[dimensions] with"
    " commas between: x:float32[?,10],ids:int32[?,128]. ? is the batch; without"
    " a name it is one tensor; 'sparse int64[?,50]' is a SparseTensor.",
  )
  group.text("labels", None, "The same for labels, such as int32[?,1].")
  group.text("params", None, 'The Estimator\'s params as JSON: {"units": 64}.')
  options_lib.define_flags(
    ShardingOptions, flag_values, _SHARDING, mesh="stage:3"
  )
  group = command_flags.Group("Output", flag_values)
  group.text(
    "out",
    None,
    "Directory for placement.png, placement.svg, placement.dot and"
    " placement.json. Without it nothing is written.",
  )


def options_from_flags(flag_values: flags.FlagValues) -> InspectOptions:
  """Returns the options that parsed flags mean.

  Args:
    flag_values: The flags, parsed.

  Raises:
    ValueError: If a flag is wrong, or they do not fit together.
  """
  values: dict[str, Any] = {
    field.name: flag_values[field.name].value
    for field in dataclasses.fields(InspectOptions)
    if field.name != "sharding"
  }
  values["sharding"] = ShardingOptions(
    **options_lib.values_of_flags(ShardingOptions, flag_values)
  )
  command_flags.check_one_process(values["sharding"].aggregation)
  if values["out"] is not None:
    values["out"] = command_flags.absolute_path(values["out"])
  options = InspectOptions(**values)
  _check_model(options)
  return options


def _check_model(options: InspectOptions) -> None:
  """Raises if what is said of the model does not fit together."""
  if options.model_fn is None:
    for name in ("features", "labels", "params"):
      if getattr(options, name) is not None:
        raise command_flags.FlagsError(
          f"--{name} is given without --model_fn; say which model it is for, "
          f"such as --model_fn={_EXAMPLE}"
        )
    return
  if options.features is None:
    raise command_flags.FlagsError(
      f"--model_fn={options.model_fn} needs --features: what its input_fn "
      "returns, such as --features='x:float32[?,10]'"
    )
  command_flags.check_function("model_fn", options.model_fn)
  command_flags.parse_params(options.params)


def _parse(argv: list[str]) -> InspectOptions:
  # Flags of their own: the module of a model_fn may define the same names.
  flag_values = flags.FlagValues()
  define_flags(flag_values)
  command_flags.parse_flags(_COMMAND, argv, flag_values)
  return options_from_flags(flag_values)


def main(argv: list[str]) -> int:
  """Runs the command; returns its exit code.

  Args:
    argv: The command and its arguments.
  """
  return commands.run("inspect", _parse, argv, "estimator_mp.cli.run_inspect")


def run_app() -> None:
  """Runs the command and exits."""
  sys.exit(main(list(sys.argv)))


if __name__ == "__main__":
  run_app()
