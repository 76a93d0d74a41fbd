"""The outputs of a model, and the arguments of `compile` for each of them.

`compile` and `fit` take losses, weights, metrics and targets in whatever form
the outputs have: one for all, a list, or a dict by the outputs' names.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Outputs:
  """The outputs that a model returned.

  Attributes:
    nest: The outputs as the model returned them.
    names: A name for each of `flat`.
  """

  nest: Any
  names: tuple[str, ...]

  @property
  def flat(self) -> list[tf.Tensor]:
    """The outputs in Keras's order."""
    return list(tf.nest.flatten(self.nest))

  def of_each(self, given: Any, what: str) -> list[Any]:
    """Returns what is given for each output.

    Args:
      given: One for all outputs, a list, or a dict by names. What a dict does
        not name is None.
      what: The name of the argument, for errors.

    Returns:
      As many as there are outputs.

    Raises:
      ValueError: If a list has another length, or a dict names no output.
    """
    if isinstance(given, Mapping):
      return self._by_name(given, what)
    if not isinstance(given, list | tuple):
      return [given] * len(self.names)
    if len(given) != len(self.names):
      raise ValueError(
        f"{what} has {len(given)} entries, but the model has "
        f"{len(self.names)} outputs ({', '.join(self.names)}); give one for "
        "each, or a dict by their names"
      )
    return list(given)

  def _by_name(self, given: Mapping[str, Any], what: str) -> list[Any]:
    """Returns the values of a dict, in the order of the outputs."""
    unknown = [str(name) for name in given if name not in self.names]
    if unknown:
      raise ValueError(
        f"{what} names {', '.join(unknown)}, but the model's outputs are "
        f"{', '.join(self.names)}"
      )
    return [given.get(name) for name in self.names]


def name_outputs(nest: Any, names: list[str] | None) -> Outputs:
  """Returns outputs with their names.

  Args:
    nest: The outputs of a model: a tensor, a list or a dict of tensors.
    names: The names of the layers that made them, if the model knows them. As
      Keras does, a dict's keys are the names otherwise, or "output_1" and so
      on.

  Raises:
    ValueError: If the outputs are nested more deeply.
  """
  if isinstance(nest, Mapping):
    leaves, found = list(nest.values()), sorted(map(str, nest))
  elif isinstance(nest, list | tuple):
    leaves = list(nest)
    found = names or [f"output_{i + 1}" for i in range(len(nest))]
  else:
    leaves, found = [nest], names or ["output_1"]
  if any(tf.nest.is_nested(leaf) for leaf in leaves):
    raise ValueError(
      "the model returns outputs within outputs; return a tensor, a list or a "
      "dict of tensors"
    )
  return Outputs(nest, tuple(found))
