"""Recall over all items of a catalogue, in evaluation.

The items of a batch say nothing of how hard it is to find one among all. So the
vectors of the whole catalogue are computed once, when an evaluation begins.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from model_fns.retrieval import nearest

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
Metrics: TypeAlias = dict[str, tuple[tf.Tensor, tf.Operation]]


def check_catalogue(
  catalogue: Mapping[str, np.ndarray], names: Sequence[str], num_items: int
) -> None:
  """Raises if a catalogue is not what an item tower reads.

  Args:
    catalogue: The features of items, by their names.
    names: The features that the tower reads.
    num_items: How many items there are.

  Raises:
    ValueError: If one is missing, or does not have as many items.
  """
  for name in names:
    if name not in catalogue:
      raise ValueError(
        f"catalogue has no feature {name!r}, which the item tower reads; give "
        "an array with a row for each item"
      )
    if len(catalogue[name]) != num_items:
      raise ValueError(
        f"catalogue[{name!r}] has {len(catalogue[name])} rows, and there are "
        f"num_items={num_items}; row i is of the item i"
      )


class CatalogueVectors:
  """The vectors of all items, in a variable that no checkpoint has.

  Attributes:
    vectors: float32 [num_items, size].
    hook: A hook of the evaluation; it fills the variable.
  """

  def __init__(
    self,
    encode: Callable[[Mapping[str, tf.Tensor]], tf.Tensor],
    catalogue: Mapping[str, np.ndarray],
    num_items: int,
    chunk_size: int,
  ):
    """Makes the ops.

    Args:
      encode: From the features of items to vectors, float32 [batch, size].
      catalogue: The features of items; row i is of the item i.
      num_items: How many there are.
      chunk_size: Of how many items vectors are computed at a time.
    """
    inputs = {
      name: v1.placeholder(values.dtype, [None, *values.shape[1:]])
      for name, values in catalogue.items()
    }
    encoded = encode(inputs)
    start = v1.placeholder(tf.int32, [])
    kept = v1.get_variable(
      "catalogue/vectors",
      [num_items, int(encoded.shape[1])],
      initializer=v1.zeros_initializer(),
      trainable=False,
      collections=[v1.GraphKeys.LOCAL_VARIABLES],
      use_resource=True,
    )
    rows = tf.range(start, start + tf.shape(encoded)[0])
    self.vectors = tf.convert_to_tensor(kept)
    self.hook = _FillingHook(
      v1.scatter_update(kept, rows, encoded),
      [
        {
          start: begin,
          **{
            tensor: catalogue[name][begin : begin + chunk_size]
            for name, tensor in inputs.items()
          },
        }
        for begin in range(0, num_items, chunk_size)
      ],
    )


class _FillingHook(tf.estimator.SessionRunHook):
  """Computes the vectors of all items when a session begins."""

  def __init__(self, fill: Any, feeds: Sequence[Mapping[tf.Tensor, Any]]):
    self._fill = getattr(fill, "op", fill)
    self._feeds = feeds

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator | None
  ) -> None:
    """Fills the variable."""
    del coord
    for feed in self._feeds:
      session.run(self._fill, feed)


def recall_metrics(
  queries: tf.Tensor,
  ids: tf.Tensor,
  vectors: tf.Tensor,
  ks: Sequence[int],
  chunk_size: int,
) -> Metrics:
  """Returns how often the own item is among the k nearest of all.

  Args:
    queries: float32 [batch, size].
    ids: The own item of each, int64 [batch].
    vectors: Those of all items, float32 [items, size].
    ks: For which k.
    chunk_size: How many items are scored at a time.
  """
  _, rows = nearest.nearest(queries, vectors, max(ks), chunk_size)
  hits = tf.equal(tf.cast(rows, tf.int64), ids[:, tf.newaxis])
  return {
    f"recall_at_{k}": v1.metrics.mean(
      tf.cast(tf.reduce_any(hits[:, :k], axis=1), tf.float32)
    )
    for k in ks
  }
