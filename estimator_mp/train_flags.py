"""The flags of the train command, and the options that they become."""

import dataclasses
import difflib
import math
import os
import sys
import textwrap
from typing import Any

from absl import flags

MODELS = ("cifar10_cnn", "mlp")
DATASETS = ("digits", "cifar10")
OPTIMIZERS = ("adam", "adagrad", "momentum", "rmsprop", "sgd")

_HELP_FLAGS = frozenset(["help", "helpshort", "h", "?"])
_MAX_SEED = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class TrainOptions:
  """What a training run is told. Paths are absolute.

  The fields are the flags of the same names; `define_flags` says what they
  mean.
  """

  model: str
  dataset: str
  data_dir: str | None
  mesh: str
  devices: tuple[str, ...]
  verify_placement: bool
  batch_size: int
  train_steps: int
  learning_rate: float
  optimizer: str
  seed: int
  model_dir: str
  export_dir: str | None
  save_checkpoints_steps: int
  eval_every_secs: int
  log_every: int


class FlagsError(ValueError):
  """A flag is wrong; the one-line text says what would be right."""


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
  """Defines the flags of the train command.

  Args:
    flag_values: Where to define them.
  """
  _define_model_flags(_Group("Model and data", flag_values))
  _define_mesh_flags(_Group("Mesh", flag_values))
  _define_training_flags(_Group("Training", flag_values))
  _define_output_flags(_Group("Output", flag_values))


def _define_model_flags(group: "_Group") -> None:
  group.choice("model", MODELS, "cifar10_cnn", "The model to train.")
  group.choice("dataset", DATASETS, "digits", "The images to learn.")
  group.text(
    "data_dir",
    None,
    "Directory with CIFAR-10's binary files (data_batch_1.bin to"
    " data_batch_5.bin, test_batch.bin). Without it they are downloaded once.",
  )


def _define_mesh_flags(group: "_Group") -> None:
  group.text(
    "mesh",
    "stage:3",
    "Axes and sizes of the mesh: stage:3 spreads the model's layers over three"
    " devices, stage:1 keeps them on one.",
  )
  group.text(
    "devices",
    None,
    "The mesh's devices, such as gpu:0,gpu:1,gpu:2. Without it: the GPUs of"
    " this machine, or virtual CPU devices if it has none.",
  )
  group.boolean(
    "verify_placement",
    True,
    "Compare the devices that the first step really used with the plan.",
  )


def _define_training_flags(group: "_Group") -> None:
  group.integer("batch_size", 64, 1, "Images per training step.")
  group.integer(
    "train_steps", 600, 1, "Global step at which training is finished."
  )
  group.number("learning_rate", 0.001, "Learning rate of the optimizer.")
  group.choice(
    "optimizer", OPTIMIZERS, "adam", "The optimizer (momentum is 0.9)."
  )
  group.integer(
    "seed",
    1,
    0,
    "Fixes the initial weights, the order of the images and their"
    " augmentation.",
    maximum=_MAX_SEED,
  )


def _define_output_flags(group: "_Group") -> None:
  group.text(
    "model_dir",
    None,
    "Directory for checkpoints, summaries and result.json; training resumes"
    " from the newest checkpoint in it. By default runs/MODEL-DATASET.",
  )
  group.text(
    "export_dir",
    None,
    "Directory to export a SavedModel to, in a directory named after the time."
    " Without it nothing is exported.",
  )
  group.integer(
    "save_checkpoints_steps", 200, 1, "Steps between two checkpoints."
  )
  group.integer(
    "eval_every_secs",
    0,
    0,
    "Evaluate a new checkpoint if the last evaluation began at least so many"
    " seconds ago; 0 evaluates every one. The last one is always evaluated.",
  )
  group.integer(
    "log_every",
    50,
    1,
    "Steps between two lines of progress where the output is not a terminal.",
  )


def parse_flags(
  argv: list[str], flag_values: flags.FlagValues = flags.FLAGS
) -> list[str]:
  """Parses a command line; prints the help and exits if it asks for that.

  Args:
    argv: The command and its arguments.
    flag_values: The flags.

  Returns:
    The command, alone.

  Raises:
    FlagsError: A flag is unknown or has a value that it cannot have.
  """
  if any(
    word.lstrip("-") in _HELP_FLAGS for word in argv[1:] if word[0:1] == "-"
  ):
    print(help_text(flag_values))
    sys.exit(0)
  try:
    rest = flag_values(argv)
  except flags.UnrecognizedFlagError as error:
    raise FlagsError(_unknown_flag(error.flagname, flag_values)) from error
  except flags.Error as error:
    raise FlagsError(_wrong_value(str(error))) from error
  if len(rest) > 1:
    raise FlagsError(
      f"unexpected argument {rest[1]!r}; flags are written --name=value,"
      " --help explains them"
    )
  return rest


def options_from_flags(
  flag_values: flags.FlagValues = flags.FLAGS,
) -> TrainOptions:
  """Returns the options that parsed flags mean.

  Relative paths start at the user's directory, which under `bazel run` is not
  the directory that the command runs in.

  Args:
    flag_values: The flags, parsed.
  """
  values: dict[str, Any] = {
    field.name: flag_values[field.name].value
    for field in dataclasses.fields(TrainOptions)
  }
  names = (values["devices"] or "").split(",")
  values["devices"] = tuple(name.strip() for name in names if name.strip())
  if values["model_dir"] is None:
    values["model_dir"] = f"runs/{values['model']}-{values['dataset']}"
  for name in ("data_dir", "model_dir", "export_dir"):
    if values[name] is not None:
      values[name] = _absolute_path(values[name])
  return TrainOptions(**values)


def help_text(flag_values: flags.FlagValues = flags.FLAGS) -> str:
  """Returns the help: every flag with its default, by group."""
  lines = [
    "Trains an image classifier whose layers are spread over several devices.",
    "",
    "usage: train [--flag=value ...]",
  ]
  modules = flag_values.flags_by_module_dict()
  for group in ("Model and data", "Mesh", "Training", "Output"):
    lines += ["", f"{group}:"]
    for flag in modules[group]:
      default = "" if flag.default is None else f"={flag.default_as_str}"
      lines.append(f"  --{flag.name}{default}".replace("'", ""))
      lines += textwrap.wrap(
        flag.help, 78, initial_indent=" " * 6, subsequent_indent=" " * 6
      )
  lines += [
    "",
    "--verbosity=0 shows TensorFlow's own log, --helpfull all flags.",
  ]
  return "\n".join(lines)


def _unknown_flag(name: str, flag_values: flags.FlagValues) -> str:
  close = difflib.get_close_matches(name, list(flag_values), n=1)
  hint = f"did you mean --{close[0]}? " if close else ""
  return f"--{name} is not a flag; {hint}--help lists the flags"


def _wrong_value(text: str) -> str:
  """Returns absl's text about a value as one line that says what is right."""
  subject, colon, reason = text.partition(": ")
  subject = subject.removeprefix("flag ")
  if "Non-boolean" in reason:
    return f"{subject} is neither true nor false; use one of them"
  if reason.startswith("is "):
    return f"{subject} {reason}"
  words = " ".join(f"{subject}{colon}{reason}".split())
  return f"{words}; --help explains the flags"


def _absolute_path(path: str) -> str:
  if "://" in path:
    return path
  start = os.environ.get("BUILD_WORKING_DIRECTORY") or os.getcwd()
  return os.path.normpath(os.path.join(start, os.path.expanduser(path)))


class _Group:
  """Defines flags, with validators, under a heading of the help."""

  def __init__(self, title: str, flag_values: flags.FlagValues):
    self._common: dict[str, Any] = {
      "flag_values": flag_values,
      "module_name": title,
    }

  def text(self, name: str, default: str | None, help_: str) -> None:
    self._define(_TextParser(), name, default, help_)

  def boolean(self, name: str, default: bool, help_: str) -> None:
    flags.DEFINE_bool(name, default, help_, **self._common)

  def choice(
    self, name: str, values: tuple[str, ...], default: str, help_: str
  ) -> None:
    full_help = f"{help_} One of: {', '.join(values)}."
    self._define(_ChoiceParser(values), name, default, full_help)

  def integer(
    self,
    name: str,
    default: int,
    minimum: int,
    help_: str,
    maximum: int | None = None,
  ) -> None:
    self._define(_IntegerParser(minimum, maximum), name, default, help_)

  def number(self, name: str, default: float, help_: str) -> None:
    self._define(_PositiveNumberParser(), name, default, help_)

  def _define(self, parser, name: str, default, help_: str) -> None:
    serializer: flags.ArgumentSerializer = flags.ArgumentSerializer()
    flags.DEFINE(
      parser, name, default, help_, serializer=serializer, **self._common
    )


class _TextParser(flags.ArgumentParser):
  def parse(self, argument):
    if not argument.strip():
      raise ValueError("is empty; give a value, or leave the flag out")
    return argument


class _ChoiceParser(flags.ArgumentParser):
  def __init__(self, values):
    self._values = values

  def parse(self, argument):
    if argument not in self._values:
      raise ValueError(f"is not known; use one of {', '.join(self._values)}")
    return argument


class _IntegerParser(flags.ArgumentParser):
  def __init__(self, minimum, maximum):
    self._minimum = minimum
    self._maximum = maximum

  def parse(self, argument):
    try:
      value = int(argument)
    except ValueError as error:
      raise ValueError(f"is not a whole number; {self._right()}") from error
    if value < self._minimum:
      raise ValueError(f"is too small; {self._right()}")
    if self._maximum is not None and value > self._maximum:
      raise ValueError(f"is too large; {self._right()}")
    return value

  def _right(self):
    if self._maximum is None:
      return f"use {self._minimum} or more"
    return f"use {self._minimum} to {self._maximum}"


class _PositiveNumberParser(flags.ArgumentParser):
  def parse(self, argument):
    try:
      value = float(argument)
    except ValueError as error:
      raise ValueError("is not a number; use one such as 0.001") from error
    if not (math.isfinite(value) and value > 0):
      raise ValueError("is not positive and finite; use one such as 0.001")
    return value
