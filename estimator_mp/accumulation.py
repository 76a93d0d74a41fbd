"""Accumulation: the sum of a gradient over micro-batches and replicas.

Each replica adds up the gradients of its micro-batches as they come, so that no
more than two are there at a time; then replicas are added up.
"""

from collections.abc import Mapping, Sequence

from estimator_mp import aggregation
from estimator_mp import clones as clones_lib
from estimator_mp import schedule as schedule_lib
from estimator_mp.schedule import Phase

import tensorflow as tf


class Accumulation:
  """Adds gradients up, and knows the ops that do so."""

  def __init__(
    self, clones: clones_lib.Clones, schedule: schedule_lib.Schedule
  ):
    """Starts with nothing added.

    Args:
      clones: All micro-batches but the first of replica 0.
      schedule: The order of each replica's micro-batches.
    """
    # By replica, stage and micro-batch.
    self._sums: dict[tuple[int, int, int], list[tf.Operation]] = {}
    self._clones = clones
    self._schedule = schedule
    self._count = schedule.num_micro_batches

  def sums_of_replica(
    self, replica: int
  ) -> dict[tuple[int, int], list[tf.Operation]]:
    """Returns the ops that add up, by stage and micro-batch.

    Args:
      replica: Whose.
    """
    return {
      (stage, micro_batch): ops
      for (r, stage, micro_batch), ops in self._sums.items()
      if r == replica
    }

  def total(
    self,
    gradient: aggregation.Gradient,
    stages: Mapping[tf.Operation, int],
  ) -> aggregation.Gradient:
    """Returns the sum of a gradient over all micro-batches.

    Args:
      gradient: That of the first micro-batch of replica 0.
      stages: The stages of ops.
    """
    if isinstance(gradient, tf.IndexedSlices):
      with tf.compat.v1.device(gradient.values.device):
        return tf.IndexedSlices(
          tf.concat(self._copies(gradient.values), 0),
          tf.concat(self._copies(gradient.indices), 0),
          gradient.dense_shape,
        )
    copies = self._copies(gradient)
    with tf.compat.v1.device(gradient.device):
      if gradient not in self._clones:
        return gradient * tf.cast(len(copies), gradient.dtype)
    stage = stages.get(gradient.op)
    totals = [
      self._of_replica(replica, copies, stage)
      for replica in range(len(copies) // self._count)
    ]
    if len(totals) == 1:
      return totals[0]
    with tf.compat.v1.device(gradient.device):
      return tf.add_n(totals)

  def _of_replica(
    self, replica: int, copies: Sequence[tf.Tensor], stage: int | None
  ) -> tf.Tensor:
    """Returns the sum over the micro-batches of a replica."""
    first = replica * self._count
    order = self._backward_order(stage)
    total = copies[first + order[0]]
    with tf.compat.v1.device(total.device):
      for micro_batch in order[1:]:
        total = tf.add(total, copies[first + micro_batch])
        if stage is not None:
          key = (replica, stage, micro_batch)
          self._sums.setdefault(key, []).append(total.op)
    return total

  def _copies(self, tensor: tf.Tensor) -> list[tf.Tensor]:
    return [tensor, *self._clones.of(tensor)]

  def _backward_order(self, stage: int | None) -> list[int]:
    """Returns the micro-batches in the order of their backward cells."""
    if self._schedule.rows and stage is not None:
      row = self._schedule.rows[self._schedule.device_of(stage)]
      return [
        cell.micro_batch
        for cell in row
        if cell.stage == stage and cell.phase is Phase.BACKWARD
      ]
    return list(range(self._count))
