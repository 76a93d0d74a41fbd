"""The options of the inspect command; each field is the flag of its name."""

import dataclasses

from estimator_mp.cli import commands
from estimator_mp.config import options as options_lib
from estimator_mp.config import sharding_options

_model = options_lib.Group("Model")
_output = options_lib.Group("Output")


@dataclasses.dataclass(frozen=True)
class InspectOptions(commands.ProgramOptions):
  """Options of an inspection. Paths are absolute."""

  sharding: sharding_options.ShardingOptions
  model_fn: str | None = _model(
    None,
    "The model_fn of your Estimator, as module:function. Modules in the current"
    " directory are found, too. Default: this project's cifar10_cnn.",
  )
  features: str | None = _model(
    None,
    "Features that your input_fn returns, as comma-separated"
    " name:dtype[dimensions]: x:float32[?,10],ids:int32[?,128]. ? is the batch;"
    " a single tensor needs no name; 'sparse int64[?,50]' is a SparseTensor.",
  )
  labels: str | None = _model(
    None,
    "Labels that your input_fn returns, in the "
    "same format, such as int32[?,1].",
  )
  params: str | None = _model(
    None, 'The Estimator\'s params as JSON: {"units": 64}.'
  )
  out: str | None = _output(
    None,
    "Directory for placement.png, placement.svg, placement.dot and"
    " placement.json. By default nothing is written.",
    is_path=True,
  )

  def __post_init__(self) -> None:
    commands.check_program(
      self,
      "features",
      "its features, such as --features='x:float32[?,10]'",
      "labels",
    )


COMMAND = commands.Command(
  "inspect",
  "Shows how the layers of a model would be spread over several devices: the"
  " model\nof --model_fn, or of the first Estimator that PROGRAM trains.",
  InspectOptions,
  (_model, commands.PROGRAM, options_lib.SHARDING, _output),
  "estimator_mp.cli.run_inspect",
  defaults={"mesh": "stage:3"},
  arguments=commands.PROGRAM_ARGUMENTS,
)


parse = COMMAND.parse
