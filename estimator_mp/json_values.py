"""Values of JSON: texts that others wrote, and the types that they have to be.

`parse` reads a text, `made` makes of it what a dataclass says: a schema is the
type hints of the class, and nothing else.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from typing import Any


def parse(text: str | bytes) -> Any:
  """Returns what a JSON text says.

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


def made(kind: Any, value: Any, name: str = "it") -> Any:
  """Returns a value of JSON as a type.

  Args:
    kind: A dataclass whose fields are such types; `Mapping[str, T]`; `tuple[T,
      ...]`; `T | None`; int, float, str or bool.
    value: The value.
    name: Its name in messages.

  Raises:
    ValueError: If the value is not of the type; the message says where.
  """
  origin, arguments = typing.get_origin(kind), typing.get_args(kind)
  if origin is types.UnionType:
    return None if value is None else made(arguments[0], value, name)
  if origin is tuple:
    _check(isinstance(value, list), name, value, "list")
    return tuple(
      made(arguments[0], x, f"{name}[{i}]") for i, x in enumerate(value)
    )
  if origin in (Mapping, dict):
    _check(isinstance(value, dict), name, value, "object")
    return {x: made(arguments[1], y, f"{name}.{x}") for x, y in value.items()}
  if dataclasses.is_dataclass(kind):
    _check(isinstance(value, dict), name, value, "object")
    hints = typing.get_type_hints(kind)
    missing = [x for x in hints if x not in value]
    if missing:
      raise ValueError(f"{name} has no {missing[0]!r}")
    fields = {x: made(y, value[x], f"{name}.{x}") for x, y in hints.items()}
    return typing.cast(Any, kind)(**fields)
  if kind is float and type(value) is int:
    return float(value)
  _check(type(value) is kind, name, value, kind.__name__)
  return value


def _check(is_right: bool, name: str, value: Any, kind: str) -> None:
  """Raises if a value has the wrong type."""
  if not is_right:
    text = repr(value)
    text = text if len(text) <= 40 else f"{text[:37]}..."
    raise ValueError(f"{name} is {text}, which is not of type {kind}")
