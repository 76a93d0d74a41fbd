"""Common parts of all commands: flags, help and start.

The flags come first, then TensorFlow, without its log. A wrong flag is an error
of one line that says what would be right.
"""

import contextlib
import dataclasses
import difflib
import importlib
import json
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
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from estimator_mp import json_values
from estimator_mp.cli import own_errors
from estimator_mp.config import options as options_lib
from estimator_mp.config import replica_options, sharding_options
from estimator_mp.distributed import fault_log

from absl import flags
from absl.logging import converter

_Options = TypeVar("_Options")

BAD_USE = 2
PROGRAM_NAME = "estimator-mp"
DEBUG = "debug"
_FAILED = 1
_VERBOSITY = "verbosity"
_ERRORS = "Errors and logs"
PROGRAM = options_lib.Group("Your program's TensorFlow")
PROGRAM_ARGUMENTS = "[-m] PROGRAM ARGS..."
_HELP_FLAGS = frozenset(["help", "helpshort", "h", "?"])
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# What TensorFlow 2.21 writes before it looks at the level.
_LOGGED = re.compile(rb"[IWE]\d{4} |WARNING: All log messages before absl")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProgramOptions:
  """The user's program, and which TensorFlow it sees; docs/tensorflow1.md.

  Attributes:
    program: A script or -m and a module, with its arguments; empty for none.
  """

  program: tuple[str, ...] = ()

  contrib: bool = PROGRAM(False, "Bring back tf.contrib for your program.")
  v1: bool = PROGRAM(
    False,
    "Give your program the tf of TensorFlow 1.15, with tf.contrib: for programs"
    " written for TensorFlow 1.",
  )
  v1_packages: str | None = PROGRAM(
    None,
    "With --v1: installed packages that belong to your program, such as "
    "bert,modeling.",
  )
  v2_control_flow: bool = PROGRAM(
    False, "With --v1: use TensorFlow 2's loops and conditions."
  )
  resource_variables: bool = PROGRAM(
    False, "With --v1: use TensorFlow 2's variables."
  )


class FlagsError(ValueError):
  """A flag is wrong; the one-line text says what would be right."""


@dataclasses.dataclass(frozen=True)
class Command(Generic[_Options]):
  """A command: its options, and its help.

  Attributes:
    name: Its name.
    summary: A line that describes it.
    options: A dataclass of its options; its field `sharding`, if it has one,
      has those of sharding.
    groups: The headings of its flags, in order.
    module: The module whose `run_command` does it, by its whole name.
    without: The options of sharding that it has no use for.
    defaults: Other defaults than options of sharding have, by their names.
    arguments: The words that follow the flags and --, if some may.
  """

  name: str
  summary: str
  options: type[_Options]
  groups: tuple[str, ...]
  module: str
  without: tuple[str, ...] = ()
  defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  arguments: str = ""

  @property
  def _has_sharding(self) -> bool:
    """Whether the command shards a model."""
    fields: Any = dataclasses.fields(self.options)  # type: ignore[arg-type]
    return any(field.name == "sharding" for field in fields)

  def define_flags(self, flag_values: flags.FlagValues) -> None:
    """Defines a flag for each option.

    Args:
      flag_values: Where to define them.
    """
    options_lib.define_flags(self.options, flag_values)
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
    if not self._has_sharding:
      return
    sharding = sharding_options.ShardingOptions
    used = options_lib.names(sharding, self.without)
    options_lib.define_flags(sharding, flag_values, used, **self.defaults)

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
    if not self._has_sharding:
      return options_lib.from_flags(self.options, flag_values, **given)
    sharding = options_lib.from_flags(
      sharding_options.ShardingOptions, flag_values
    )
    check_one_process(sharding.aggregation)
    return options_lib.from_flags(
      self.options, flag_values, sharding=sharding, **given
    )

  def main(self, argv: list[str]) -> int:
    """Runs the command; TensorFlow is imported once its flags are right.

    Args:
      argv: The command and its arguments.

    Returns:
      The exit code: that of the module's `run_command`, or of `ended`.
    """
    flag_values = flags.FlagValues()
    try:
      options = self.parse(argv, flag_values)
    except ValueError as error:
      return refuse(self.name, error)
    return ended(
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
      # What it logs as an error it also raises.
      logger.setLevel(logging.FATAL)
      fault_log.show_messages_only()
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
      # What else is said may decide what the help says.
      others = [x for x in argv if x.lstrip("-") not in _HELP_FLAGS]
      with contextlib.suppress(flags.Error):
        flag_values(others, known_only=True)
      print(self.help(flag_values))
      sys.exit(0)
    try:
      rest = flag_values(argv)
    except flags.UnrecognizedFlagError as error:
      name = error.flagname
      close = difflib.get_close_matches(name, list(flag_values), n=1)
      hint = f"did you mean --{close[0]}? " if close else ""
      raise FlagsError(
        f"--{name} is not a flag; {hint}--help lists the flags"
      ) from error
    except flags.Error as error:
      raise FlagsError(_wrong_value(str(error))) from error
    if len(rest) > 1:
      after = self.arguments and f" and before -- {self.arguments}"
      raise FlagsError(
        f"unexpected argument {rest[1]!r}; flags are written --name=value"
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
        default = "" if flag.default is None else f"={flag.default_as_str}"
        lines.append(f"  --{flag.name}{default}".replace("'", ""))
        lines += textwrap.wrap(
          flag.help, 78, initial_indent=" " * 6, subsequent_indent=" " * 6
        )
    return "\n".join(lines)


def _wrong_value(text: str) -> str:
  """Returns absl's text about a value as one line that says what is right."""
  subject, colon, reason = text.partition(": ")
  subject = subject.removeprefix("flag ")
  if reason.startswith("is "):  # It is of an option.
    return f"{subject} {reason}"
  words = " ".join(f"{subject}{colon}{reason}".split())
  return f"{words}; --help explains the flags"


def check_program(
  options: Any, needed: str, example: str, *others: str
) -> None:
  """Raises if what options say of a user's model does not fit together.

  Args:
    options: The options, with a model_fn, or None for a model of this project.
    needed: The flag that a model_fn needs besides.
    example: The meaning of that flag, and how it is written.
    *others: Other flags that are of a model_fn only.

  Raises:
    FlagsError: If it does not.
  """
  for name in ("v1_packages", "v2_control_flow", "resource_variables"):
    if getattr(options, name) and not options.v1:
      raise FlagsError(
        f"--{name} is for programs of TensorFlow 1; give --v1, too"
      )
  of_model_fn = (needed, *others, "params")
  if options.program:
    for name in ("model_fn", *of_model_fn):
      if getattr(options, name) is not None:
        raise FlagsError(
          f"--{name} is given beside the program {options.program[0]}, which "
          "sets that itself; leave one of them out"
        )
    if options.program == ("-m",):
      raise FlagsError("-m is given without a module; write one after it")
    if options.program[0] != "-m":
      check_script(options.program[0])
    return
  if options.model_fn is None:
    for name in (*of_model_fn, "contrib", "v1"):
      if getattr(options, name) not in (None, False):
        raise FlagsError(
          f"--{name} is given without --model_fn; give the model, such as "
          "--model_fn=my_model:model_fn, or -- and your program"
        )
    return
  if getattr(options, needed) is None:
    raise FlagsError(
      f"--model_fn={options.model_fn} needs --{needed}: {example}"
    )
  check_function("model_fn", options.model_fn)
  parse_params(options.params)


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
      f"--{flag}={name} is not module:function; write it like my_model:{flag}"
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
    value = json_values.parse(text)
  except json.JSONDecodeError as error:
    raise FlagsError(
      f'--params={text} is not valid JSON ({error}); write it like {{"units": '
      "64}"
    ) from error
  if not isinstance(value, dict):
    raise FlagsError(
      f'--params={text} is not a JSON object; write it like {{"units": 64}}'
    )
  return value


def check_one_process(aggregation: str) -> None:
  """Raises if gradients are to be summed over processes.

  Args:
    aggregation: As in `ShardingConfig`.

  Raises:
    FlagsError: If they are.
  """
  if aggregation == replica_options.HOROVOD:
    raise FlagsError(
      "--aggregation=horovod is for programs that horovodrun starts, and this "
      "command is one process; use a data axis, such as "
      "--mesh=data:2,stage:3, or see docs/horovod.md"
    )


def ended(name: str, run: Callable[[], int], debug: bool = False) -> int:
  """Runs a command to its end; says what ended it in one line, the last one.

  Args:
    name: The command.
    run: Runs it, and returns its exit code.
    debug: Whether the traceback is shown, too.

  Returns:
    Its exit code; 2 if an option, or what it names, is wrong; 1 if the run
    failed.

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
    line = failures.line_of(error)
    if line is None:
      raise
    if debug:
      traceback.print_exc()
    is_use = isinstance(error, ValueError)
    return complain(name, line, BAD_USE if is_use else _FAILED)


def refuse(name: str, error: ValueError) -> int:
  """Says in one line what is wrong with the options; returns the exit code.

  Args:
    name: The command.
    error: The exception that was raised of them, as it was caught.

  Raises:
    ValueError: If it was not raised on purpose; see `own_errors`.
  """
  if not own_errors.is_deliberate(error):
    raise error
  return complain(name, error)


def complain(name: str, error: object, exit_code: int = BAD_USE) -> int:
  """Prints what is wrong in one line; returns the exit code.

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
  with tempfile.TemporaryFile() as written:
    os.dup2(written.fileno(), 2)
    try:
      return importlib.import_module(module)
    finally:
      os.dup2(standard_error, 2)
      os.close(standard_error)
      written.seek(0)
      for line in written:
        if not _LOGGED.match(line):
          os.write(2, line)
