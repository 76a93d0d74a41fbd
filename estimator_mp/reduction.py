"""Reduction: how the gradients of replicas become their sum on each replica."""

import dataclasses
from collections.abc import Sequence

from estimator_mp import (
  all_reduce,
  buckets,
  compression,
  gradient,
  sparse_aggregation,
)

import tensorflow as tf

# Between processes; `horovod_aggregation` does it, and not the replicas here.
HOROVOD = "horovod"
ALGORITHMS = ("auto", *all_reduce.ALGORITHMS, HOROVOD)
COMPRESSIONS = ("none", *compression.MODES, "top_k")


@dataclasses.dataclass(frozen=True)
class Reduction:
  """How gradients are summed over replicas.

  Attributes:
    algorithm: One of `ALGORITHMS`.
    bucket_bytes: The most bytes of dense gradients that are summed at once.
    chunk_bytes: A dense gradient of more is summed in pieces; None: it is not.
    compression: One of `COMPRESSIONS`.
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

  def __str__(self) -> str:
    return (
      f"aggregation={self.algorithm!r}, compression={self.compression!r}, "
      f"sparse_as_dense={self.sparse_as_dense}"
    )

  def is_special(self) -> bool:
    """Whether it is another way than adding on one device."""
    is_plain = self.algorithm in ("auto", "copy", HOROVOD)
    is_exact = self.compression == "none" and self.sparse_as_dense is None
    return not (is_plain and is_exact)

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
    return sparse_aggregation.reduce_slices(
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
