"""The options of the predict command; each field is the flag of its name."""

import dataclasses

from estimator_mp.cli import commands
from estimator_mp.config import options as options_lib

_examples = options_lib.Group("Examples")
_stages = options_lib.Group("Stages")


SUFFIXES = (".jsonl", ".json", ".npz")


@dataclasses.dataclass(frozen=True)
class PredictOptions:
  """Options of a prediction. Paths are absolute.

  Attributes:
    stages: Folder that estimator_mp.export_stages returned, or the one that it
      was given, of which the newest export is used.
    addresses: host:port of the server of each stage, in order. By default each
      stage gets a process of its own on this machine.
    in_flight: Maximum number of requests in flight. Default: two for each
      stage.
    deadline: Seconds that a stage may take to answer a request.
    examples: Examples to predict: JSON lines (.jsonl), each an example with the
      model's inputs by name, bytes as {"b64": "..."}; or arrays by name with a
      row for each example (.npz).
    out: File for the predictions: .jsonl or .npz. By default they are printed
      as JSON lines.
    batch_size: Number of examples per request.
    signature: Name of the model's export output to predict.
    outputs: Names of the outputs to keep. Default: all.
  """

  stages: str = _stages(None, is_path=True)
  addresses: tuple[str, ...] = _stages(())
  in_flight: int | None = _stages(None, 1)
  deadline: float = _stages(60.0)
  examples: str = _examples(None, is_path=True)
  out: str | None = _examples(None, is_path=True)
  batch_size: int = _examples(32, 1)
  signature: str = _examples("serving_default")
  outputs: tuple[str, ...] = _examples(())

  def __post_init__(self) -> None:
    if self.stages is None:
      raise commands.FlagsError(
        "--stages is missing; give the folder that estimator_mp.export_stages "
        "returned"
      )
    if self.examples is None:
      raise commands.FlagsError(
        "--examples is missing; give a file of JSON lines (.jsonl) or arrays "
        "(.npz)"
      )
    options_lib.check(self)
    for name in ("examples", "out"):
      path = getattr(self, name)
      if path is not None and not path.endswith(SUFFIXES):
        raise commands.FlagsError(
          f"--{name}={path} is neither .jsonl nor .npz; give one of these"
        )


COMMAND = commands.Command(
  "predict",
  "Sends examples through stages that were exported, several at a time.",
  PredictOptions,
  (_stages, _examples),
  "estimator_mp.cli.prediction.run_predict",
)
