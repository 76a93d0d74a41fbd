"""Summed gradients: those that a step sums over replicas, as plain data."""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.lower import replicas as replicas_lib

import tensorflow as tf


class Kind(enum.Enum):
  """What a gradient is, and what its sum."""

  DENSE = enum.auto()
  ROWS = enum.auto()
  ROWS_MADE_DENSE = enum.auto()


@dataclasses.dataclass(frozen=True)
class SummedGradient:
  """The gradient of one variable, which every replica has a part of.

  Attributes:
    variable: The name of the variable.
    kind: What the gradient is, and what its sum.
    devices: The device of each replica's part.
    sum_device: The device of the sum that model_fn goes on with.
    tensors: The names of the tensors of replica 0's part: one, or the values
      and indices of `IndexedSlices`.
    num_elements: The elements of a dense sum; None if the graph does not know.
    dtype: The dtype of the gradient.
    made: When the backward pass makes it, compared with others.
  """

  variable: str
  kind: Kind
  devices: tuple[str, ...]
  sum_device: str
  tensors: tuple[str, ...]
  num_elements: int | None
  dtype: tf.DType
  made: int


def describe(
  found: Sequence[replicas_lib.ReplicaGradients], sums: Sequence[Any]
) -> tuple[SummedGradient, ...]:
  """Returns what a request for gradients sums over replicas.

  Args:
    found: The gradients of the request.
    sums: Their sums on replica 0, dense or sparse.
  """
  described = []
  for entry, total in zip(found, sums, strict=True):
    tensors: tuple[tf.Tensor, ...] = (entry.parts[0],)
    kind, num_elements = Kind.DENSE, None
    if isinstance(entry.parts[0], tf.IndexedSlices):
      tensors = (entry.parts[0].values, entry.parts[0].indices)
      kind = Kind.ROWS_MADE_DENSE
    if isinstance(total, tf.IndexedSlices):
      kind = Kind.ROWS
    else:
      num_elements = gradient_lib.common_shape(0, entry.parts).num_elements()
    described.append(
      SummedGradient(
        entry.variable.name,
        kind,
        entry.devices,
        getattr(total, "values", total).device,
        tuple(tensor.name for tensor in tensors),
        num_elements,
        total.dtype,
        entry.made,
      )
    )
  return tuple(described)
