"""Bridges between whole tensors and slices, as data.

`lower.slicing.bridges` makes them, and says what they are for.
"""

import dataclasses
import enum

from estimator_mp.plan.batch_plan import Rows

import tensorflow as tf


class Kind(enum.Enum):
  """The kind of a bridge; see `lower.slicing.bridges`."""

  CUT = "cut"
  JOIN = "join"
  READ = "read"
  SUM = "sum"
  FIRST = "first"


@dataclasses.dataclass(frozen=True)
class Bridge:
  """One bridge.

  Attributes:
    op: The op that stands for it.
    kind: The kind of the bridge.
    rows: How slices lie in the whole tensor, of a CUT or JOIN. None if they
      have as many rows each as they happen to have, as of a sparse gradient.
    request: In which request for gradients it was made; None for none.
    together: The bridge of the indices of a sparse gradient, of whose values
      this is the bridge.
    dense_shape: The shape of the table then, if it is known.
    of: The tensor that slices read, of a SUM or JOIN that is its gradient.
  """

  op: tf.Operation
  kind: Kind
  rows: Rows | None = None
  request: int | None = None
  together: "Bridge | None" = None
  dense_shape: tf.Tensor | None = None
  of: tf.Tensor | None = None

  @property
  def source(self) -> tf.Tensor:
    """The tensor that it reads."""
    return self.op.inputs[0]

  @property
  def output(self) -> tf.Tensor:
    """The tensor that it makes."""
    return self.op.outputs[0]
