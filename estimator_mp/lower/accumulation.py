"""Accumulation: the sum of a gradient over the micro-batches of a replica.

Gradients are added up as they come, so that no more than two are there at a
time.
"""

from collections.abc import Collection, Mapping, Sequence

from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.config.schedules.schedule import Cell
from estimator_mp.graph import clones as clones_lib
from estimator_mp.pipeline import cells, weight_products

import tensorflow as tf


class Accumulation:
  """Adds gradients up, and knows the ops that do so."""

  def __init__(
    self,
    clones: clones_lib.Clones,
    schedule: schedule_lib.Schedule,
  ):
    """Starts with nothing added.

    Args:
      clones: All micro-batches but the first of replica 0.
      schedule: The order of each replica's micro-batches.
    """
    # Of each replica.
    self._sums: dict[tuple[int, Cell], list[tf.Operation]] = {}
    self._elsewhere: set[tf.Operation] = set()
    self._clones = clones
    self._schedule = schedule
    self._count = schedule.num_micro_batches

  def sums_of_replica(self, replica: int) -> dict[Cell, list[tf.Operation]]:
    """Returns the ops that add up on the devices of their stages.

    Args:
      replica: Whose.

    Returns:
      The ops, by the cell that they end.
    """
    return self._of(replica, is_elsewhere=False)

  def sums_elsewhere(self, replica: int) -> dict[Cell, list[tf.Operation]]:
    """Returns the ops that add up on other devices; see `sums_of_replica`.

    Args:
      replica: Whose.
    """
    return self._of(replica, is_elsewhere=True)

  def _of(
    self, replica: int, is_elsewhere: bool
  ) -> dict[Cell, list[tf.Operation]]:
    found = {
      cell: [op for op in ops if (op in self._elsewhere) == is_elsewhere]
      for (r, cell), ops in self._sums.items()
      if r == replica
    }
    return {key: ops for key, ops in found.items() if ops}

  def totals(
    self,
    gradient: tf.Tensor,
    passes: Mapping[tf.Operation, cells.Pass],
    elsewhere: Collection[tf.Operation] = (),
  ) -> list[tf.Tensor]:
    """Returns the sum of a gradient over the micro-batches of each replica.

    Args:
      gradient: That of the first micro-batch of replica 0.
      passes: Those that gradients' ops are part of.
      elsewhere: The ops that are not on the device of that stage.
    """
    return [
      self._of_replica(replica, copies, gradient.op, passes, elsewhere)
      for replica, copies in enumerate(self._by_replica(gradient))
    ]

  def totals_of_products(
    self, product: weight_products.WeightProduct, of_pass: cells.Pass | None
  ) -> list[tf.Tensor]:
    """Returns the sum of products over the micro-batches of each replica.

    Args:
      product: The gradient of the first micro-batch of replica 0.
      of_pass: The pass that its products end, if they are ordered.
    """
    operands = [self._by_replica(tensor) for tensor in product.op.inputs]
    return [
      self._of_products(replica, product, pair, of_pass)
      for replica, pair in enumerate(zip(*operands, strict=True))
    ]

  def _of_products(
    self,
    replica: int,
    product: weight_products.WeightProduct,
    operands: Sequence[Sequence[tf.Tensor]],
    of_pass: cells.Pass | None,
  ) -> tf.Tensor:
    """Returns the sum over the micro-batches of a replica.

    Args:
      replica: The replica.
      product: The gradient of the first micro-batch of replica 0.
      operands: The left and the right operand of each micro-batch's product.
      of_pass: As for `totals_of_products`.
    """
    order = list(range(self._count))
    if of_pass is not None:
      order = self._schedule.micro_batches(of_pass.stage, of_pass.phase)
    total = None
    place, first = product.op.device, replica * self._count
    if first and place:
      place = self._clones.device(first - 1, product.op)
    for group in weight_products.groups(order, product.group):
      with tf.compat.v1.device(place):
        left, right = (
          tf.concat([copies[m] for m in group], axis)
          for copies, axis in zip(operands, product.axes, strict=True)
        )
        found = tf.linalg.matmul(
          left,
          right,
          transpose_a=product.op.get_attr("transpose_a"),
          transpose_b=product.op.get_attr("transpose_b"),
        )
        ends = [found.op]
        if total is not None:
          found = tf.add(total, found)
          ends.append(found.op)
      total = found
      if of_pass is not None:
        cell = Cell(of_pass.stage, group[-1], of_pass.phase)
        self._sums.setdefault((replica, cell), []).extend(ends)
    return total

  def _of_replica(
    self,
    replica: int,
    copies: Sequence[tf.Tensor],
    op: tf.Operation,
    passes: Mapping[tf.Operation, cells.Pass],
    elsewhere: Collection[tf.Operation],
  ) -> tf.Tensor:
    """Returns the sum over the micro-batches of a replica.

    Args:
      replica: The replica.
      copies: The gradients of its micro-batches, which are added up.
      op: The op that makes the gradient of the first micro-batch of replica 0.
      passes: As for `totals`.
      elsewhere: As for `totals`.
    """
    of_pass = passes.get(op)
    order = list(range(self._count))
    if of_pass is not None:
      order = self._schedule.micro_batches(of_pass.stage, of_pass.phase)
    total = copies[order[0]]
    with tf.compat.v1.device(total.device):
      if total is copies[order[-1]] and len(order) > 1:
        return total * tf.cast(len(order), total.dtype)  # The same for all.
      for micro_batch in order[1:]:
        total = tf.add(total, copies[micro_batch])
        if of_pass is not None:
          cell = Cell(of_pass.stage, micro_batch, of_pass.phase)
          self._sums.setdefault((replica, cell), []).append(total.op)
          if op in elsewhere:
            self._elsewhere.add(total.op)
    return total

  def _by_replica(self, tensor: tf.Tensor) -> list[list[tf.Tensor]]:
    """Returns the copies of a tensor in each micro-batch of each replica."""
    copies = [tensor, *self._clones.of(tensor)]
    return [
      copies[begin : begin + self._count]
      for begin in range(0, len(copies), self._count)
    ]
