"""The options of the measure command; each field is the flag of its name."""

import dataclasses

from estimator_mp.cli import commands
from estimator_mp.config import options as options_lib

_output = options_lib.Group("Output")


@dataclasses.dataclass(frozen=True)
class MeasureOptions:
  """Options of a measurement. Paths are absolute.

  Attributes:
    seconds: Seconds for each of some thirty figures.
    out: The file to write. By default it is printed.
  """

  seconds: float = _output(0.5)
  out: str | None = _output(None, is_path=True)

  def __post_init__(self) -> None:
    options_lib.check(self)


COMMAND = commands.Command(
  "measure",
  "Measures this machine, for plans: rates of products, memory, launches and"
  " sends.\nIt takes half a minute, in which nothing else should run.",
  MeasureOptions,
  (_output,),
  "estimator_mp.cli.run_measure",
)
