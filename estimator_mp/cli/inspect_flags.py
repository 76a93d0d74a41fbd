"""The options of the inspect command; each field is the flag of its name."""

import dataclasses

from estimator_mp.cli import commands, program_flags
from estimator_mp.config import options as options_lib

_output = options_lib.Group("Output")


@dataclasses.dataclass(frozen=True)
class InspectOptions(program_flags.ProgramOptions):
  """Options of an inspection. Paths are absolute.

  Attributes:
    features: Features that your input_fn returns, as comma-separated
      name:dtype[dimensions]: x:float32[?,10],ids:int32[?,128]. ? is the batch;
      a single tensor needs no name; 'sparse int64[?,50]' is a SparseTensor.
    labels: Labels that your input_fn returns, in the same format, such as
      int32[?,1].
    out: Directory for placement.png, placement.svg, placement.dot and
      placement.json. By default nothing is written.
  """

  features: str | None = program_flags.MODEL(None)
  labels: str | None = program_flags.MODEL(None)
  out: str | None = _output(None, is_path=True)

  def __post_init__(self) -> None:
    super().__post_init__()
    self.check_model(
      "features", "its features, such as --features='x:float32[?,10]'", "labels"
    )


COMMAND = commands.Command(
  "inspect",
  "Shows how the layers of a model would be spread over several devices: the"
  " model\nof --model_fn, or of the first Estimator that PROGRAM trains.",
  InspectOptions,
  (
    program_flags.MODEL,
    program_flags.TENSORFLOW,
    options_lib.SHARDING,
    _output,
  ),
  "estimator_mp.cli.run_inspect",
  arguments=program_flags.ARGUMENTS,
)
