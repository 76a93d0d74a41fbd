"""Options: fields of a dataclass that flags and JSON can give.

A field made by `option` carries what flags and checks have to know of it. So a
new option is one field of the dataclass, and nothing else:

    num_micro_batches: int = option(1, "Slices of a batch.", minimum=1)

The annotation is its type: bool, int, float, str, `tuple[str, ...]`, each of
them perhaps `| None`. A field with another annotation is checked by the
dataclass itself, which takes what JSON makes of it: lists, dicts and texts.
"""

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_mp.cli import command_flags

from absl import flags

# The heading of the flags in the help; it says which flags are options.
FLAGS_TITLE = "Sharding"
_TEXTS = tuple[str, ...]
_WORDS: Mapping[Any, str] = {
  bool: "true or false",
  int: "a whole number",
  float: "a number",
  str: "a text",
  _TEXTS: "a list of texts",
  types.NoneType: "None",
}


@dataclasses.dataclass(frozen=True)
class _Option:
  """What a field carries; `option` explains it."""

  help: str
  minimum: int
  choices: tuple[str, ...]


def option(
  default: Any,
  help_: str,
  minimum: int = 0,
  choices: Sequence[str] = (),
) -> Any:
  """Returns a field of a dataclass that is an option.

  Args:
    default: Its default.
    help_: What the help of flags says of it.
    minimum: The least that a number may be.
    choices: The words that a text may be; empty if it may be any.
  """
  described = _Option(help_, minimum, tuple(choices))
  return dataclasses.field(default=default, metadata={"option": described})


def check(instance: Any) -> None:
  """Raises if an option has a wrong type, or a value that it cannot have.

  Args:
    instance: An instance of a dataclass of options.

  Raises:
    ValueError: With the name, the value and what would be right.
  """
  for field, kinds in _kinds(type(instance)).items():
    value = getattr(instance, field.name)
    if all(kind in _WORDS for kind in kinds):
      _check_value(field, kinds, value)


def _check_value(
  field: dataclasses.Field, kinds: Sequence[Any], value: Any
) -> None:
  described: _Option = field.metadata["option"]
  text = f"{field.name}={value!r}"
  words = " or ".join(_WORDS[kind] for kind in kinds)
  if not any(_is_a(value, kind) for kind in kinds):
    raise ValueError(f"{text} has the wrong type; give {words}")
  if described.choices and value not in described.choices:
    raise ValueError(
      f"{text} is not known; use one of {', '.join(described.choices)}"
    )
  if isinstance(value, int | float) and value < described.minimum:
    raise ValueError(f"{text} is too small; use {described.minimum} or more")


def _is_a(value: Any, kind: Any) -> bool:
  if kind == _TEXTS:
    is_list = isinstance(value, tuple | list)
    return is_list and all(isinstance(x, str) for x in value)
  if kind is float:
    kind = int | float
  # True is an int for Python, but not for people.
  return isinstance(value, kind) and (
    kind is bool or not isinstance(value, bool)
  )


def _kinds(options: type) -> dict[dataclasses.Field, tuple[Any, ...]]:
  """Returns the types that each field's annotation joins."""
  hints = typing.get_type_hints(options)
  kinds = {}
  for field in dataclasses.fields(options):
    hint = hints[field.name]
    is_union = isinstance(hint, types.UnionType)
    kinds[field] = typing.get_args(hint) if is_union else (hint,)
  return kinds


def check_names(options: type, values: Any) -> None:
  """Raises if something is no dict whose keys are names of options.

  Args:
    options: A dataclass of options.
    values: What should be such a dict.

  Raises:
    ValueError: With the name, and those that are known.
  """
  if not isinstance(values, Mapping):
    raise ValueError(
      f"{options.__name__} cannot be made from {values!r}; give a dict such "
      'as {"mesh": "stage:2"}'
    )
  names = [field.name for field in dataclasses.fields(options)]
  for name, value in values.items():
    if name not in names:
      close = difflib.get_close_matches(str(name), names, n=1)
      hint = f"did you mean {close[0]!r}? its" if close else "its"
      raise ValueError(
        f"{options.__name__} has no field {name!r}, which is given as "
        f"{value!r}; {hint} fields are {', '.join(names)}"
      )


def parse_json(text: str) -> Any:
  """Returns what a JSON text says.

  Args:
    text: The text.

  Raises:
    ValueError: If it is no JSON; the message says where.
  """
  if not isinstance(text, str):
    raise ValueError(f"{text!r} is no text; give JSON as a text")
  try:
    return json.loads(text)
  except json.JSONDecodeError as error:
    raise ValueError(
      f"the text is no JSON ({error}); it begins with {text[:40]!r}"
    ) from error


def to_plain(value: Any) -> Any:
  """Returns a value as JSON can write it.

  Args:
    value: A number, a text, None, a sequence of such, or something that has
      `to_dict`.
  """
  if hasattr(value, "to_dict"):
    return value.to_dict()
  if isinstance(value, tuple | list):
    return [to_plain(x) for x in value]
  return value


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
  group = command_flags.Group(FLAGS_TITLE, flag_values)
  for field, kinds in _kinds(options).items():
    if only is None or field.name in only:
      default = defaults.get(field.name, field.default)
      described = _narrowed(field, choices)
      _define_flag(group, field.name, described, kinds, default)


def _narrowed(
  field: dataclasses.Field, choices: Mapping[str, Sequence[str]]
) -> _Option:
  """Returns what an option is, with the choices that a program gives it."""
  described: _Option = field.metadata["option"]
  words = tuple(choices.get(field.name, described.choices))
  unknown = tuple(word for word in words if word not in described.choices)
  if unknown:
    raise ValueError(
      f"{field.name} cannot be {unknown}; it is one of "
      f"{', '.join(described.choices)}"
    )
  return dataclasses.replace(described, choices=words)


def _define_flag(
  group: command_flags.Group,
  name: str,
  described: _Option,
  kinds: Sequence[Any],
  default: Any,
) -> None:
  if described.choices:
    group.choice(name, described.choices, default, described.help)
  elif bool in kinds:
    group.boolean(name, default, described.help)
  elif int in kinds:
    group.integer(name, default, described.minimum, described.help)
  elif float in kinds:
    group.number(name, default, described.help)
  elif _TEXTS in kinds:
    group.text(name, ",".join(default) or None, described.help)
  else:
    is_text = default is None or isinstance(default, str)
    text = default if is_text else json.dumps(to_plain(default))
    group.text(name, text, described.help)


def values_of_flags(
  options: type, flag_values: flags.FlagValues
) -> dict[str, Any]:
  """Returns what parsed flags say, by the options' names.

  Args:
    options: The dataclass of options that `define_flags` was called with.
    flag_values: The flags, parsed.

  Raises:
    ValueError: If no flags were defined, or one begins like JSON and is none.
  """
  defined = flag_values.flags_by_module_dict().get(FLAGS_TITLE, [])
  if not defined:
    raise ValueError(
      f"{options.__name__} has no flags here; call "
      "estimator_mp.define_sharding_flags() before the flags are parsed"
    )
  kinds = {field.name: kinds for field, kinds in _kinds(options).items()}
  return {
    flag.name: _value_of_flag(
      flag.name, kinds[flag.name], flag_values[flag.name].value
    )
    for flag in defined
  }


def _value_of_flag(name: str, kinds: Sequence[Any], value: Any) -> Any:
  """Returns the value of an option from that of its flag."""
  if _TEXTS in kinds:
    return tuple(x.strip() for x in (value or "").split(",") if x.strip())
  if not isinstance(value, str):
    return value
  if value.lstrip()[:1] in ("[", "{"):
    try:
      return json.loads(value)
    except json.JSONDecodeError as error:
      raise ValueError(
        f"--{name}={value} is no JSON ({error}); put texts in double quotes "
        "and close all brackets"
      ) from error
  if value.endswith(".json"):
    return command_flags.absolute_path(value)
  return value
