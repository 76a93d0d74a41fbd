"""Moments of a batch normalization: of the whole batch, or of each slice."""

from collections.abc import Callable
from typing import TypeAlias

from estimator_mp.graph import op_types
from estimator_mp.model_axis import axes
from estimator_mp.plan.batch_plan import Cut, PartedOp, Reads, Rows
from estimator_mp.plan.batch_sizes import Sizes

import tensorflow as tf

# Where parts lie in tensors, by their names.
RowsOf: TypeAlias = dict[str, Rows]


class Moments:
  """Decides what slices do of batch normalizations."""

  def __init__(self, differs: Callable[[tf.Tensor], bool], are_own: bool):
    """Starts before a graph is looked at.

    Args:
      differs: Whether a tensor depends on the batch.
      are_own: Whether each slice uses moments of its own.
    """
    self._differs = differs
    self._are_own = are_own
    self._own: set[str] = set()  # The tensors that each slice has its own of.

  def normalizes(self, op: tf.Operation, rows: RowsOf) -> bool:
    """Whether an op normalizes a batch by its moments, and slices can."""
    if op.type not in op_types.FUSED_BATCH_NORMS:
      return False
    of_values = rows.get(op.inputs[0].name)
    return (
      op.get_attr("is_training")
      and of_values is not None
      and of_values.axis == 0
      and op.inputs[0].shape.rank is not None
      and not any(self._differs(x) for x in op.inputs[1:])
      and not any(x.consumers() for x in op.outputs[3:])
    )

  def normalization(
    self, op: tf.Operation, rows: RowsOf, sizes: Sizes
  ) -> PartedOp:
    """Returns what slices do of a batch normalization."""
    of_values = rows[op.inputs[0].name]
    rows[op.outputs[0].name] = of_values
    reads: list[Reads] = [
      Cut(sizes.real(of_values)),
      *[None] * (len(op.inputs) - 1),
    ]
    shares = (False,) * len(op.outputs)
    if not self._are_own:
      return PartedOp(op, tuple(reads), shares, is_composite=True)
    self._own.update(x.name for x in op.outputs[1:])
    own = (False, *[True] * (len(op.outputs) - 1))
    return PartedOp(op, tuple(reads), shares, own)

  def is_own(self, op: tf.Operation, rows: RowsOf) -> bool:
    """Whether an op makes what each slice has of its own.

    Those are the moments of a batch normalization, and what is made of these
    and of nothing that slices have parts of.
    """
    if not self._are_own or not all(
      x.dtype.is_floating and x.shape.rank is not None for x in op.outputs
    ):
      return False
    if op.type == "Mean":
      of_values = rows.get(op.inputs[0].name)
      over = axes.constant_axes(op.inputs[1], op.inputs[0].shape.rank) or []
      return (
        of_values is not None and of_values.axis in over and self._is_moment(op)
      )
    return any(x.name in self._own for x in op.inputs) and not any(
      self._differs(x) and x.name not in self._own for x in op.inputs
    )

  def _is_moment(self, op: tf.Operation) -> bool:
    """Whether a mean is one of those of `tf.nn.moments`."""
    values = op.inputs[0]
    if values.op.type == "SquaredDifference":
      return any(x.name in self._own for x in values.op.inputs)
    stopped = [x for x in op.outputs[0].consumers() if x.type == "StopGradient"]
    return any(
      reader.type == "SquaredDifference" and values in [*reader.inputs]
      for stop in stopped
      for reader in stop.outputs[0].consumers()
    )

  def statistic(self, op: tf.Operation, rows: RowsOf, sizes: Sizes) -> PartedOp:
    """Returns what slices do each for itself; see `is_own`."""
    self._own.update(x.name for x in op.outputs)
    reads = tuple(
      Cut(sizes.real(rows[x.name])) if x.name in rows else None
      for x in op.inputs
    )
    count = len(op.outputs)
    return PartedOp(op, reads, (False,) * count, (True,) * count)
