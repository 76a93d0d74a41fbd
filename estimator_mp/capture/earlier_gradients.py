"""Joins: where the gradients of slices became one.

A gradient penalty, MAML or a Hessian-vector product differentiates a gradient
once more. The sum over slices that model_fn got is no place to go on from: the
chain rule would walk into the clones, which are no part of the plain model.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Join:
  """A gradient with respect to a variable.

  Attributes:
    total: That of the whole batch.
    part: That of the first slice; the others' are its clones.
  """

  total: tf.Tensor
  part: tf.Tensor


class Joins:
  """The gradients that model_fn got so far."""

  def __init__(self) -> None:
    self._joins: dict[str, Join] = {}
    self._sparse: dict[str, str] = {}

  def add(
    self,
    sources: Sequence[Any],
    parts: Sequence[Any],
    totals: Sequence[Any],
  ) -> None:
    """Adds the gradients of a request.

    Args:
      sources: With respect to what they are.
      parts: Those of the first slice: a tensor, `IndexedSlices` or None.
      totals: Those of the whole batch; the same ones where nothing was added.
    """
    for source, part, total in zip(sources, parts, totals, strict=True):
      if total is part or total is None:
        continue
      if tf.is_tensor(total) and tf.is_tensor(part):
        self._joins[total.name] = Join(total, part)
      else:
        name = getattr(source, "handle", source).op.name
        for tensor in tf.nest.flatten(total, expand_composites=True):
          self._sparse[tensor.name] = name

  def before(self, targets: Sequence[tf.Tensor]) -> list[Join]:
    """Returns the last joins on every way to targets.

    Args:
      targets: Tensors whose gradients are asked for.

    Raises:
      ValueError: If a sparse gradient is among them.
    """
    found: dict[str, Join] = {}
    if not self._joins and not self._sparse:
      return []
    todo = list(targets)
    seen: set[str] = set()
    while todo:
      tensor = todo.pop()
      if tensor.name in seen:
        continue
      seen.add(tensor.name)
      if tensor.name in self._sparse:
        raise ValueError(
          f"{targets[0].name} depends on the gradient of "
          f"{self._sparse[tensor.name]}, which is sparse, and its gradient is "
          "asked for; micro-batches and replicas cannot differentiate a sparse "
          "gradient: read the variable whole (tf.identity of it), or use "
          "num_micro_batches=1 and no data axis"
        )
      if tensor.name in self._joins:
        found[tensor.name] = self._joins[tensor.name]
      else:
        todo += tensor.op.inputs
    return list(found.values())
