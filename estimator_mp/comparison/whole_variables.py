"""Whole variables: those of a graph as the plain model has them."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from estimator_mp.placement import contents

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class WholeVariable:
  """A variable of the plain model.

  Attributes:
    parts: The variable itself, or the shards that are its slices, in order.
    axis: The dimension that is sliced.
  """

  parts: tuple[tf.Variable, ...]
  axis: int

  def joined(self, values: Sequence[Any]) -> Any:
    """Returns the value of the whole variable.

    Args:
      values: Those of the parts.
    """
    return values[0] if len(values) == 1 else np.concatenate(values, self.axis)


def by_name(variables: Iterable[tf.Variable]) -> dict[str, WholeVariable]:
  """Returns variables by the names that they have in the plain model.

  Args:
    variables: Variables of a graph, shards among them.
  """
  shards: dict[tf.Operation, list[tf.Variable]] = {}
  for variable in variables:
    shards.setdefault(contents.whole_of(variable), []).append(variable)
  return {op.name: _joined(op, parts) for op, parts in shards.items()}


def _joined(whole: tf.Operation, parts: Sequence[tf.Variable]) -> WholeVariable:
  """Returns the variable that shards are the slices of."""
  if len(parts) == 1:
    return WholeVariable(tuple(parts), 0)
  shape = tf.TensorShape(whole.get_attr("shape")).as_list()
  axis = next(
    i for i, size in enumerate(shape) if parts[0].shape.as_list()[i] != size
  )
  in_order = sorted(parts, key=lambda x: int(x.op.name.rpartition("_")[2]))
  return WholeVariable(tuple(in_order), axis)


def joined(
  variables: Mapping[str, WholeVariable], fetched: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
  """Returns the values of variables, by their names.

  Args:
    variables: The result of `by_name`.
    fetched: The values of the parts of each.
  """
  return {
    name: variable.joined(fetched[name]) for name, variable in variables.items()
  }
