"""The options of the compare command; each field is the flag of its name."""

import dataclasses
from typing import Any

from estimator_mp.cli import commands, program_flags, train_flags
from estimator_mp.cli.program_flags import MODEL
from estimator_mp.config import options as options_lib

from absl import flags

_comparison = options_lib.Group("Comparison")
_MAX_SEED = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class CompareOptions(program_flags.ProgramOptions):
  """Options of a comparison. Paths are absolute.

  Attributes:
    input_fn: The input_fn of the training, as module:function.
    model: The train command's model to compare, on digits, if there is no
      model_fn.
    batch_size: Images per training step of --model.
    steps: Training steps to compare.
    tolerance: Relative tolerance: the largest difference of a loss, a gradient
      norm or a variable that counts as equal.
    seed: The Estimator's tf_random_seed. Default: that of the program's
      RunConfig, or 1.
    checkpoint: A checkpoint, or a model_dir with one, to start from. Default:
      the plain model's initial values.
    restart_each_step: Start each step of the sharded model from the plain
      model's variables, so that differences do not accumulate.
  """

  input_fn: str | None = MODEL(None)
  model: str = MODEL("mlp", choices=train_flags.IMAGE_MODELS)
  batch_size: int = MODEL(64, 1)
  steps: int = _comparison(5, 1)
  tolerance: float = _comparison(1e-5)
  seed: int | None = _comparison(None, maximum=_MAX_SEED)
  checkpoint: str | None = _comparison(None, is_path=True)
  restart_each_step: bool = _comparison(False)

  def __post_init__(self) -> None:
    super().__post_init__()
    self.check_model(
      "input_fn", "its training data, such as --input_fn=my_model:input_fn"
    )
    if self.input_fn is not None:
      program_flags.check_function("input_fn", self.input_fn)


class _CompareCommand(commands.Command[CompareOptions]):
  """A command that compares one model: the user's, or one of this project."""

  def options_of_flags(
    self, flag_values: flags.FlagValues, **given: Any
  ) -> CompareOptions:
    """Returns the options that parsed flags mean; see `Command`."""
    options = super().options_of_flags(flag_values, **given)
    theirs = f"--model_fn={options.model_fn}" if options.model_fn else ""
    theirs = theirs or " ".join(options.program)
    for name in ("model", "batch_size"):
      if theirs and flag_values[name].present:
        raise commands.FlagsError(
          f"--{name} is for this project's models, but {theirs} is given; "
          "leave one of them out"
        )
    return options


COMMAND = _CompareCommand(
  "compare",
  "Trains a model plain and sharded, in turns, and compares every step: the"
  " model\nof --model_fn, or of the first Estimator that PROGRAM trains.",
  CompareOptions,
  (MODEL, program_flags.TENSORFLOW, options_lib.SHARDING, _comparison),
  "estimator_mp.cli.run_compare",
  arguments=program_flags.ARGUMENTS,
)
