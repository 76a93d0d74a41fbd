"""Names of tf.contrib.training."""

import json
import re
from collections.abc import Mapping
from typing import Any

from compat.contrib import absent

import tensorflow as tf

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

get_or_create_global_step = tf.compat.v1.train.get_or_create_global_step

_ASSIGNMENT = re.compile(
  r"\s*(?P<name>[A-Za-z_][\w.]*)\s*(?:\[(?P<index>\d+)\])?\s*=\s*"
  r"(?:\[(?P<list>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,|$)"
)
_BOOLEANS = {"true": True, "True": True, "1": True} | {
  "false": False,
  "False": False,
  "0": False,
}


class HParams:
  """Named hyperparameters, each of the type of its first value.

  Values are read and set as attributes: `HParams(depth=3).depth`.
  """

  def __init__(self, **values: Any):
    """Makes hyperparameters with their first values.

    Args:
      **values: numbers, strings, booleans, lists of these, or None.
    """
    self._types: dict[str, tuple[type | None, bool]] = {}
    for name, value in values.items():
      self.add_hparam(name, value)

  def add_hparam(self, name: str, value: Any) -> None:
    """Adds one hyperparameter.

    Args:
      name: must not be taken, by an attribute or another hyperparameter.
      value: the first value; its type stays. A list needs an element.

    Raises:
      ValueError: if the name is taken or the list empty.
    """
    if hasattr(self, name):
      raise ValueError(f"the hyperparameter {name!r} exists, or is reserved.")
    if isinstance(value, (list, tuple)):
      if not value:
        raise ValueError(
          f"the hyperparameter {name!r} is an empty list, of no known type; "
          "give it an element."
        )
      self._types[name] = (type(value[0]), True)
      value = list(value)
    else:
      self._types[name] = (None if value is None else type(value), False)
    setattr(self, name, value)

  def set_hparam(self, name: str, value: Any) -> None:
    """Sets a hyperparameter to a value of its type.

    Args:
      name: an existing hyperparameter.
      value: what to set; cast to the hyperparameter's type.

    Raises:
      ValueError: if there is no such hyperparameter, one of them is a list and
        the other is not, or the type does not fit.
    """
    kind, is_list = self._type_of(name)
    if isinstance(value, (list, tuple)) != is_list:
      raise ValueError(
        f"the hyperparameter {name!r} is {'a list' if is_list else 'one value'}"
        f"; {value!r} is not."
      )
    if is_list:
      setattr(self, name, [_cast(name, kind, one) for one in value])
    else:
      setattr(self, name, _cast(name, kind, value))

  def del_hparam(self, name: str) -> None:
    """Removes a hyperparameter, if it exists."""
    if name in self._types:
      delattr(self, name)
      del self._types[name]

  def parse(self, values: str) -> "HParams":
    """Sets hyperparameters from text such as "depth=3,sizes=[4,5],sizes[0]=6".

    Args:
      values: assignments, separated by commas.

    Returns:
      This object.

    Raises:
      ValueError: if the text is not of that form, or a value does not fit.
    """
    position = 0
    while position < len(values):
      match = _ASSIGNMENT.match(values, position)
      if match is None:
        raise ValueError(
          f"cannot read {values[position:]!r}; write name=value or "
          "name=[value,value], separated by commas."
        )
      position = match.end()
      self._assign(**match.groupdict())
    return self

  def _assign(
    self, name: str, index: str | None, list: str | None, value: str | None
  ) -> None:
    kind, _ = self._type_of(name)
    if list is not None:
      parts = [part.strip() for part in list.split(",") if part.strip()]
      self.set_hparam(name, [_read(name, kind, part) for part in parts])
      return
    read = _read(name, kind, (value or "").strip())
    if index is None:
      self.set_hparam(name, read)
      return
    elements = getattr(self, name)
    if not isinstance(elements, type([])) or int(index) >= len(elements):
      raise ValueError(f"{name}[{index}] is set, but {name} is {elements!r}.")
    elements[int(index)] = read

  def override_from_dict(self, values: Mapping[str, Any]) -> "HParams":
    """Sets hyperparameters from a mapping, and returns this object."""
    for name, value in values.items():
      self.set_hparam(name, value)
    return self

  def parse_json(self, values: str) -> "HParams":
    """Sets hyperparameters from a JSON object, and returns this object."""
    return self.override_from_dict(json.loads(values))

  def to_json(self, **kwargs: Any) -> str:
    """Returns all values as a JSON object; json.dumps takes the arguments."""
    return json.dumps(self.values(), **kwargs)

  def values(self) -> dict[str, Any]:
    """Returns all values by name."""
    return {name: getattr(self, name) for name in self._types}

  def get(self, key: str, default: Any = None) -> Any:
    """Returns the value of a hyperparameter, or the default without one."""
    return getattr(self, key) if key in self._types else default

  def _type_of(self, name: str) -> tuple[type | None, bool]:
    if name not in self._types:
      raise ValueError(
        f"there is no hyperparameter {name!r}; there are {sorted(self._types)}."
      )
    return self._types[name]

  def __contains__(self, key: str) -> bool:
    return key in self._types

  def __repr__(self) -> str:
    values = ", ".join(f"{k}={v!r}" for k, v in sorted(self.values().items()))
    return f"HParams({values})"


def _cast(name: str, kind: type | None, value: Any) -> Any:
  """Returns a value as the hyperparameter's type, or raises ValueError."""
  if kind is None or value is None or isinstance(value, kind):
    return value
  fits = {
    int: isinstance(value, int) or float(value).is_integer()
    if isinstance(value, (int, float))
    else False,
    float: isinstance(value, (int, float)) and not isinstance(value, bool),
    str: not isinstance(value, (bool, list)),
  }
  if not fits.get(kind, False):
    raise ValueError(
      f"the hyperparameter {name!r} is a {kind.__name__}; {value!r} is not."
    )
  return kind(value)


def _read(name: str, kind: type | None, text: str) -> Any:
  """Reads a value of the hyperparameter's type, or raises ValueError."""
  try:
    return _BOOLEANS[text] if kind is bool else (kind or str)(text)
  except (KeyError, ValueError):
    wanted = "a bool" if kind is bool else f"of type {(kind or str).__name__}"
    raise ValueError(
      f"the hyperparameter {name!r} is {wanted}; {text!r} is not."
    ) from None
