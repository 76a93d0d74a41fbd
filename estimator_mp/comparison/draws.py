"""Draws: whether two models draw the same random numbers in a step."""

from collections.abc import Iterable, Mapping

from estimator_mp.graph import random_ops

import tensorflow as tf

_INTEGERS = {1: tf.int8, 2: tf.int16, 4: tf.int32, 8: tf.int64}


def checksums(ops: Iterable[tf.Operation]) -> dict[str, tf.Tensor]:
  """Returns checksums of what random ops draw, by the ops' names.

  Args:
    ops: The ops of a step. Those in loops and branches of TensorFlow 1 are left
      out: no session can fetch of them.
  """
  return {
    op.name: _checksum(op.outputs[0])
    for op in ops
    if random_ops.may_differ(op.node_def)
    and op.outputs[0].dtype not in (tf.resource, tf.variant)  # As of queues.
    and op.graph.is_fetchable(op)
  }


def other_draws(
  ops: Iterable[tf.Operation],
  plain: Mapping[str, int],
  sharded: Mapping[str, int],
) -> list[str]:
  """Returns the names of random ops that draw other numbers in another model.

  Args:
    ops: The ops of a step of the plain model.
    plain: The checksums of its draws.
    sharded: Those of the other model, where copies have names of their own.
  """
  same = set(sharded.values())
  unknown = {
    op.name
    for op in ops
    if random_ops.may_differ(op.node_def)
    and not random_ops.has_seed(op.node_def)
    and op.name not in plain
  }
  return sorted(
    unknown.union(x for x, draw in plain.items() if draw not in same)
  )


def _checksum(tensor: tf.Tensor) -> tf.Tensor:
  """Returns a sum over a tensor's bits, which no order of adding changes."""
  if tensor.dtype.is_floating:
    tensor = tf.bitcast(tensor, _INTEGERS[tensor.dtype.size])
  if tensor.dtype == tf.string:
    tensor = tf.strings.to_hash_bucket_fast(tensor, 2**31 - 1)
  bits = tf.reshape(tf.cast(tensor, tf.int64), [-1])
  # A shuffle has the same entries, in other places.
  return tf.reduce_sum(bits * tf.range(1, tf.size(bits, tf.int64) + 1))
