"""The options of the serve command."""

import dataclasses

from estimator_mp.cli import commands
from estimator_mp.config import options as options_lib

_stage = options_lib.Group("Stage")
_MOST = 65535


@dataclasses.dataclass(frozen=True)
class ServeOptions:
  """The stage to serve, and its address. Paths are absolute.

  Attributes:
    stage_dir: The folder of one stage, such as export/1700000000/stage_0. It
      may be a copy on another machine.
    port: Port to listen on; 0 for a free one.
    listen: Address to listen on. Anyone who can reach it can use the model:
      there is no authentication and no encryption. 0.0.0.0 is all interfaces of
      this machine.
  """

  stage_dir: str = _stage(None, is_path=True)
  port: int = _stage(8500, maximum=_MOST)
  listen: str = _stage("127.0.0.1")

  def __post_init__(self) -> None:
    if self.stage_dir is None:
      raise commands.FlagsError(
        "--stage_dir is missing; give a stage's folder, such as "
        "export/1700000000/stage_0"
      )
    options_lib.check(self)


COMMAND = commands.Command(
  "serve",
  "Serves one stage of a model to the predict command on another machine.",
  ServeOptions,
  (_stage,),
  "estimator_mp.cli.prediction.run_serve",
)
