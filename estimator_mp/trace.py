"""The trace command: what a training step really does, as a picture.

  bazel run //estimator_mp:trace -- --mesh=stage:3 --num_micro_batches=8 \
      --schedule=1f1b --out=/tmp/trace

It trains the train command's model for some steps, keeps nothing of it, and
draws the last step. `--help` lists the flags.
"""

import dataclasses
import sys
from typing import Any

from estimator_mp.cli import command_flags, commands, train_flags
from estimator_mp.config import options as options_lib
from estimator_mp.config.sharding_options import ShardingOptions

from absl import flags

_COMMAND = command_flags.Command(
  "trace",
  "Draws what the devices do in a training step.",
  ("Model and data", options_lib.FLAGS_TITLE, "Output"),
)
# It would come a step too late: the trace says where ops ran.
_VERIFY = "verify_placement"


@dataclasses.dataclass(frozen=True)
class TraceOptions:
  """What is to be traced.

  Attributes:
    training: The training run.
    step: The global step to trace, which is the last one.
    out: The absolute path of the folder to write to.
  """

  training: train_flags.TrainOptions
  step: int
  out: str


def define_flags(flag_values: flags.FlagValues) -> None:
  """Defines the flags of the trace command.

  Args:
    flag_values: Where to define them.
  """
  group = command_flags.Group("Model and data", flag_values)
  train_flags.define_model_flags(group)
  group.integer("batch_size", 64, 1, "Images per training step.")
  options_lib.define_flags(
    ShardingOptions,
    flag_values,
    [name for name in train_flags.SHARDING_FLAGS if name != _VERIFY],
    train_flags.SHARDING_CHOICES,
    **train_flags.SHARDING_DEFAULTS,
  )
  group = command_flags.Group("Output", flag_values)
  group.integer(
    "step", 20, 1, "The step to trace. The first steps are slower than others."
  )
  group.text(
    "out",
    "trace",
    "Directory for step_N.png, step_N.svg and step_N.json, which"
    " chrome://tracing and ui.perfetto.dev show.",
  )


def options_from_flags(flag_values: flags.FlagValues) -> TraceOptions:
  """Returns the options that parsed flags mean.

  Args:
    flag_values: The flags, parsed.

  Raises:
    ValueError: If they do not fit together.
  """
  # What the command has no flags for is as the train command has it.
  training_flags = flags.FlagValues()
  train_flags.define_flags(training_flags)
  training_flags.mark_as_parsed()
  training = train_flags.options_from_flags(training_flags)
  given: dict[str, Any] = {
    field.name: flag_values[field.name].value
    for field in dataclasses.fields(training)
    if field.name in flag_values
  }
  given |= options_lib.values_of_flags(ShardingOptions, flag_values)
  if given["data_dir"] is not None:
    given["data_dir"] = command_flags.absolute_path(given["data_dir"])
  training = dataclasses.replace(training, **given)
  train_flags.check_options(training)
  return TraceOptions(
    training,
    flag_values["step"].value,
    command_flags.absolute_path(flag_values["out"].value),
  )


def _parse(argv: list[str]) -> TraceOptions:
  flag_values = flags.FlagValues()
  define_flags(flag_values)
  command_flags.parse_flags(_COMMAND, argv, flag_values)
  return options_from_flags(flag_values)


def main(argv: list[str]) -> int:
  """Runs the command.

  Args:
    argv: The command and its arguments.

  Returns:
    The exit code: 0; 2 if an option or the data is wrong.
  """
  return commands.run("trace", _parse, argv, "estimator_mp.cli.run_trace")


def run_app() -> None:
  """Runs the command and exits."""
  sys.exit(main(list(sys.argv)))


if __name__ == "__main__":
  run_app()
