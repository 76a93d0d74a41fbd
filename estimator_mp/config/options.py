"""Options: fields of a dataclass that flags, JSON, checks and help read.

A field made by `option` defines an option, and the attribute's text in the
docstring of the class is its help:

    num_micro_batches: int = option(1, minimum=1)

The annotation is its type: bool, int, float, str, `Bytes`, `tuple[str, ...]`,
`tuple[int, ...]`, each of them perhaps `| None`; `Any` is a text, or what JSON
makes of one, which the class checks itself. A float is positive.
"""

import dataclasses
import difflib
import functools
import inspect
import json
import math
import os
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar, cast

from estimator_mp import amounts, json_values

from absl import flags

# The heading of the flags of sharding in the help.
SHARDING = "Sharding"
# An amount of bytes: given as an integer or as text such as "256MiB", and held
# as an integer.
Bytes: TypeAlias = Annotated[Any, "bytes"]


class _Kind(typing.NamedTuple):
  """A type of an option.

  Attributes:
    words: The type in words.
    of: The types that a value may have in Python.
    read: Returns the value of a flag's text, or raises a ValueError.
    write: Returns the text of a value.
    fix: The fix of a wrong value; {range} stands for the option's range.
    part: The type of a tuple's entries; None if it is no tuple.
  """

  words: str
  of: tuple[type, ...]
  read: Callable[[str], Any]
  write: Callable[[Any], str] = str
  fix: str = "use {range}"
  part: type | None = None


def _read_integers(text: str) -> tuple[int, ...]:
  return () if text.strip() == "none" else tuple(map(int, text.split(",")))


def _read_texts(text: str) -> tuple[str, ...]:
  return tuple(x.strip() for x in text.split(",") if x.strip())


def _write_integers(values: Sequence[int]) -> str:
  return ",".join(map(str, values)) or "none"


_KINDS: Mapping[Any, _Kind] = {
  bool: _Kind(
    "true or false",
    (bool,),
    flags.BooleanParser().parse,
    lambda value: str(value).lower(),
    "use one of them",
  ),
  int: _Kind("an integer", (int,), int),
  float: _Kind("a number", (int, float), float, fix="use one such as 0.001"),
  str: _Kind("a string", (str,), str),
  Bytes: _Kind("an amount of bytes", (int, str), str, amounts.format_bytes),
  tuple[str, ...]: _Kind(
    "a list of strings", (tuple, list), _read_texts, ",".join, part=str
  ),
  tuple[int, ...]: _Kind(
    "a list of integers",
    (tuple, list),
    _read_integers,
    _write_integers,
    "use such as 10,20 (each {range}), or none",
    int,
  ),
}

_Options = TypeVar("_Options")


@dataclasses.dataclass(frozen=True)
class Option:
  """An option; `option` explains it.

  Attributes:
    default: Its default.
    minimum: The least that a number may be.
    maximum: The most that it may be; None for no limit.
    choices: The words that a text may be; empty if it may be any.
    group: The heading of its flag.
    is_path: Whether it is a path.
    kind: Its type; None if its class checks it.
    may_be_none: Whether it may be None.
    help: Its description.
  """

  default: Any
  minimum: int
  maximum: int | None
  choices: tuple[str, ...]
  group: str
  is_path: bool
  kind: _Kind | None = None
  may_be_none: bool = True
  help: str = ""

  def checked_value(self, value: Any) -> Any:
    """Returns a value as instances hold it.

    Args:
      value: The value, as a program gives it, or JSON.

    Raises:
      ValueError: If the option cannot have it. The message follows the value.
    """
    kind = self.kind
    if kind is None or (value is None and self.may_be_none):
      return value
    if not _is_a(value, kind.of, kind.part):
      or_none = " or None" if self.may_be_none else ""
      raise ValueError(f"has the wrong type; give {kind.words}{or_none}")
    if kind is _KINDS[Bytes] and isinstance(value, str):
      value = amounts.parse_bytes(value)
    if self.choices and value not in self.choices:
      raise ValueError(f"is not known; use one of {', '.join(self.choices)}")
    if kind is _KINDS[float] and not 0 < value < math.inf:
      raise ValueError(f"is not positive and finite; {self._fix}")
    numbers = value if kind.part else (value,)
    for number in numbers:
      which = f" at {number}" if kind.part else ""
      if isinstance(number, int) and number < self.minimum:
        raise ValueError(f"is too small{which}; {self._fix}")
      if self.maximum is not None and number > self.maximum:
        raise ValueError(f"is too large{which}; {self._fix}")
    return tuple(value) if kind.part else value

  @property
  def _fix(self) -> str:
    """The fix of a wrong value."""
    assert self.kind is not None
    end = "or more" if self.maximum is None else f"to {self.maximum}"
    return self.kind.fix.format(range=f"{self.minimum} {end}")

  def read(self, text: str) -> Any:
    """Returns the value of a flag's text.

    Args:
      text: The text.

    Raises:
      ValueError: If it has none. The message follows the text.
    """
    if self.kind is None:
      return _of_json(text)
    is_text = str in (self.kind.part, *self.kind.of)
    if is_text and not (text.strip() or self.choices):
      raise ValueError("is empty; give a value, or leave the flag out")
    try:
      return self.kind.read(text)
    except ValueError as error:
      raise ValueError(f"is not {self.kind.words}; {self._fix}") from error

  def text_of(self, value: Any) -> str:
    """Returns a value as a command line has it.

    Args:
      value: The value.
    """
    if self.kind is not None:
      return self.kind.write(value)
    return value if isinstance(value, str) else json.dumps(to_plain(value))


def _is_a(value: Any, of: tuple[type, ...], part: type | None) -> bool:
  # True is an int for Python, but not for people.
  is_one = isinstance(value, of) and isinstance(value, bool) == (bool in of)
  return is_one and (
    part is None or all(_is_a(x, (part,), None) for x in value)
  )


def _of_json(text: str) -> Any:
  """Returns the list or object of a JSON text; any other text as it is."""
  if text.lstrip()[:1] not in ("[", "{"):
    return text
  try:
    return json_values.parse(text)
  except json.JSONDecodeError as error:
    raise ValueError(
      f"is not valid JSON ({error}); put strings in double quotes and close "
      "all brackets"
    ) from error


def option(
  default: Any,
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
    minimum: The least that a number may be.
    choices: The words that a text may be; empty if it may be any.
    maximum: The most that a number may be; None for no limit.
    group: The heading of its flag in the help.
    is_path: Whether its flag is a path, which starts at the user's directory.
  """
  described = Option(default, minimum, maximum, tuple(choices), group, is_path)
  return dataclasses.field(default=default, metadata={"option": described})


class Group(str):
  """The heading of some flags in the help; called, it makes their options."""

  def __call__(self, *args: Any, **kwargs: Any) -> Any:
    """Returns an option of this group; see `option`."""
    return option(*args, group=self, **kwargs)


@functools.cache
def options_of(options: type) -> dict[str, Option]:
  """Returns the options of a dataclass by name; other fields are none.

  Args:
    options: The dataclass.
  """
  hints = typing.get_type_hints(options, include_extras=True)
  options_by_name = {}
  for field in dataclasses.fields(options):
    if "option" not in field.metadata:
      continue
    hint = hints[field.name]
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    kinds = typing.get_args(hint) if is_union else (hint,)
    options_by_name[field.name] = dataclasses.replace(
      field.metadata["option"],
      kind=_KINDS.get(kinds[0]),
      may_be_none=types.NoneType in kinds,
      help=_attributes(options).get(field.name, ""),
    )
  return options_by_name


def _attributes(options: type) -> dict[str, str]:
  """Returns the texts of attributes in docstrings of a class and its bases."""
  texts: dict[str, str] = {}
  for cls in reversed(options.__mro__):
    section = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")[2]
    section = section.partition("\n\nRaises:")[0]
    for entry in re.split(r"\n(?=  \w)|\n\n", section):
      name, _, text = entry.partition(":")
      texts[name.strip()] = " ".join(text.split())
  return texts


def names(options: type, but: Iterable[str] = ()) -> tuple[str, ...]:
  """Returns the names of a dataclass's options.

  Args:
    options: The dataclass.
    but: The names to leave out.
  """
  return tuple(name for name in options_of(options) if name not in but)


def check(instance: Any) -> None:
  """Raises if an option has a wrong type, or a value that it cannot have.

  Amounts of bytes that are text become integers.

  Args:
    instance: An instance of a dataclass of options.

  Raises:
    ValueError: With the name, the value and the fix.
  """
  kind: type = type(instance)
  for name, described in options_of(kind).items():
    value = getattr(instance, name)
    try:
      object.__setattr__(instance, name, described.checked_value(value))
    except ValueError as error:
      raise ValueError(f"{name}={value!r} {error}") from error


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


def parse_json(text: str) -> Any:
  """Returns the value of a JSON text.

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
    ValueError: If `only`, `choices` or `defaults` have a name of no option, or
      a word that the option cannot be.
  """
  check_names(
    options, dict.fromkeys(only or (), None) | dict(choices) | defaults
  )
  for name, described in options_of(options).items():
    if only is not None and name not in only:
      continue
    words = tuple(choices.get(name, described.choices))
    unknown = tuple(x for x in words if x not in described.choices)
    if unknown:
      raise ValueError(
        f"{name} cannot be {unknown}; it is one of "
        f"{', '.join(described.choices)}"
      )
    default = defaults.get(name, described.default)
    if not isinstance(default, str | None):
      default = described.text_of(default) or None
    help_ = described.help
    if words:
      help_ += f" One of: {', '.join(words)}."
    flags.DEFINE_flag(
      flags.Flag(
        _Parser(dataclasses.replace(described, choices=words)),
        _Serializer(described),
        name,
        default,
        help_,
        boolean=described.kind is _KINDS[bool],
      ),
      flag_values,
      module_name=described.group,
    )


class _Parser(flags.ArgumentParser):
  """Reads the text of a flag; absl's message puts the flag before its errors.

  Attributes:
    choices: The words that it may be; empty if it may be any.
  """

  def __init__(self, described: Option):
    self.choices = described.choices
    self._described = described

  def parse(self, argument: Any) -> Any:
    if isinstance(argument, str):
      argument = self._described.read(argument)
    return self._described.checked_value(argument)


class _Serializer(flags.ArgumentSerializer):
  """Writes a default as the command line has it."""

  def __init__(self, described: Option):
    self._described = described

  def serialize(self, value: Any) -> str:
    return self._described.text_of(value)


def from_flags(
  options: type[_Options], flag_values: flags.FlagValues, **others: Any
) -> _Options:
  """Returns the options that parsed flags describe.

  Args:
    options: The dataclass of options that `define_flags` was called with.
    flag_values: The flags, parsed.
    **others: The dataclass's fields that are no options.

  Raises:
    ValueError: If no flags were defined, or the dataclass raises it.
  """
  # A program may have a flag of its own with the name of an option.
  defined = {
    flag.name: title
    for title, of_title in flag_values.flags_by_module_dict().items()
    for flag in of_title
  }
  values, kind = {}, cast(type, options)
  for name, described in options_of(kind).items():
    if defined.get(name) == described.group:
      value = flag_values[name].value
      if value is None:
        continue
      is_file = described.kind is None and str(value).endswith(".json")
      is_path = isinstance(value, str) and (described.is_path or is_file)
      values[name] = absolute_path(value) if is_path else value
  if not values:
    raise ValueError(
      f"{options.__name__} has no flags here; call "
      "estimator_mp.define_sharding_flags() before the flags are parsed"
    )
  return options(**values, **others)


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
