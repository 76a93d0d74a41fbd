"""What the flags of all commands have in common: groups, errors, the help.

A wrong flag is an error of one line that says what would be right.
"""

import dataclasses
import difflib
import json
import math
import os
import sys
import textwrap
from typing import Any

from absl import flags

_HELP_FLAGS = frozenset(["help", "helpshort", "h", "?"])


class FlagsError(ValueError):
  """A flag is wrong; the one-line text says what would be right."""


@dataclasses.dataclass(frozen=True)
class Command:
  """What the help says of a command.

  Attributes:
    name: Its name.
    summary: What it does, in a line.
    groups: The titles of its groups of flags, in order.
  """

  name: str
  summary: str
  groups: tuple[str, ...]


def parse_flags(
  command: Command,
  argv: list[str],
  flag_values: flags.FlagValues = flags.FLAGS,
) -> list[str]:
  """Parses a command line; prints the help and exits if it asks for that.

  Args:
    command: The command.
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
    print(help_text(command, flag_values))
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


def help_text(
  command: Command, flag_values: flags.FlagValues = flags.FLAGS
) -> str:
  """Returns the help: every flag with its default, by group.

  Args:
    command: The command.
    flag_values: The flags.
  """
  lines = [
    command.summary,
    "",
    f"usage: {command.name} [--flag=value ...]",
  ]
  modules = flag_values.flags_by_module_dict()
  for group in command.groups:
    lines += ["", f"{group}:"]
    for flag in modules[group]:
      default = "" if flag.default is None else f"={flag.default_as_str}"
      lines.append(f"  --{flag.name}{default}".replace("'", ""))
      lines += textwrap.wrap(
        flag.help, 78, initial_indent=" " * 6, subsequent_indent=" " * 6
      )
  if "verbosity" in flag_values:
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


def absolute_path(path: str) -> str:
  """Returns a path that the user gave, from the user's directory.

  Under `bazel run` that is not the directory that the command runs in.

  Args:
    path: The path, or a URL, which is returned as it is.
  """
  if "://" in path:
    return path
  return os.path.normpath(
    os.path.join(user_directory(), os.path.expanduser(path))
  )


def user_directory() -> str:
  """Returns the directory that the user gave the command in."""
  # Bazel says the second; bazelw, which may go to the workspace before, the
  # first.
  for name in ("MP_WORKING_DIRECTORY", "BUILD_WORKING_DIRECTORY"):
    if os.environ.get(name):
      return os.environ[name]
  return os.getcwd()


def check_function(flag: str, name: str) -> None:
  """Raises if a text is no module:function.

  Args:
    flag: The flag that has it.
    name: The text.

  Raises:
    FlagsError: If it is none.
  """
  module, colon, function = name.partition(":")
  if not (module and colon and function):
    raise FlagsError(
      f"--{flag}={name} is no module:function; write it like my_model:{flag}"
    )


def parse_params(text: str | None) -> dict[str, Any] | None:
  """Returns what --params says.

  Args:
    text: A JSON object; None for none.

  Raises:
    FlagsError: If it is no such object.
  """
  if text is None:
    return None
  try:
    value = json.loads(text)
  except json.JSONDecodeError as error:
    raise FlagsError(
      f'--params={text} is no JSON ({error}); write it like {{"units": 64}}'
    ) from error
  if not isinstance(value, dict):
    raise FlagsError(
      f'--params={text} is no JSON object; write it like {{"units": 64}}'
    )
  return value


def check_one_process(aggregation: str) -> None:
  """Raises if gradients are to be summed over processes.

  Args:
    aggregation: As in `ShardingConfig`.

  Raises:
    FlagsError: If it is "horovod".
  """
  if aggregation == "horovod":
    raise FlagsError(
      "--aggregation=horovod is for programs that horovodrun starts, and this "
      "command is one process; use a data axis, such as "
      "--mesh=data:2,stage:3, or see docs/horovod.md"
    )


class Group:
  """Defines flags, with validators, under a heading of the help."""

  def __init__(self, title: str, flag_values: flags.FlagValues):
    self._common: dict[str, Any] = {
      "flag_values": flag_values,
      "module_name": title,
    }

  def text(self, name: str, default: str | None, help_: str) -> None:
    """Defines a flag that is a text and not empty."""
    self._define(_TextParser(), name, default, help_)

  def boolean(self, name: str, default: bool, help_: str) -> None:
    """Defines a flag that is true or false."""
    flags.DEFINE_bool(name, default, help_, **self._common)

  def choice(
    self, name: str, values: tuple[str, ...], default: str, help_: str
  ) -> None:
    """Defines a flag that is one of some words."""
    full_help = f"{help_} One of: {', '.join(values)}."
    self._define(_ChoiceParser(values), name, default, full_help)

  def integer(
    self,
    name: str,
    default: int | None,
    minimum: int,
    help_: str,
    maximum: int | None = None,
  ) -> None:
    """Defines a flag that is a whole number in a range."""
    self._define(_IntegerParser(minimum, maximum), name, default, help_)

  def integers(self, name: str, default: str, minimum: int, help_: str) -> None:
    """Defines a flag that is whole numbers with commas between, or none.

    Its value is a tuple.
    """
    flags.DEFINE(
      _IntegersParser(minimum),
      name,
      default,
      help_,
      serializer=_IntegersSerializer(),
      **self._common,
    )

  def number(self, name: str, default: float, help_: str) -> None:
    """Defines a flag that is a positive number."""
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


class _IntegersParser(flags.ArgumentParser):
  def __init__(self, minimum):
    self._minimum = minimum

  def parse(self, argument):
    if isinstance(argument, tuple):
      return argument
    if argument.strip() == "none":
      return ()
    try:
      values = tuple(int(word) for word in argument.split(","))
    except ValueError as error:
      raise ValueError(
        f"is no list of whole numbers; {self._right()}"
      ) from error
    if min(values) < self._minimum:
      raise ValueError(f"is too small at {min(values)}; {self._right()}")
    return values

  def _right(self):
    return f"use such as 10,20 (each {self._minimum} or more), or none"


class _IntegersSerializer(flags.ArgumentSerializer):
  def serialize(self, value):
    return ",".join(map(str, value)) or "none"


class _PositiveNumberParser(flags.ArgumentParser):
  def parse(self, argument):
    try:
      value = float(argument)
    except ValueError as error:
      raise ValueError("is not a number; use one such as 0.001") from error
    if not (math.isfinite(value) and value > 0):
      raise ValueError("is not positive and finite; use one such as 0.001")
    return value
