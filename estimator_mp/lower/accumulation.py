"""Accumulation: the sum of a gradient over the micro-batches of a replica.

Gradients are added up as they come, so that no more than two are there at a
time.
"""

from collections.abc import Mapping, Sequence

from estimator_mp.config import schedule as schedule_lib
from estimator_mp.config.schedule import Phase
from estimator_mp.graph import clones as clones_lib
from estimator_mp.graph import gradient as gradient_lib

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

  def totals(
    self,
    gradient: gradient_lib.Gradient,
    stages: Mapping[tf.Operation, int],
  ) -> list[gradient_lib.Gradient]:
    """Returns the sum of a gradient over the micro-batches of each replica.

    Args:
      gradient: That of the first micro-batch of replica 0.
      stages: The stages of ops.
    """
    if isinstance(gradient, tf.IndexedSlices):
      return [
        tf.IndexedSlices(_rows(v), _rows(i), gradient.dense_shape)
        for v, i in zip(
          self._by_replica(gradient.values),
          self._by_replica(gradient.indices),
          strict=True,
        )
      ]
    stage = stages.get(gradient.op)
    return [
      self._of_replica(replica, copies, stage)
      for replica, copies in enumerate(self._by_replica(gradient))
    ]

  def _of_replica(
    self, replica: int, copies: Sequence[tf.Tensor], stage: int | None
  ) -> tf.Tensor:
    """Returns the sum over the micro-batches of a replica."""
    order = list(range(self._count))
    if stage is not None:
      order = self._schedule.micro_batches(stage, Phase.BACKWARD)
    total = copies[order[0]]
    with tf.compat.v1.device(total.device):
      if total is copies[order[-1]] and len(order) > 1:
        return total * tf.cast(len(order), total.dtype)  # The same for all.
      for micro_batch in order[1:]:
        total = tf.add(total, copies[micro_batch])
        if stage is not None:
          key = (replica, stage, micro_batch)
          self._sums.setdefault(key, []).append(total.op)
    return total

  def _by_replica(self, tensor: tf.Tensor) -> list[list[tf.Tensor]]:
    """Returns the copies of a tensor in each micro-batch of each replica."""
    copies = [tensor, *self._clones.of(tensor)]
    return [
      copies[begin : begin + self._count]
      for begin in range(0, len(copies), self._count)
    ]


def _rows(parts: Sequence[tf.Tensor]) -> tf.Tensor:
  """Returns all rows of the parts, on the device of the first."""
  if len(parts) == 1:
    return parts[0]
  with tf.compat.v1.device(parts[0].device):
    return tf.concat(parts, 0)
