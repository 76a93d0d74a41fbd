"""HParams of tf.contrib.training: hyperparameters by name."""

import contextlib
import json
import numbers
import re
from collections.abc import Mapping
from typing import Any

_ASSIGNMENT = re.compile(
  r"(?P<name>[a-zA-Z][\w.]*)(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
  r"(?:\[(?P<list>[^\]]*)\]|(?P<value>[^,\[]*))(?:,\s*|$)"
)
_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}


class HParams:
  """Named hyperparameters, each of the type of its first value.

  Values are read and set as attributes: `HParams(depth=3).depth`.
  """

  def __init__(
    self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any
  ):
    """Makes hyperparameters with their first values.

    Args:
      hparam_def: not supported: the protocol buffer that `to_proto` gave.
      model_structure: kept for `get_model_structure`.
      **kwargs: numbers, strings, booleans, lists of these, or None.

    Raises:
      ValueError: if a name is reserved, a list empty, or hparam_def given.
    """
    # By name: the type, and whether it is that of a list's elements.
    self._hparam_types: dict[str, tuple[type, bool]] = {}
    self._model_structure = model_structure
    if hparam_def is not None:
      raise ValueError(
        "hparam_def, the protocol buffer HParamDef, went with TensorFlow 1; "
        "use to_json() and parse_json()."
      )
    for name, value in kwargs.items():
      self.add_hparam(name, value)

  def add_hparam(self, name: str, value: Any) -> None:
    """Adds one hyperparameter.

    Args:
      name: must not be taken, by an attribute or another hyperparameter.
      value: the first value; its type stays. A list needs an element.

    Raises:
      ValueError: if the name is taken or the list empty.
    """
    if getattr(self, name, None) is not None:
      raise ValueError(f"the hyperparameter {name!r} exists, or is reserved.")
    if isinstance(value, (list, tuple)):
      if not value:
        raise ValueError(
          f"the hyperparameter {name!r} is an empty list, of no known type; "
          "give it an element."
        )
      self._hparam_types[name] = (type(value[0]), True)
    else:
      self._hparam_types[name] = (type(value), False)
    setattr(self, name, value)

  def set_hparam(self, name: str, value: Any) -> None:
    """Sets a hyperparameter to a value of its type.

    Args:
      name: an existing hyperparameter.
      value: what to set; an integer becomes a float where that is the type.

    Raises:
      KeyError: if there is no such hyperparameter.
      ValueError: if one of them is a list and the other is not, or the type
        does not fit.
    """
    kind, is_list = self._hparam_types[name]
    if isinstance(value, list) != is_list:
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
    if hasattr(self, name):
      delattr(self, name)
      del self._hparam_types[name]

  def parse(self, values: str) -> "HParams":
    """Sets hyperparameters from text such as "depth=3,sizes=[4,5]".

    Args:
      values: assignments, separated by commas.

    Returns:
      This object.

    Raises:
      ValueError: if the text is not of that form, a hyperparameter is not
        there or set twice, or a value does not fit.
    """
    kinds = {name: kind for name, (kind, _) in self._hparam_types.items()}
    return self.override_from_dict(parse_values(values, kinds))

  def override_from_dict(self, values_dict: Mapping[str, Any]) -> "HParams":
    """Sets hyperparameters from a mapping, and returns this object.

    Args:
      values_dict: values by name, as set_hparam takes them.
    """
    for name, value in values_dict.items():
      self.set_hparam(name, value)
    return self

  def set_from_map(self, values_map: Mapping[str, Any]) -> "HParams":
    """Another name of `override_from_dict`."""
    return self.override_from_dict(values_dict=values_map)

  def parse_json(self, values_json: str) -> "HParams":
    """Sets hyperparameters from a JSON object, and returns this object."""
    return self.override_from_dict(json.loads(values_json))

  def to_json(
    self,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
  ) -> str:
    """Returns all values as a JSON object.

    Args:
      indent: as json.dumps takes it, as the others.
      separators: between values, and after names.
      sort_keys: whether names are sorted.
    """
    return json.dumps(
      self.values(), indent=indent, separators=separators, sort_keys=sort_keys
    )

  def to_proto(self, export_scope: str | None = None) -> Any:
    """Raises an error: the protocol buffer went with TensorFlow 1."""
    del export_scope
    raise NotImplementedError(
      "the protocol buffer HParamDef went with TensorFlow 1; use to_json()."
    )

  def get_model_structure(self) -> Any:
    """Returns what was given as model_structure."""
    return self._model_structure

  def set_model_structure(self, model_structure: Any) -> None:
    """Keeps what `get_model_structure` returns."""
    self._model_structure = model_structure

  def values(self) -> dict[str, Any]:
    """Returns all values by name."""
    return {name: getattr(self, name) for name in self._hparam_types}

  def get(self, key: str, default: Any = None) -> Any:
    """Returns the value of a hyperparameter, or the default without one.

    Args:
      key: the name.
      default: has to fit the hyperparameter's type, if it exists.

    Raises:
      ValueError: if it does not fit.
    """
    if key not in self._hparam_types:
      return default
    if default is not None:
      kind, is_list = self._hparam_types[key]
      if isinstance(default, list) != is_list:
        raise ValueError(
          f"the hyperparameter {key!r} is "
          f"{'a list' if is_list else 'one value'}; its default={default!r} is "
          "not."
        )
      for one in default if is_list else [default]:
        _cast(key, kind, one)
    return getattr(self, key)

  def __contains__(self, key: str) -> bool:
    return key in self._hparam_types

  def __str__(self) -> str:
    return ",".join(f"{name}={one}" for name, one in self.values().items())

  def __repr__(self) -> str:
    return f"HParams({sorted(self.values().items())!r})"


def _cast(name: str, kind: type, value: Any) -> Any:
  """Returns a value as the hyperparameter's type, or raises ValueError."""
  if kind is type(None):
    return value
  wrong = ValueError(
    f"the hyperparameter {name!r} is a {kind.__name__}; {value!r} is not."
  )
  if issubclass(kind, bool) != isinstance(value, bool):
    raise wrong
  if issubclass(kind, str) and not isinstance(value, (str, bytes)):
    raise wrong
  for wide in (numbers.Integral, numbers.Number):
    if issubclass(kind, wide) and not isinstance(value, wide):
      raise wrong
  return kind(value)


def parse_values(
  values: str, type_map: Mapping[str, type], ignore_unknown: bool = False
) -> dict[str, Any]:
  """Returns what text such as "depth=3,sizes=[4,5],rates[1]=.5" assigns.

  Args:
    values: assignments, separated by commas.
    type_map: the type of each name's value, or of its elements.
    ignore_unknown: whether names without a type are passed over.

  Returns:
    By name a value, a list, or for elements a dictionary by index.

  Raises:
    ValueError: if the text is not of that form, a name has no type or is set
      twice, or a value is not of its type.
  """
  found: dict[str, Any] = {}
  position = 0
  while position < len(values):
    match = _ASSIGNMENT.match(values, position)
    if match is None:
      raise ValueError(
        f"cannot read {values[position:]!r}; write name=value or "
        "name=[value,value], separated by commas."
      )
    position = match.end()
    name = match["name"]
    if name not in type_map:
      if ignore_unknown:
        continue
      raise ValueError(
        f"there is no hyperparameter {name!r}; there are {sorted(type_map)}."
      )
    _assign(found, match, type_map[name], values)
  return found


def _assign(
  found: dict[str, Any], match: re.Match[str], kind: type, values: str
) -> None:
  """Adds one assignment to those found before."""
  name, index = match["name"], match["index"]
  before = found.get(name, {})
  twice = ValueError(f"{name!r} is set more than once in {values!r}.")
  if match["list"] is not None:
    if index is not None:
      raise ValueError(f"{match[0]!r} sets one element to a list.")
    if name in found:
      raise twice
    parts = [part for part in re.split(r"[ ,]+", match["list"]) if part]
    found[name] = [_read(name, kind, part) for part in parts]
    return
  value = _read(name, kind, match["value"])
  if index is None:
    if name in found:
      raise twice
    found[name] = value
    return
  if not isinstance(before, dict) or int(index) in before:
    raise twice
  found[name] = {**before, int(index): value}


def _read(name: str, kind: type, text: str) -> Any:
  """Reads a value of the hyperparameter's type, or raises ValueError."""
  if kind is type(None):
    raise TypeError(
      f"the hyperparameter {name!r} began as None, of no type that text could "
      "be read as; use set_hparam."
    )
  if kind is bool and text in _BOOLEANS:
    return _BOOLEANS[text]
  with contextlib.suppress(ValueError):
    return bool(int(text)) if kind is bool else kind(text)
  raise ValueError(
    f"the hyperparameter {name!r} is of type {kind.__name__}; {text!r} is not."
  )
