"""The beams of a batch: many hypotheses for each sequence."""

from typing import Any

import tensorflow as tf


def tile_batch(t: Any, multiplier: Any, name: str | None = None) -> Any:
  """Repeats each element of a batch, next to itself.

  Args:
    t: [batch, ...]: a tensor or a structure of them.
    multiplier: how often, a beam width.
    name: of the operations.

  Returns:
    [batch * multiplier, ...]; TensorArrays as they are.

  Raises:
    ValueError: if a tensor is a scalar, or of unknown rank.
  """

  def tiled(one: Any) -> Any:
    if isinstance(one, tf.TensorArray):
      return one
    one = tf.convert_to_tensor(one)
    if one.shape.rank in (None, 0):
      raise ValueError(
        f"tile_batch was given the shape {one.shape}; it takes [batch, ...]."
      )
    copies = tf.concat(
      [[1, multiplier], tf.ones([tf.rank(one) - 1], tf.int32)], 0
    )
    shape = tf.shape(one)
    result = tf.reshape(
      tf.tile(tf.expand_dims(one, 1), copies),
      tf.concat([[shape[0] * multiplier], shape[1:]], 0),
    )
    times = tf.get_static_value(multiplier)
    batch = one.shape[0]
    known = None if times is None or batch is None else batch * int(times)
    return tf.ensure_shape(
      result, tf.TensorShape([known]).concatenate(one.shape[1:])
    )

  with tf.compat.v1.name_scope(name, "tile_batch"):
    return tf.nest.map_structure(tiled, t)


def gather_tree(
  step_ids: Any,
  parent_ids: Any,
  max_sequence_lengths: Any,
  end_token: Any,
  name: str | None = None,
) -> tf.Tensor:
  """Returns the whole hypotheses of which beam search kept the last steps.

  Args:
    step_ids: int32 [time, batch, beam].
    parent_ids: of which beam each one goes on, int32 [time, batch, beam].
    max_sequence_lengths: int32 [batch].
    end_token: int32, a scalar; what follows one in a hypothesis is one.
    name: of the operations.

  Returns:
    [time, batch, beam].
  """
  with tf.compat.v1.name_scope(name, "GatherTree"):
    ids = tf.convert_to_tensor(step_ids, name="step_ids")
    parents = tf.convert_to_tensor(parent_ids, name="parent_ids")
    end = tf.cast(end_token, ids.dtype)
    steps = tf.range(tf.shape(ids)[0])
    lengths = tf.convert_to_tensor(max_sequence_lengths)
    beams = tf.range(tf.shape(ids)[2]) + tf.zeros_like(ids[0])

    def before(later: Any, now: Any) -> Any:
      beam, _ = later
      step, ids_now, parents_now = now
      within = (step < lengths)[:, tf.newaxis]
      picked = tf.gather(ids_now, beam, batch_dims=1)
      parent = tf.gather(parents_now, beam, batch_dims=1)
      return tf.where(within, parent, beam), tf.where(within, picked, end)

    _, found = tf.compat.v1.scan(
      before,
      (steps, ids, parents),
      (beams, tf.zeros_like(beams)),
      back_prop=False,
      reverse=True,
    )
    ends = tf.cast(tf.equal(found, end), tf.int32)
    is_behind = tf.cumsum(ends, 0, exclusive=True) > 0
    return tf.ensure_shape(tf.where(is_behind, end, found), ids.shape)


def gather_tree_from_array(
  t: Any, parent_ids: Any, sequence_length: Any
) -> tf.Tensor:
  """Puts what beam search kept for each step into the order of its hypotheses.

  Args:
    t: [time, batch, beam, ...] or [time, batch * beam, ...].
    parent_ids: of which beam each one goes on, int32 [time, batch, beam].
    sequence_length: [batch, beam].

  Returns:
    As `t`.
  """
  t = tf.convert_to_tensor(t)
  shape = tf.shape(parent_ids)
  time, width = shape[0], shape[2]
  beams = tf.range(width) + tf.zeros_like(parent_ids)
  order = gather_tree(
    beams,
    parent_ids,
    tf.cast(tf.reduce_max(sequence_length, 1), tf.int32),
    width + 1,
  )
  within = tf.transpose(tf.sequence_mask(sequence_length, time), [2, 0, 1])
  order = tf.where(within, order, beams)
  by_beam = tf.reshape(t, tf.concat([shape, [-1]], 0))
  sorted_by_beam = tf.gather(by_beam, order, batch_dims=2)
  return tf.ensure_shape(tf.reshape(sorted_by_beam, tf.shape(t)), t.shape)
