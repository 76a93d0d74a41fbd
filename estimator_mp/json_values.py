"""Values of JSON: texts that others wrote, and the types that they have to be.

`parse` reads a text, `load` makes a dataclass of it, and `dump` goes the other
way around: a schema is the type hints of the class, and nothing else.
Of several classes that a value may have, it names its own as "kind".
"""

import dataclasses
import enum
import inspect
import json
import types
import typing
from collections.abc import Mapping
from typing import Any


def parse(text: str | bytes) -> Any:
  """Returns the value of a JSON text.

  Args:
    text: The text.

  Raises:
    json.JSONDecodeError: If it is no JSON, or none that Python can read.
    UnicodeDecodeError: If it is no text.
  """
  try:
    return json.loads(text)
  except RecursionError as error:
    reason = "its brackets are nested too deeply"
    raise json.JSONDecodeError(reason, str(text), 0) from error
  except (json.JSONDecodeError, UnicodeDecodeError):
    raise
  except ValueError as error:  # A number of too many digits.
    raise json.JSONDecodeError(str(error), str(text), 0) from error


def load(kind: Any, value: Any, name: str = "it") -> Any:
  """Returns a value of JSON as a type.

  Args:
    kind: A dataclass, or a named tuple, whose fields are such types, and may be
      missing if they have a default; a union of these, with None or not;
      `Mapping[str, T]`; `tuple[T, ...]` or `tuple[S, T]`; an enumeration; a
      class with `from_json`; int, float, str or bool.
    value: The value.
    name: Its name in messages.

  Raises:
    ValueError: If the value is not of the type; the message says where.
  """
  origin, arguments = typing.get_origin(kind), typing.get_args(kind)
  if origin in (types.UnionType, typing.Union):
    return _load_as_some(arguments, value, name)
  if origin is tuple:
    _check(isinstance(value, list), name, value, "list")
    types_ = _entry_types(arguments, len(value))
    _check(len(types_) == len(value), name, value, f"list of {len(types_)}")
    return tuple(
      load(x, y, f"{name}[{i}]")
      for i, (x, y) in enumerate(zip(types_, value, strict=True))
    )
  if origin in (Mapping, dict):
    _check(isinstance(value, dict), name, value, "object")
    return {x: load(arguments[1], y, f"{name}.{x}") for x, y in value.items()}
  if _has_fields(kind):
    _check(isinstance(value, dict), name, value, "object")
    hints = typing.get_type_hints(kind)
    missing = [x for x in hints if x not in value and not _has_default(kind, x)]
    if missing:
      raise ValueError(f"{name} has no {missing[0]!r}")
    return kind(
      **{
        x: load(y, value[x], f"{name}.{x}")
        for x, y in hints.items()
        if x in value
      }
    )
  if hasattr(kind, "from_json"):
    try:
      return kind.from_json(value)
    except ValueError as error:
      raise ValueError(f"{name}: {error}") from error
  if issubclass(kind, enum.Enum):
    is_one = isinstance(value, str) and value in kind.__members__
    _check(is_one, name, value, f"any of {', '.join(kind.__members__)}")
    return kind[value]
  if kind is float and type(value) is int:
    return float(value)
  _check(type(value) is kind, name, value, kind.__name__)
  return value


def dump(kind: Any, value: Any) -> Any:
  """Returns a value as one of JSON, of which `load` makes it again.

  Args:
    kind: Its type, as for `load`.
    value: The value.
  """
  origin, arguments = typing.get_origin(kind), typing.get_args(kind)
  if origin in (types.UnionType, typing.Union):
    if value is None:
      return None
    kind = type(value)
    as_json = dump(kind, value)
    is_tagged = _is_tagged(kind, arguments)
    return {"kind": kind.__name__} | as_json if is_tagged else as_json
  if origin is tuple:
    types_ = _entry_types(arguments, len(value))
    return [dump(x, y) for x, y in zip(types_, value, strict=True)]
  if origin in (Mapping, dict):
    return {str(x): dump(arguments[1], y) for x, y in value.items()}
  if _has_fields(kind):
    hints = typing.get_type_hints(kind)
    return {x: dump(y, getattr(value, x)) for x, y in hints.items()}
  if hasattr(kind, "from_json"):
    return value.to_json()
  return value.name if isinstance(value, enum.Enum) else value


def _load_as_some(kinds: tuple[Any, ...], value: Any, name: str) -> Any:
  """Returns a value of JSON as one of several types."""
  kinds = tuple(x for x in kinds if x is not types.NoneType or value is None)
  if value is None and types.NoneType in kinds:
    return None
  named = [x for x in kinds if _is_tagged(x, kinds)]
  if named and isinstance(value, dict):
    chosen = [x for x in named if x.__name__ == value.get("kind")]
    names = ", ".join(x.__name__ for x in named)
    _check(bool(chosen), f"{name}.kind", value.get("kind"), f"any of {names}")
    return load(chosen[0], value, name)
  fitting = [x for x in kinds if type(value) is x]
  return load(fitting[0] if fitting else kinds[-1], value, name)


def _is_tagged(kind: Any, kinds: tuple[Any, ...]) -> bool:
  """Whether a value of a type says that it is of that, and not of others."""
  return _has_fields(kind) and sum(map(_has_fields, kinds)) > 1


def _has_fields(kind: Any) -> bool:
  return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


def _has_default(kind: Any, name: str) -> bool:
  """Whether a field has a default."""
  default = inspect.signature(kind).parameters[name].default
  return default is not inspect.Parameter.empty


def _entry_types(arguments: tuple[Any, ...], count: int) -> tuple[Any, ...]:
  """Returns the types of the entries of a tuple."""
  is_any_number = len(arguments) == 2 and arguments[1] is Ellipsis
  return arguments[:1] * count if is_any_number else arguments


def _check(is_right: bool, name: str, value: Any, kind: str) -> None:
  """Raises if a value has the wrong type."""
  if not is_right:
    text = repr(value)
    text = text if len(text) <= 40 else f"{text[:37]}..."
    raise ValueError(f"{name} is {text}, which is not of type {kind}")
