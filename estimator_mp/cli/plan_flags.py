"""The options of the plan command; each field is the flag of its name."""

import dataclasses

from estimator_mp.cli import commands, program_flags
from estimator_mp.config import options as options_lib

_output = options_lib.Group("Output")


@dataclasses.dataclass(frozen=True)
class PlanOptions(program_flags.ProgramOptions):
  """Options of a plan. Paths are absolute.

  Attributes:
    features: Features that your input_fn returns, as comma-separated
      name:dtype[dimensions]: x:float32[?,10],ids:int32[?,128]. ? is the batch;
      a single tensor needs no name; 'sparse int64[?,50]' is a SparseTensor.
    labels: Labels that your input_fn returns, in the same format, such as
      int32[?,1].
    batch_size: The size that ? stands for in --features and --labels. Default:
      32. A batch of a program is read.
    out: Directory for placement.png, placement.svg, placement.dot and
      placement.json. By default nothing is written.
    json: Print JSON, as in placement.json, instead of the table.
  """

  features: str | None = program_flags.MODEL(None)
  labels: str | None = program_flags.MODEL(None)
  batch_size: int | None = program_flags.MODEL(None, 1)
  out: str | None = _output(None, is_path=True)
  json: bool = _output(False)

  def __post_init__(self) -> None:
    super().__post_init__()
    self.check_model(
      "features",
      "its features, such as --features='x:float32[?,10]'",
      "labels",
      "batch_size",
    )


COMMAND = commands.Command(
  "plan",
  "Shows how the layers of a model would be spread over several devices, and"
  " what\nthat costs: the model of --model_fn, or of the first Estimator that"
  " PROGRAM trains.",
  PlanOptions,
  (
    program_flags.MODEL,
    program_flags.TENSORFLOW,
    options_lib.SHARDING,
    _output,
  ),
  "estimator_mp.cli.run_plan",
  arguments=program_flags.ARGUMENTS,
)
