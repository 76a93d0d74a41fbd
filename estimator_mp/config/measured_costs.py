"""Measured costs: the seconds of a model's ops, as data and as a file."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from estimator_mp import json_values
from estimator_mp.config import files, options

import tensorflow as tf

_FORMAT = 2  # In 1, an op had the seconds of its gradient, too.


@dataclasses.dataclass(frozen=True)
class MeasuredCosts:
  """The costs that `measure_costs` measured.

  Attributes:
    seconds: For each op of the plain model by name, its seconds in a training
      step, positive or 0; ops of gradients and updates are ops, too.
    step_seconds: The time of a whole step, in which ops run at the same time;
      None if it was not measured.
  """

  seconds: Mapping[str, float] = dataclasses.field(hash=False)
  step_seconds: float | None = None

  @property
  def scale(self) -> float:
    """The time of a step over the sum of its ops, which run one by one."""
    total = sum(self.seconds.values())
    return self.step_seconds / total if self.step_seconds and total else 1.0

  def to_dict(self) -> dict[str, Any]:
    """Returns the costs as JSON can write them."""
    return options.fields_to_plain(self)

  @classmethod
  def from_dict(cls, values: Mapping[str, Any]) -> "MeasuredCosts":
    """Returns the costs that `to_dict` wrote.

    Args:
      values: The result of `to_dict`.

    Raises:
      ValueError: If they are malformed; the message says how.
    """
    try:
      costs: MeasuredCosts = json_values.load(cls, values, "measured_costs")
    except ValueError as error:
      raise ValueError(f"{error}; measure them again") from error
    for name, value in costs.seconds.items():
      if not 0 <= value < math.inf:
        raise ValueError(
          f"measured_costs.seconds gives {name!r} {value!r} seconds, which is "
          "not a positive number; measure them again"
        )
    return costs

  def to_json(self) -> str:
    """Returns the costs as JSON; `from_json` reads it."""
    return json.dumps(self.to_dict(), indent=1) + "\n"

  @classmethod
  def from_json(cls, text: str) -> "MeasuredCosts":
    """Returns the costs that `to_json` wrote.

    Args:
      text: The result of `to_json`.

    Raises:
      ValueError: If it is not valid JSON, or does not hold costs.
    """
    return cls.from_dict(options.parse_json(text))

  def save(self, path: str) -> None:
    """Writes the costs into a file.

    Args:
      path: Its path, best with the ending .json.
    """
    files.write_json(path, {"format": _FORMAT, **self.to_dict()})

  @classmethod
  def load(cls, path: str) -> "MeasuredCosts":
    """Returns the costs of a file that `save` wrote.

    Args:
      path: Its path.

    Raises:
      ValueError: If there is no such file, or it does not hold costs.
    """
    try:
      with tf.io.gfile.GFile(path) as file:
        text = file.read()
    except (tf.errors.OpError, UnicodeDecodeError) as error:
      raise ValueError(
        f"measured_costs={path!r} cannot be read; give the path of a file that "
        "MeasuredCosts.save wrote"
      ) from error
    try:
      values = options.parse_json(text)
      if isinstance(values, Mapping):
        files.check_format(values, _FORMAT, "measure them again")
      costs = cls.from_dict(values)
      if values.get("format", 1) < _FORMAT:
        raise ValueError("an older estimator_mp wrote it; measure them again")
      return costs
    except ValueError as error:
      raise ValueError(f"measured_costs={path!r}: {error}") from error


def resolve_measured_costs(given: Any) -> MeasuredCosts | None:
  """Returns the costs of `ShardingConfig.measured_costs`.

  Args:
    given: Costs, a dict of `MeasuredCosts.to_dict`, the path of a file, or
      None.

  Raises:
    ValueError: If it is nothing of these, or the file cannot be read.
  """
  if given is None or isinstance(given, MeasuredCosts):
    return given
  if isinstance(given, str):
    return MeasuredCosts.load(given)
  if isinstance(given, Mapping):
    return MeasuredCosts.from_dict(given)
  raise ValueError(
    f"measured_costs={given!r} is unknown; give what measure_costs returned, "
    "or the path of a file that it was saved to"
  )
