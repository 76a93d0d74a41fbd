"""Inputs: the tensors of features and labels, their names and batch axes."""

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

from estimator_mp.config.sharding_options import BatchAxis
from estimator_mp.graph import batch_inputs

import numpy as np
import tensorflow as tf

# The types of inputs besides tensors: the same for all micro-batches.
_Constant = (bool, bytes, complex, float, int, str, np.generic)


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
  """Yields the inputs that are to be cut, with their paths as names.

  Args:
    value: Features, labels, or both, nested in dicts, lists and tuples.
    name: The path to them.

  Yields:
    Names such as "features/x", and the values there; nothing for None.
  """
  if isinstance(value, dict):
    for key in sorted(value, key=str):
      yield from leaves(value[key], f"{name}/{key}" if name else str(key))
  elif isinstance(value, list | tuple):
    for index, item in enumerate(value):
      yield from leaves(item, f"{name}/{index}" if name else str(index))
  elif isinstance(value, np.ndarray):
    yield name, tf.convert_to_tensor(value)
  elif value is not None:
    yield name, value


def rebuilt(value: Any, pieces: Iterator[Any]) -> Any:
  """Returns a structure with other leaves, in the order of `leaves`.

  Args:
    value: The structure.
    pieces: The new leaves.
  """
  if isinstance(value, dict):
    items = {key: rebuilt(value[key], pieces) for key in sorted(value, key=str)}
    new = copy.copy(value)
    new.update(items)
    return new
  if isinstance(value, tuple) and hasattr(value, "_fields"):
    return type(value)(*(rebuilt(item, pieces) for item in value))
  if isinstance(value, list | tuple):
    return type(value)(rebuilt(item, pieces) for item in value)
  return None if value is None else next(pieces)


def axis_of(name: str, leaf: Any, rules: Sequence[BatchAxis]) -> int | None:
  """Returns the axis of a tensor's examples; None if it has none.

  Args:
    name: Its name, as `leaves` gives it.
    leaf: The tensor, or a number or text.
    rules: The axes of the examples, by expressions that are found in names.

  Raises:
    ValueError: If it is nothing that has axes, or does not have the one that is
      said.
  """
  if isinstance(leaf, _Constant):
    return None
  if not tf.is_tensor(leaf):
    raise ValueError(
      f"{name} is a {type(leaf).__name__}, which cannot be cut; let input_fn "
      "return tensors, nested in dicts, lists and tuples"
    )
  rank = leaf.shape.rank
  axes = [axis for expression, axis in rules if re.search(expression, name)]
  axis = axes[0] if axes else 0
  if axis is None or (rank == 0 and not axes):
    return None
  if rank is None:
    raise ValueError(
      f"{name} has an unknown number of dimensions, so it cannot be cut; set "
      "its shape in input_fn"
    )
  if not 0 <= axis < rank:
    raise ValueError(
      f"batch_axis gives axis {axis} for {name}, which has the shape "
      f"{leaf.shape}; use an axis that it has, or None if it holds no examples"
    )
  if axis and isinstance(leaf, batch_inputs.COMPOSITES):
    raise ValueError(
      f"batch_axis gives axis {axis} for {name}, a {type(leaf).__name__}; "
      "these can be cut on axis 0 only"
    )
  return axis
