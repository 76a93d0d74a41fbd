"""Differences: how far the arrays of one step are from those of another."""

import dataclasses
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

# A variable that is small beside others of its kind is compared relative to
# this part of their largest entry: it may be a sum that cancels out.
_SMALL = 1e-3


@dataclasses.dataclass(frozen=True)
class ComparedStep:
  """The results of a training step, plain and sharded.

  A difference of two arrays is the largest of an entry, relative to the plain
  model's largest entry, or to 1/1000 of the largest entry of all variables of
  the same kind (trainable, or slots of one name) if that is more.

  Attributes:
    number: The step, from 1.
    plain_loss: The loss of the plain model.
    sharded_loss: That of the sharded model.
    plain_gradient_norm: The global norm of the gradients of variables that
      model_fn got in the plain model; None if it asked for none.
    sharded_gradient_norm: The same of the sharded model.
    gradients: The differences of the gradients, by their variables' names.
    variables: The differences of all variables after the step, by their names;
      slots, statistics and counters are among them.
  """

  number: int
  plain_loss: float
  sharded_loss: float
  plain_gradient_norm: float | None
  sharded_gradient_norm: float | None
  gradients: Mapping[str, float]
  variables: Mapping[str, float]

  @property
  def loss_difference(self) -> float:
    """The difference of the losses, relative to the plain one."""
    return difference(self.sharded_loss, self.plain_loss)

  @property
  def gradient_difference(self) -> float:
    """The difference of the norms, relative to the plain one."""
    if self.plain_gradient_norm is None or self.sharded_gradient_norm is None:
      return 0.0
    return difference(self.sharded_gradient_norm, self.plain_gradient_norm)

  def largest(self) -> float:
    """Returns the largest difference of the step."""
    return max(
      self.loss_difference, self.gradient_difference, *self.variables.values()
    )


def differences(
  actual: Mapping[str, np.ndarray],
  expected: Mapping[str, np.ndarray],
  kinds: Mapping[str, str],
) -> dict[str, float]:
  """Returns the differences of arrays, by their names.

  Args:
    actual: The arrays of one step.
    expected: Those of the other.
    kinds: The kind of each array; arrays of one kind share a scale. An array
      that one of the steps does not have differs by infinity.
  """
  of_kind: dict[str, float] = {}
  for name, kind in kinds.items():
    size = largest(expected[name]) if name in expected else 0.0
    of_kind[kind] = max(of_kind.get(kind, 0.0), size)
  return {
    name: difference(actual[name], expected[name], _SMALL * of_kind[kind])
    if name in actual and name in expected
    else np.inf
    for name, kind in kinds.items()
  }


def difference(actual: Any, expected: Any, least: float = 0.0) -> float:
  """Returns the largest difference of an entry, as a part of the largest.

  Args:
    actual: An array or a number.
    expected: The other one.
    least: The least size that the largest entry counts as.
  """
  actual, expected = np.asarray(actual), np.asarray(expected)
  if actual.shape != expected.shape:
    return math.inf
  if np.array_equal(actual, expected):
    return 0.0
  if not np.issubdtype(expected.dtype, np.number):
    return math.inf
  with np.errstate(invalid="ignore", over="ignore"):
    gap = np.abs(_wide(actual) - _wide(expected))
  # Entries that are not finite are equal to each other, in the same places.
  same = ~np.isfinite(_wide(actual)) & ~np.isfinite(_wide(expected))
  gap = float(np.max(np.where(same, 0.0, gap)))
  if not np.isfinite(gap):
    return math.inf
  return gap / max(largest(expected), least, sys.float_info.min)


def _wide(values: np.ndarray) -> np.ndarray:
  is_complex = np.iscomplexobj(values)
  return values.astype(np.complex128 if is_complex else np.float64)


def largest(values: Any) -> float:
  """Returns the size of the largest entry that is finite.

  Args:
    values: An array or a number.
  """
  values = np.asarray(values)
  if not np.issubdtype(values.dtype, np.number):
    return 0.0
  sizes = np.abs(_wide(values))
  return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def norm(gradients: Mapping[str, np.ndarray]) -> float | None:
  """Returns the global norm of arrays; None if there are none.

  Args:
    gradients: The arrays by name.
  """
  if not gradients:
    return None
  squares = [
    np.sum(np.square(np.abs(_wide(np.asarray(g))))) for g in gradients.values()
  ]
  return float(np.sqrt(sum(squares)))
