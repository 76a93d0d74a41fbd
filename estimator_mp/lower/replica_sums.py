"""Replica sums: the ops that sum gradients over replicas, as planned."""

from collections.abc import Sequence

from estimator_mp.collectives import all_reduce, buckets, compression
from estimator_mp.graph.gradient import Reduce
from estimator_mp.planning import gradient_sums

import tensorflow as tf


def sum_over_replicas(
  parts: Sequence[Sequence[tf.Tensor]],
  sums: Sequence[gradient_sums.GradientSum],
) -> list[list[tf.Tensor]]:
  """Sums the gradients of one round over replicas.

  Args:
    parts: For every gradient that of each replica.
    sums: The sums that `plan_sums` has planned for them.

  Returns:
    For every gradient its sums: one on the device of each replica, or only that
    of the receiver.
  """
  totals: dict[int, list[tf.Tensor]] = {}
  for_each: dict[tuple[str, ...], list[gradient_sums.GradientSum]] = {}
  for planned in sums:
    if planned.receiver is None:
      for_each.setdefault(planned.devices, []).append(planned)
      continue
    (index,) = planned.bucket.gradients
    with tf.compat.v1.device(planned.devices[planned.receiver]):
      totals[index] = [tf.add_n(parts[index])]
  for devices, of_devices in for_each.items():
    reduces = {planned.bucket: _reduce(planned) for planned in of_devices}
    totals |= buckets.reduce_in_buckets(parts, devices, reduces)
  return [totals[index] for index in range(len(parts))]


def _reduce(planned: gradient_sums.GradientSum) -> Reduce:
  """Returns the planned function that sums one tensor on each device."""

  def by_algorithm(
    tensors: Sequence[tf.Tensor], devices: Sequence[str]
  ) -> list[tf.Tensor]:
    return all_reduce.all_reduce(tensors, planned.algorithm, devices)

  if planned.compression == "none":
    return by_algorithm
  if planned.compression == "top_k":
    return compression.top_k(planned.top_k_fraction)
  is_on_each = planned.algorithm == gradient_sums.TO_EACH
  return compression.compressed(
    None if is_on_each else by_algorithm, planned.compression
  )
