"""Reduction: how the gradients of replicas become their sum on each replica."""

import dataclasses
from collections.abc import Sequence

from estimator_mp import mesh as mesh_lib
from estimator_mp.collectives import all_reduce, buckets, compression, sparse
from estimator_mp.collectives.algorithms import ALGORITHMS
from estimator_mp.graph import gradient

import tensorflow as tf


def check_devices(algorithm: str, mesh: mesh_lib.Mesh) -> None:
  """Raises if an algorithm cannot sum over the replicas of a mesh.

  Args:
    algorithm: As `ShardingConfig.aggregation`.
    mesh: The mesh.

  Raises:
    ValueError: With the first device that it cannot work on.
  """
  if algorithm in ALGORITHMS:
    replicas = range(mesh.axis_size("data"))
    for stage in range(mesh.axis_size("stage")):
      all_reduce.check(
        algorithm, [mesh.device(data=r, stage=stage) for r in replicas]
      )


@dataclasses.dataclass(frozen=True)
class Reduction:
  """How gradients are summed over replicas.

  Attributes:
    algorithm: As `ShardingConfig.aggregation`.
    bucket_bytes: The most bytes of dense gradients that are summed at once.
    chunk_bytes: A dense gradient of more is summed in pieces; None: it is not.
    compression: As `ShardingConfig.compression`.
    top_k_fraction: Which part of its entries "top_k" sends of a gradient.
    sparse_as_dense: The rows of all replicas, as a part of the rows of the
      table, from which a sparse gradient is summed as a dense one; None: never.
  """

  algorithm: str
  bucket_bytes: int
  chunk_bytes: int | None
  compression: str
  top_k_fraction: float
  sparse_as_dense: float | None

  def sum_dense(
    self,
    per_replica: Sequence[Sequence[tf.Tensor]],
    devices: Sequence[str],
    order: Sequence[int],
  ) -> list[list[tf.Tensor]]:
    """Returns the sums of dense gradients on each device.

    Args:
      per_replica: For every replica its gradients of the same variables.
      devices: The device of each replica.
      order: The indices of the gradients in the order in which the backward
        pass makes them.
    """
    return buckets.reduce_in_buckets(
      per_replica,
      devices,
      self.bucket_bytes,
      self._reduce(),
      order,
      self.chunk_bytes,
    )

  def sum_sparse(
    self, per_replica: Sequence[tf.IndexedSlices], devices: Sequence[str]
  ) -> list[gradient.Gradient]:
    """Returns the sum of a sparse gradient on each device.

    Args:
      per_replica: The gradient of every replica.
      devices: The device of each replica.
    """
    return sparse.reduce_slices(
      per_replica,
      devices,
      self._reduce(),
      dense_threshold=self.sparse_as_dense,
    )

  def _reduce(self) -> gradient.Reduce:
    def reduce(
      tensors: Sequence[tf.Tensor], devices: Sequence[str]
    ) -> list[tf.Tensor]:
      return all_reduce.all_reduce(tensors, self.algorithm, devices)

    if self.compression == "top_k":
      return compression.top_k(self.top_k_fraction)
    if self.compression in compression.MODES:
      is_copy = self.algorithm in ("auto", "copy")
      return compression.compressed(
        None if is_copy else reduce, self.compression
      )
    return reduce
