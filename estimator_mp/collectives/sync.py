"""Barriers: points of a graph that several subgraphs pass together."""

from typing import Any

from estimator_mp import devices

import tensorflow as tf


def barrier(
  tensors: Any, device: str | None = None, name: str = "barrier"
) -> Any:
  """Passes tensors on once all of them are computed.

  One op without data waits for every tensor, by control dependencies; each
  result is its tensor, let through once that op has run. The tensors do not
  travel: a result stays on its tensor's device, and only signals go to the
  barrier's device and back. Gradients flow through as through an identity.

  This is the barrier of bulk-synchronous parallel programs (Valiant, 1990,
  doi:10.1145/79173.79181) inside one graph.

  Args:
    tensors: A nest (list, tuple, dict) of tensors of any shapes and dtypes,
      `IndexedSlices`, `SparseTensor`s and None.
    device: The device of the op that waits, such as "/cpu:0"; None for the
      default device.
    name: A name scope for the ops.

  Returns:
    The same nest, with tensors of the same values; None stays None.

  Raises:
    ValueError: If there is no tensor to wait for, or `device` is no device.
  """
  parts = tf.nest.flatten(tensors, expand_composites=True)
  waits_for = [tf.convert_to_tensor(part) for part in parts if part is not None]
  if not waits_for:
    raise ValueError(
      f"barrier {name!r} got no tensor to wait for; pass at least one"
    )
  place = None if device is None else devices.canonical_device(device)
  with tf.compat.v1.name_scope(name):
    with (
      tf.compat.v1.device(None),
      tf.compat.v1.device(place),
      tf.control_dependencies(waits_for),
    ):
      everything_computed = tf.no_op(name="all_computed")
    with tf.control_dependencies([everything_computed]):
      passed = [part if part is None else _let_through(part) for part in parts]
  return tf.nest.pack_sequence_as(tensors, passed, expand_composites=True)


def _let_through(tensor: tf.Tensor) -> tf.Tensor:
  """Returns an identity of a tensor on the tensor's own device."""
  tensor = tf.convert_to_tensor(tensor)
  with tf.compat.v1.colocate_with(tensor):
    return tf.identity(tensor)
