"""Joining: what the rest of the graph reads of micro-batches.

The slice is cloned for each micro-batch; a summary, the moving averages of
batch normalisation, or the loss that the Estimator reports are there once.
They read the mean over micro-batches, each with its part of the batch. What
has a dimension of examples (logits, predictions) has no mean: who reads such a
tensor while training sees the first micro-batch.
"""

from collections.abc import Iterable, Sequence

from compat import private_graph
from estimator_mp import clones as clones_lib
from estimator_mp import costs, micro_batches

import tensorflow as tf


class Joiner:
  """Makes means over micro-batches, each of them once."""

  def __init__(
    self,
    clones: clones_lib.Clones,
    batches: micro_batches.MicroBatches,
    roots: Sequence[tf.Tensor],
  ):
    """Starts with nothing joined.

    Args:
      clones: What stands for a tensor in the further micro-batches.
      batches: The micro-batches.
      roots: The first micro-batch's features and labels.
    """
    self._clones = clones
    self._batches = batches
    self._roots = {root.name: root for root in roots}
    self._joined: dict[str, tf.Tensor] = {}
    self._sums: set[str] = set()
    self._shapes: dict[str, tf.TensorShape] | None = None

  def add_sum(self, tensor: tf.Tensor) -> None:
    """Says that a tensor is a sum over examples, not a mean.

    Args:
      tensor: A loss.
    """
    self._sums.add(tensor.name)

  def join(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns the mean, or sum, of a tensor over micro-batches.

    Args:
      tensor: A floating-point tensor without a dimension of examples.
    """
    if tensor not in self._clones:
      return tensor
    if tensor.name not in self._joined:
      with (
        tf.compat.v1.name_scope(None),
        tf.control_dependencies(None),
        tf.compat.v1.name_scope("estimator_mp/join"),
        tf.compat.v1.device(tensor.device),
      ):
        self._joined[tensor.name] = self._combined(tensor)
    return self._joined[tensor.name]

  def _combined(self, tensor: tf.Tensor) -> tf.Tensor:
    copies = [tensor, *self._clones.of(tensor)]
    is_sum = tensor.name in self._sums
    parts = self._batches.factors if is_sum else self._batches.shares
    if not tf.is_tensor(parts[0]):
      return tf.add_n(copies) * tf.constant(parts[0], tensor.dtype)
    return tf.add_n(
      [
        copy * tf.cast(part, tensor.dtype)
        for copy, part in zip(copies, parts, strict=True)
      ]
    )

  def rejoin(
    self, readers: Iterable[tf.Operation], cloned: Sequence[tf.Operation]
  ) -> None:
    """Makes ops read means instead of the first micro-batch.

    Args:
      readers: Ops that are there once.
      cloned: All ops that were cloned, in the order of the graph.
    """
    for op in readers:
      for index, tensor in enumerate(op.inputs):
        if (
          tensor in self._clones
          and tensor.dtype.is_floating
          and not self._has_examples(tensor, cloned)
        ):
          private_graph.replace_input(op, index, self.join(tensor))

  def _has_examples(
    self, tensor: tf.Tensor, cloned: Sequence[tf.Operation]
  ) -> bool:
    """Whether the first dimension of a tensor depends on the batch."""
    if tensor.name in self._roots or tensor.shape.rank is None:
      return True
    if tensor.shape.rank == 0:
      return False
    size = _num_rows(tensor.shape)
    if size is None:
      return True
    if tf.is_tensor(self._batches.shares[0]):
      return False
    # The graph knows the batch, so a shape does not tell: infer it anew.
    if self._shapes is None:
      self._shapes = costs.shapes_without_batch(cloned, self._roots)
    if tensor.name not in self._shapes:
      return any(size == _num_rows(x.shape) for x in self._roots.values())
    shape = self._shapes[tensor.name]
    return shape.rank is None or _num_rows(shape) is None


def _num_rows(shape: tf.TensorShape) -> int | None:
  """Returns the first dimension; in TensorFlow 1's behavior too, a number."""
  return shape.as_list()[0] if shape.rank else None
