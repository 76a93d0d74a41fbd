"""Common parts of all commands: flags, help and start.

The flags come first, then TensorFlow, without its log. A wrong flag is an error
of one line with its fix.
"""

import contextlib
import dataclasses
import difflib
import importlib
import logging
import os
import re
import signal
import sys
import tempfile
import textwrap
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from estimator_mp.cli import deliberate_errors
from estimator_mp.cluster import run_log
from estimator_mp.config import options as options_lib
from estimator_mp.config import sharding_options

from absl import flags
from absl.logging import converter

_Options = TypeVar("_Options")

BAD_USE = 2
PROGRAM_NAME = "estimator-mp"
DEBUG = "debug"
_FAILED = 1
_VERBOSITY = "verbosity"
_ERRORS = "Errors and logs"
_HELP_FLAGS = frozenset(["help", "helpshort", "h", "?"])
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# The beginning of lines that TensorFlow 2.21 writes before it reads the level.
_LOGGED = re.compile(rb"[IWE]\d{4} |WARNING: All log messages before absl")


class FlagsError(ValueError):
  """A flag is wrong; the one-line text says which value would be right."""


@dataclasses.dataclass(frozen=True)
class ShardedOptions(sharding_options.ShardingOptions):
  """Options of a command that shards a model in this process."""

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.aggregation == sharding_options.HOROVOD:
      raise FlagsError(
        "--aggregation=horovod is for programs that horovodrun starts, and this"
        " command is one process; use a data axis, such as "
        "--mesh=data:2,stage:3, or see docs/horovod.md"
      )


@dataclasses.dataclass(frozen=True)
class Command(Generic[_Options]):
  """A command: its options, and its help.

  Attributes:
    name: Its name.
    summary: A line that describes it.
    options: A dataclass of its options.
    groups: The headings of its flags, in order.
    module: The module whose `run_command` does it, by its whole name.
    without: The options that it has no use for.
    arguments: The words that follow the flags and --, if some may.
  """

  name: str
  summary: str
  options: type[_Options]
  groups: tuple[str, ...]
  module: str
  without: tuple[str, ...] = ()
  arguments: str = ""

  def define_flags(self, flag_values: flags.FlagValues) -> None:
    """Defines a flag for each option.

    Args:
      flag_values: Where to define them.
    """
    used = options_lib.names(self.options, self.without)
    options_lib.define_flags(self.options, flag_values, used)
    flags.DEFINE_bool(
      DEBUG,
      False,
      "Show the traceback of an error before its one-line message.",
      flag_values,
      module_name=_ERRORS,
    )
    flags.DEFINE_integer(
      _VERBOSITY,
      None,
      "Show TensorFlow's own log, too: -1 warnings, 0 information about the"
      " run, 1 debugging output.",
      flag_values=flag_values,
      module_name=_ERRORS,
      lower_bound=-2,
      upper_bound=1,
    )

  def options_of_flags(
    self, flag_values: flags.FlagValues, **given: Any
  ) -> _Options:
    """Returns the options that parsed flags mean.

    Args:
      flag_values: The flags, parsed.
      **given: The fields of the options that no flag gives.

    Raises:
      ValueError: If they do not fit together.
    """
    return options_lib.from_flags(self.options, flag_values, **given)

  def main(self, argv: list[str]) -> int:
    """Runs the command; TensorFlow is imported once its flags are right.

    Args:
      argv: The command and its arguments.

    Returns:
      The exit code: that of the module's `run_command`, or of `run_to_end`.
    """
    flag_values = flags.FlagValues()
    try:
      options = self.parse(argv, flag_values)
    except ValueError as error:
      return print_misuse(self.name, error)
    return run_to_end(
      self.name,
      lambda: self.run(options, flag_values[_VERBOSITY].value),
      flag_values[DEBUG].value,
    )

  def run(self, options: _Options, verbosity: int | None) -> int:
    """Imports the module, and TensorFlow with it, and runs its `run_command`.

    On a terminal it says so first.

    Args:
      options: The options of the command.
      verbosity: How much TensorFlow logs, as absl counts; None for nothing.

    Returns:
      The exit code.
    """
    logger = logging.getLogger("tensorflow")
    if sys.stderr.isatty():  # Importing it takes seconds.
      print(f"{self.name}: loading TensorFlow", file=sys.stderr)
    if verbosity is None:
      run_command = import_quietly(self.module).run_command
      # The errors that it logs are also raised.
      logger.setLevel(logging.FATAL)
      run_log.show_messages_only()
      if not sys.warnoptions:
        warnings.simplefilter("ignore")
    else:
      run_command = importlib.import_module(self.module).run_command
      logger.setLevel(converter.absl_to_standard(verbosity))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return int(run_command(options))

  def parse(
    self, argv: list[str], flag_values: flags.FlagValues | None = None
  ) -> _Options:
    """Defines and parses flags; prints the help and exits if it is asked for.

    Args:
      argv: The command and its arguments.
      flag_values: Where to define the flags; None for flags of its own, as the
        user's program may define the same names.

    Raises:
      ValueError: If a flag is unknown, or has a value that it cannot have, or
        they do not fit together.
    """
    if flag_values is None:
      flag_values = flags.FlagValues()
    self.define_flags(flag_values)
    given = {}
    if self.arguments:
      end = argv.index("--") if "--" in argv else len(argv)
      given["program"] = tuple(argv[end + 1 :])
      argv = argv[:end]
    if any(
      word.lstrip("-") in _HELP_FLAGS for word in argv[1:] if word[0:1] == "-"
    ):
      # Other flags, such as --model, may change the defaults in the help.
      others = [x for x in argv if x.lstrip("-") not in _HELP_FLAGS]
      with contextlib.suppress(flags.Error):
        flag_values(others, known_only=True)
      print(self.help(flag_values))
      sys.exit(0)
    try:
      words = flag_values(argv)
    except flags.UnrecognizedFlagError as error:
      name = error.flagname
      close = difflib.get_close_matches(name, list(flag_values), n=1)
      hint = f"did you mean --{close[0]}? " if close else ""
      raise FlagsError(
        f"--{name} is not a flag; {hint}--help lists the flags"
      ) from error
    except flags.Error as error:
      raise FlagsError(_wrong_value(str(error))) from error
    if len(words) > 1:
      after = self.arguments and f" and before -- {self.arguments}"
      raise FlagsError(
        f"unexpected argument {words[1]!r}; flags are written --name=value"
        f"{after}, --help explains them"
      )
    return self.options_of_flags(flag_values, **given)

  def help(self, flag_values: flags.FlagValues) -> str:
    """Returns the help: every flag with its default, by group.

    Args:
      flag_values: The flags.
    """
    usage = f"usage: {PROGRAM_NAME} {self.name} [--flag=value ...]"
    lines = [
      self.summary,
      "",
      usage + (self.arguments and f" -- {self.arguments}"),
    ]
    modules = flag_values.flags_by_module_dict()
    headings = [
      heading
      for group in (*self.groups, _ERRORS)
      for heading in modules
      if heading == group or heading.startswith(f"{group}: ")
    ]
    for heading in headings:
      lines += ["", f"{heading}:"]
      for flag in modules[heading]:
        default = (flag.default_as_str or "").replace("'", "")
        lines.append(f"  --{flag.name}{default and '='}{default}")
        lines += textwrap.wrap(
          flag.help, 78, initial_indent=" " * 6, subsequent_indent=" " * 6
        )
    return "\n".join(lines)


def _wrong_value(text: str) -> str:
  """Returns absl's text about a wrong value as one line with its fix."""
  subject, colon, reason = text.partition(": ")
  subject = subject.removeprefix("flag ")
  if reason.startswith("is "):  # It is of an option.
    return f"{subject} {reason}"
  words = " ".join(f"{subject}{colon}{reason}".split())
  return f"{words}; --help explains the flags"


def check_script(path: str) -> None:
  """Raises if there is no such script.

  Args:
    path: As the user gave it.

  Raises:
    FlagsError: If there is none.
  """
  if not os.path.isfile(options_lib.absolute_path(path)):
    raise FlagsError(
      f"there is no file {path} in {options_lib.user_directory()}; give the "
      "path of a program"
    )


def run_to_end(name: str, run: Callable[[], int], debug: bool = False) -> int:
  """Runs a command; the last line of its output is the error that ended it.

  Args:
    name: The command.
    run: Runs it, and returns its exit code.
    debug: Whether the traceback is shown, too.

  Returns:
    Its exit code; 2 if an option, or the file that it names, is wrong; 1 if
    the run failed.

  Raises:
    Exception: An error that is the program's own; see `failures`.
  """
  try:
    return run()
  except BrokenPipeError:
    raise  # Nobody reads the output any more.
  except Exception as error:
    # Now TensorFlow is there, or this is its first error.
    failures = import_quietly("estimator_mp.cli.failures")
    line = failures.error_line(error)
    if line is None:
      raise
    if debug:
      traceback.print_exc()
    is_use = isinstance(error, ValueError)
    return print_error(name, line, BAD_USE if is_use else _FAILED)


def print_misuse(name: str, error: ValueError) -> int:
  """Prints the error of the options in one line; returns the exit code.

  Args:
    name: The command.
    error: The exception that the options raised, as it was caught.

  Raises:
    ValueError: If it was not raised on purpose; see `deliberate_errors`.
  """
  if not deliberate_errors.is_deliberate(error):
    raise error
  return print_error(name, error)


def print_error(name: str, error: object, exit_code: int = BAD_USE) -> int:
  """Prints an error in one line; returns the exit code.

  Args:
    name: The command.
    error: The error, or its text.
    exit_code: The exit code.
  """
  print(f"{name}: " + " ".join(str(error).split()), file=sys.stderr)
  return exit_code


def import_quietly(module: str) -> types.ModuleType:
  """Imports a module that imports TensorFlow, and turns TensorFlow's log off.

  A user who has set the level of the log, in the environment, gets it.

  Args:
    module: The name of the module.
  """
  if _LOG_LEVEL in os.environ or "tensorflow" in sys.modules:
    return importlib.import_module(module)
  os.environ[_LOG_LEVEL] = "3"
  standard_error = os.dup(2)
  with tempfile.TemporaryFile() as log:
    os.dup2(log.fileno(), 2)
    try:
      return importlib.import_module(module)
    finally:
      os.dup2(standard_error, 2)
      os.close(standard_error)
      log.seek(0)
      for line in log:
        if not _LOGGED.match(line):
          os.write(2, line)
