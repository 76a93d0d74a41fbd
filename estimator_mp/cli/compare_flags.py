"""What the compare command is told; the fields are the flags of the names."""

import dataclasses
import functools

from estimator_mp.cli import commands, train_flags
from estimator_mp.config import options as options_lib
from estimator_mp.config import sharding_options

from absl import flags

_MODEL_AND_DATA = "Model and data"
_COMPARISON = "Comparison"
_MAX_SEED = 2**31 - 1

_model = functools.partial(options_lib.option, group=_MODEL_AND_DATA)
_comparison = functools.partial(options_lib.option, group=_COMPARISON)


@dataclasses.dataclass(frozen=True)
class CompareOptions(commands.ProgramOptions):
  """What is to be compared. Paths are absolute."""

  sharding: sharding_options.ShardingOptions
  model_fn: str | None = _model(
    None,
    "The model_fn of your Estimator, as module:function; the module is looked"
    " for in this directory too. Without it: --model on digits.",
  )
  input_fn: str | None = _model(
    None, "The input_fn that it trains on, as module:function."
  )
  params: str | None = _model(
    None, 'The Estimator\'s params as JSON: {"units": 64}.'
  )
  model: str = _model(
    "mlp",
    "The train command's model to compare.",
    choices=train_flags.IMAGE_MODELS,
  )
  batch_size: int = _model(
    64, "Images per training step of --model.", minimum=1
  )
  steps: int = _comparison(5, "Training steps to compare.", minimum=1)
  tolerance: float = _comparison(
    1e-5,
    "The largest difference of a loss, a gradient norm or a variable that"
    " counts as equal, as a part of the plain one.",
  )
  seed: int = _comparison(
    1, "The Estimator's tf_random_seed.", maximum=_MAX_SEED
  )
  checkpoint: str | None = _comparison(
    None,
    "A checkpoint, or a model_dir with one, to start from. Without it: the"
    " plain model's initial values.",
    is_path=True,
  )
  restart_each_step: bool = _comparison(
    False,
    "Begin each step of the sharded model with the plain one's variables, so"
    " that no difference can grow.",
  )


_COMMAND = commands.Command(
  "compare",
  "Trains a model plain and sharded, in turns, and compares every step.",
  CompareOptions,
  (
    _MODEL_AND_DATA,
    commands.PROGRAM,
    options_lib.SHARDING,
    _COMPARISON,
  ),
  without=("export_shards", "prefetch_inputs"),
  defaults={"mesh": "stage:3"},
)


def parse(argv: list[str]) -> CompareOptions:
  """Returns the options that a command line means.

  Args:
    argv: The command and its arguments.

  Raises:
    ValueError: If a flag is wrong, or they do not fit together.
  """
  # Flags of their own: the user's module may define the same names.
  flag_values = flags.FlagValues()
  options = _COMMAND.parse(argv, flag_values)
  _check_model(options, flag_values)
  return options


def _check_model(
  options: CompareOptions, flag_values: flags.FlagValues
) -> None:
  """Raises if what is said of the model does not fit together."""
  commands.check_program(options)
  if options.model_fn is None:
    commands.check_no_model_fn(options, "input_fn", "params", "contrib", "v1")
    return
  for name in ("model", "batch_size"):
    if flag_values[name].present:
      raise commands.FlagsError(
        f"--{name} is for this project's models, but --model_fn="
        f"{options.model_fn} is given; leave one of them out"
      )
  if options.input_fn is None:
    raise commands.FlagsError(
      f"--model_fn={options.model_fn} needs --input_fn: what it trains on, such"
      " as --input_fn=my_model:input_fn"
    )
  commands.check_function("model_fn", options.model_fn)
  commands.check_function("input_fn", options.input_fn)
  commands.parse_params(options.params)
