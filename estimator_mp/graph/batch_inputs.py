"""Batch inputs: features and labels that have examples."""

import dataclasses
from typing import Any

import tensorflow as tf

COMPOSITES = (tf.SparseTensor, tf.RaggedTensor)


@dataclasses.dataclass(frozen=True)
class Input:
  """One of the features or labels, with examples.

  Attributes:
    name: Its path, such as "features/x".
    value: All examples: a Tensor, SparseTensor or RaggedTensor.
    axis: The axis of the examples.
  """

  name: str
  value: Any
  axis: int

  @property
  def size(self) -> int | None:
    """The number of examples; None if the graph does not know it."""
    size: int | None = self.value.shape.as_list()[self.axis]
    return size

  @property
  def likelihood(self) -> tuple[bool, int]:
    """How likely it has examples, compared with others: a matrix more so."""
    return self.is_label, self.value.shape.rank

  @property
  def is_label(self) -> bool:
    """Whether it belongs to the labels, which surely have examples."""
    return self.name.partition("/")[0] == "labels"
