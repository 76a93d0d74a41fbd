"""Options: fields of a dataclass that flags, dicts and JSON can give.

A field made by `option` carries what flags and checks have to know of it. So a
new option is one field of the dataclass, and nothing else:

    num_micro_batches: int = option(1, "Slices of a batch.", minimum=1)

The annotation is its type: bool, int, float, str, `Bytes`, `tuple[str, ...]`,
`tuple[int, ...]`, each of them perhaps `| None`. A field with another
annotation is checked by the dataclass itself, which takes what JSON makes of
it: lists, dicts and texts.
"""

import dataclasses
import difflib
import json
import math
import os
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

from estimator_mp import amounts, json_values

from absl import flags

# The heading of the flags of sharding in the help.
SHARDING = "Sharding"
# An amount of bytes: given as an integer or as text such as "256MiB", and held
# as an integer.
Bytes: TypeAlias = Annotated[Any, "bytes"]
_TEXTS = tuple[str, ...]
_INTEGERS = tuple[int, ...]
_WORDS: Mapping[Any, str] = {
  bool: "true or false",
  int: "an integer",
  float: "a number",
  str: "a string",
  Bytes: "an amount of bytes",
  _TEXTS: "a list of strings",
  _INTEGERS: "a list of integers",
  types.NoneType: "None",
}

_Options = TypeVar("_Options")


@dataclasses.dataclass(frozen=True)
class _Option:
  """The metadata of a field; `option` explains it.

  Attributes:
    kinds: The types that the field's annotation joins.
  """

  default: Any
  help: str
  minimum: int
  maximum: int | None
  choices: tuple[str, ...]
  group: str
  is_path: bool
  kinds: tuple[Any, ...] = ()

  @property
  def is_known(self) -> bool:
    """Whether its annotation says all; else the dataclass checks it itself."""
    return all(kind in _WORDS for kind in self.kinds)


def option(
  default: Any,
  help_: str,
  minimum: int = 0,
  choices: Sequence[str] = (),
  *,
  maximum: int | None = None,
  group: str = SHARDING,
  is_path: bool = False,
) -> Any:
  """Returns a field of a dataclass that is an option.

  Args:
    default: Its default.
    help_: Its description in the help of flags.
    minimum: The least that a number may be.
    choices: The words that a text may be; empty if it may be any.
    maximum: The most that a number may be; None for no limit.
    group: The heading of its flag in the help.
    is_path: Whether its flag is a path, which starts at the user's directory.
  """
  described = _Option(
    default, help_, minimum, maximum, tuple(choices), group, is_path
  )
  return dataclasses.field(default=default, metadata={"option": described})


class Group(str):
  """The heading of some flags in the help; called, it makes their options."""

  def __call__(self, *args: Any, **kwargs: Any) -> Any:
    """Returns what `option` returns, with this group."""
    return option(*args, group=self, **kwargs)


def joined_attributes(groups: Sequence[type]) -> str:
  """Returns the attributes that docstrings of dataclasses have, by group.

  Args:
    groups: The dataclasses.
  """
  found = []
  for group in groups:
    summary, _, rest = (group.__doc__ or "").partition("\n")
    _, _, attributes = rest.partition("Attributes:\n")
    found.append(f"  {summary}\n\n  Attributes:\n{attributes.rstrip()}\n")
  return "\n".join(found)


def _fields(options: type) -> dict[str, _Option]:
  """Returns the options of a dataclass by name; other fields are none."""
  hints = typing.get_type_hints(options, include_extras=True)
  found = {}
  for field in dataclasses.fields(options):
    if "option" in field.metadata:
      hint = hints[field.name]
      is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
      kinds = typing.get_args(hint) if is_union else (hint,)
      described = field.metadata["option"]
      found[field.name] = dataclasses.replace(described, kinds=kinds)
  return found


def names(options: type, but: Sequence[str] = ()) -> tuple[str, ...]:
  """Returns the names of a dataclass's options.

  Args:
    options: The dataclass.
    but: The names to leave out.
  """
  return tuple(name for name in _fields(options) if name not in but)


def check(instance: Any) -> None:
  """Raises if an option has a wrong type, or a value that it cannot have.

  Amounts of bytes that are text become integers.

  Args:
    instance: An instance of a dataclass of options.

  Raises:
    ValueError: With the name, the value and what would be right.
  """
  for name, described in _fields(type(instance)).items():
    value = getattr(instance, name)
    if described.is_known:
      if not any(_is_a(value, kind) for kind in described.kinds):
        words = " or ".join(_WORDS[kind] for kind in described.kinds)
        raise ValueError(f"{name}={value!r} has the wrong type; give {words}")
      try:
        object.__setattr__(instance, name, _held(described, value))
      except ValueError as error:
        raise ValueError(f"{name}={value!r} {error}") from error


def _is_a(value: Any, kind: Any) -> bool:
  if typing.get_origin(kind) is tuple:
    (part, _) = typing.get_args(kind)
    is_list = isinstance(value, tuple | list)
    return is_list and all(_is_a(x, part) for x in value)
  if kind is float:
    kind = int | float
  if kind == Bytes:
    kind = int | str
  # True is an int for Python, but not for people.
  return isinstance(value, kind) and (
    kind is bool or not isinstance(value, bool)
  )


def _held(described: _Option, value: Any) -> Any:
  """Returns a value of the right type as the option holds it.

  Raises:
    ValueError: If the option cannot have it. The message follows the value.
  """
  if Bytes in described.kinds and isinstance(value, str):
    value = amounts.parse_bytes(value)
  problem = _problem(described, value)
  if problem:
    raise ValueError(problem)
  return value


def _problem(described: _Option, value: Any) -> str | None:
  """Returns what is wrong with a value of the right type, and what is right."""
  if described.choices and value not in described.choices:
    return f"is not known; use one of {', '.join(described.choices)}"
  numbers = value if isinstance(value, tuple | list) else (value,)
  for number in numbers:
    if isinstance(number, int | float):
      which = f" at {number}" if numbers is value else ""
      if number < described.minimum:
        return f"is too small{which}; {_range(described, value)}"
      if described.maximum is not None and number > described.maximum:
        return f"is too large{which}; {_range(described, value)}"
  return None


def _range(described: _Option, value: Any) -> str:
  if isinstance(value, tuple):
    return f"use such as 10,20 (each {described.minimum} or more), or none"
  if described.maximum is None:
    return f"use {described.minimum} or more"
  return f"use {described.minimum} to {described.maximum}"


def check_names(options: type, values: Any) -> None:
  """Raises if something is no dict whose keys are names of options.

  Args:
    options: A dataclass of options.
    values: The value to check.

  Raises:
    ValueError: With the name, and those that are known.
  """
  if not isinstance(values, Mapping):
    raise ValueError(
      f"{options.__name__} cannot be made from {values!r}; give a dict such "
      'as {"mesh": "stage:2"}'
    )
  known = names(options)
  for name, value in values.items():
    if name not in known:
      close = difflib.get_close_matches(str(name), known, n=1)
      hint = f"did you mean {close[0]!r}? its" if close else "its"
      raise ValueError(
        f"{options.__name__} has no field {name!r}, which is given as "
        f"{value!r}; {hint} fields are {', '.join(known)}"
      )


def checked_pairs(
  name: str,
  pairs: Any,
  is_right: Callable[[Any], bool],
  what: str,
  example: str,
) -> tuple[tuple[str, Any], ...]:
  """Returns pairs of an expression and something as tuples, if they are right.

  Args:
    name: The option.
    pairs: Its value.
    is_right: Whether something is right in the second place.
    what: A description of such things, for the message.
    example: A pair.

  Raises:
    ValueError: If a pair is none, or its expression is malformed.
  """
  for pair in pairs:
    is_pair = isinstance(pair, list | tuple) and len(pair) == 2
    if not (is_pair and isinstance(pair[0], str) and is_right(pair[1])):
      raise ValueError(
        f"{name} has {pair!r}, which is not a pair of an expression and "
        f"{what}; write pairs such as {example}"
      )
    _check_expression(name, pair[0])
  return tuple((expression, other) for expression, other in pairs)


def checked_expressions(name: str, expressions: Any) -> tuple[str, ...]:
  """Returns regular expressions as a tuple, if they are right.

  Args:
    name: The option.
    expressions: Its value.

  Raises:
    ValueError: If one is malformed.
  """
  for expression in expressions:
    _check_expression(name, expression)
  return tuple(expressions)


def _check_expression(name: str, expression: str) -> None:
  """Raises if an expression is malformed."""
  try:
    re.compile(expression)
  except re.error as error:
    raise ValueError(
      f"{name} has {expression!r}, which is not a valid regular expression: "
      f"{error}"
    ) from error


def parse_json(text: str) -> Any:
  """Returns what a JSON text says.

  Args:
    text: The text.

  Raises:
    ValueError: If it is no JSON; the message says where.
  """
  if not isinstance(text, str):
    raise ValueError(f"{text!r} is not a string; give JSON as a string")
  try:
    return json_values.parse(text)
  except json.JSONDecodeError as error:
    raise ValueError(
      f"the text is not valid JSON ({error}); it begins with {text[:40]!r}"
    ) from error


def to_plain(value: Any) -> Any:
  """Returns a value as JSON can write it.

  Args:
    value: A number, a text, None, something that has `to_dict`, a dataclass; or
      a sequence, or a mapping from names, of such.
  """
  if hasattr(value, "to_dict"):
    return value.to_dict()
  if dataclasses.is_dataclass(value):
    return fields_to_plain(value)
  if isinstance(value, Mapping):
    return {name: to_plain(x) for name, x in value.items()}
  if isinstance(value, tuple | list):
    return [to_plain(x) for x in value]
  return value


def fields_to_plain(instance: Any) -> dict[str, Any]:
  """Returns the fields of a dataclass by name, as JSON can write them.

  Args:
    instance: An instance of it.
  """
  return {
    field.name: to_plain(getattr(instance, field.name))
    for field in dataclasses.fields(instance)
  }


def define_flags(
  options: type,
  flag_values: flags.FlagValues,
  only: Sequence[str] | None = None,
  choices: Mapping[str, Sequence[str]] = types.MappingProxyType({}),
  **defaults: Any,
) -> None:
  """Defines a flag for each option.

  Args:
    options: A dataclass of options.
    flag_values: Where to define them.
    only: The names of those to define; None for all.
    choices: Fewer words than an option may be, by its name.
    **defaults: Other defaults than the dataclass has.

  Raises:
    ValueError: If `only`, `choices` or `defaults` name what is no option, or
      a word that the option cannot be.
  """
  check_names(
    options, dict.fromkeys(only or (), None) | dict(choices) | defaults
  )
  for name, described in _fields(options).items():
    if only is None or name in only:
      words = tuple(choices.get(name, described.choices))
      unknown = tuple(x for x in words if x not in described.choices)
      if unknown:
        raise ValueError(
          f"{name} cannot be {unknown}; it is one of "
          f"{', '.join(described.choices)}"
        )
      default = defaults.get(name, described.default)
      narrowed = dataclasses.replace(described, choices=words, default=default)
      flags.DEFINE_flag(
        _flag(name, narrowed), flag_values, module_name=described.group
      )


def _flag(name: str, described: _Option) -> flags.Flag:
  help_, default = described.help, described.default
  if described.choices:
    help_ = f"{help_} One of: {', '.join(described.choices)}."
  if Bytes in described.kinds:
    help_ = f"{help_} An integer, or such as 500MB or 256MiB."
  if _TEXTS in described.kinds:
    default = ",".join(default) or None
  elif not described.is_known and not isinstance(default, str | None):
    default = json.dumps(to_plain(default))
  return flags.Flag(
    _Parser(described),
    _Serializer(described),
    name,
    default,
    help_,
    boolean=bool in described.kinds,
  )


class _Parser(flags.ArgumentParser):
  """Reads what follows a flag's name; its errors follow the flag there.

  Attributes:
    choices: The words that it may be; empty if it may be any.
  """

  def __init__(self, described: _Option):
    self.choices = described.choices
    self._described = described
    self._kinds = described.kinds

  def parse(self, argument: Any) -> Any:
    value = self._read(argument) if isinstance(argument, str) else argument
    return _held(self._described, value)

  def _read(self, argument: str) -> Any:
    if bool in self._kinds:
      try:
        return flags.BooleanParser().parse(argument)
      except ValueError as error:
        raise ValueError(
          "is neither true nor false; use one of them"
        ) from error
    if float in self._kinds:
      return _positive_number(argument)
    if int in self._kinds or _INTEGERS in self._kinds:
      return self._whole(argument)
    if not argument.strip() and not self._described.choices:
      raise ValueError("is empty; give a value, or leave the flag out")
    return argument

  def _whole(self, argument: str) -> int | tuple[int, ...]:
    is_list = _INTEGERS in self._kinds
    if is_list and argument.strip() == "none":
      return ()
    try:
      return tuple(map(int, argument.split(","))) if is_list else int(argument)
    except ValueError as error:
      what = "not a list of integers" if is_list else "not an integer"
      right = _range(self._described, () if is_list else 0)
      raise ValueError(f"is {what}; {right}") from error


def _positive_number(argument: str) -> float:
  try:
    value = float(argument)
  except ValueError as error:
    raise ValueError("is not a number; use one such as 0.001") from error
  if not (math.isfinite(value) and value > 0):
    raise ValueError("is not positive and finite; use one such as 0.001")
  return value


class _Serializer(flags.ArgumentSerializer):
  """Writes a default as the command line has it."""

  def __init__(self, described: _Option):
    self._kinds = described.kinds

  def serialize(self, value: Any) -> str:
    if Bytes in self._kinds:
      return amounts.format_bytes(value)
    if isinstance(value, tuple):
      return ",".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def from_flags(
  options: type[_Options], flag_values: flags.FlagValues, **others: Any
) -> _Options:
  """Returns the options that parsed flags describe.

  Args:
    options: The dataclass of options that `define_flags` was called with.
    flag_values: The flags, parsed.
    **others: The dataclass's fields that are no options.

  Raises:
    ValueError: If no flags were defined, one begins like JSON and is none, or
      the dataclass raises it.
  """
  # A program may have a flag of its own with the name of an option.
  defined = {
    flag.name: title
    for title, of_title in flag_values.flags_by_module_dict().items()
    for flag in of_title
  }
  values = {
    name: _value_of_flag(name, described, flag_values[name].value)
    for name, described in _fields(options).items()
    if defined.get(name) == described.group
  }
  if not values:
    raise ValueError(
      f"{options.__name__} has no flags here; call "
      "estimator_mp.define_sharding_flags() before the flags are parsed"
    )
  return options(**values, **others)


def _value_of_flag(name: str, described: _Option, value: Any) -> Any:
  """Returns the value of an option from that of its flag."""
  if _TEXTS in described.kinds:
    return tuple(x.strip() for x in (value or "").split(",") if x.strip())
  if described.is_path and value is not None:
    return absolute_path(value)
  if described.is_known or not isinstance(value, str):
    return value
  if value.lstrip()[:1] in ("[", "{"):
    try:
      return json_values.parse(value)
    except json.JSONDecodeError as error:
      raise ValueError(
        f"--{name}={value} is not valid JSON ({error}); put strings in double "
        "quotes and close all brackets"
      ) from error
  return absolute_path(value) if value.endswith(".json") else value


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
