"""What the predict command is told; the fields are the flags of the names."""

import dataclasses

from estimator_mp.cli import commands
from estimator_mp.config import options as options_lib

_examples = options_lib.Group("Examples")
_stages = options_lib.Group("Stages")


SUFFIXES = (".jsonl", ".json", ".npz")


@dataclasses.dataclass(frozen=True)
class PredictOptions:
  """What is to be predicted. Paths are absolute."""

  stages: str = _stages(
    None,
    "What estimator_mp.export_stages returned, or the folder that it was given;"
    " then the newest export in it.",
    is_path=True,
  )
  addresses: tuple[str, ...] = _stages(
    (),
    "host:port of a server for each stage, in order. Without them each stage"
    " gets a process of its own on this machine.",
  )
  in_flight: int | None = _stages(
    None,
    "How many requests may be under way. Without it: two for each stage.",
    1,
  )
  deadline: float = _stages(
    60.0, "How many seconds a stage may take to answer a request."
  )
  examples: str = _examples(
    None,
    "What to predict: JSON lines (.jsonl), each an example with the model's"
    ' inputs by name, bytes as {"b64": "..."}; or arrays by name with a row for'
    " each example (.npz).",
    is_path=True,
  )
  out: str | None = _examples(
    None,
    "Where the predictions go: .jsonl or .npz. Without it they are printed as"
    " JSON lines.",
    is_path=True,
  )
  batch_size: int = _examples(32, "How many examples a request has.", 1)
  signature: str = _examples(
    "serving_default", "Which of the model's export outputs is asked for."
  )
  outputs: tuple[str, ...] = _examples(
    (), "The names of the outputs to keep. Without them: all."
  )

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


parse = COMMAND.parse
