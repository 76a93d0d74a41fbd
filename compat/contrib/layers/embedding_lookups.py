"""Embeddings of sparse and of repeated ids, as tf.contrib.layers had them."""

from typing import Any

from compat.private.contrib.partitions import parts

import tensorflow as tf

v1 = tf.compat.v1

_COMBINER = "mean"


def safe_embedding_lookup_sparse(
  embedding_weights: Any,
  sparse_ids: Any,
  sparse_weights: Any = None,
  combiner: str | None = None,
  default_id: int | None = None,
  name: str | None = None,
  partition_strategy: str = "div",
  max_norm: float | None = None,
) -> Any:
  """Combines embeddings per row; a row without a valid id has one, too.

  Ids below 0, and (but for the sum) ids with weights that are not above 0, do
  not count.

  Args:
    embedding_weights: [vocabulary, size], or a list of its partitions.
    sparse_ids: a SparseTensor of integers, [..., ids of a row].
    sparse_weights: a SparseTensor of the same places; 1 by default.
    combiner: "mean", which is the default, "sqrtn" or "sum".
    default_id: the id of a row without one; its result is zeros by default.
    name: of the operations.
    partition_strategy: "div" or "mod".
    max_norm: what an embedding's l2 norm is cut to.

  Returns:
    [..., size], float.

  Raises:
    ValueError: if there are no embeddings.
  """
  if combiner is None:
    tf.compat.v1.logging.warn("combiner is not given: it is %r.", _COMBINER)
    combiner = _COMBINER
  if embedding_weights is None or (
    isinstance(embedding_weights, list) and not embedding_weights
  ):
    raise ValueError(
      f"embedding_weights={embedding_weights!r} must be a tensor, or a list of "
      "one or more."
    )
  dtype = None if sparse_weights is None else sparse_weights.dtype
  return v1.nn.safe_embedding_lookup_sparse(
    [tf.convert_to_tensor(one, dtype) for one in parts(embedding_weights)],
    sparse_ids,
    sparse_weights,
    combiner,
    default_id,
    name,
    partition_strategy,
    max_norm,
  )


def embedding_lookup_unique(
  params: Any,
  ids: Any,
  partition_strategy: str = "mod",
  name: str | None = None,
) -> Any:
  """Looks up embeddings, each id once, however often it occurs.

  Args:
    params: [vocabulary, ...], or a list of its partitions.
    ids: integers, of any shape.
    partition_strategy: "mod" or "div".
    name: of the operations.

  Returns:
    [..., ...]: the shape of the ids, then that of an embedding.
  """
  with v1.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
    ids = tf.convert_to_tensor(ids)
    different, places = tf.unique(tf.reshape(ids, [-1]))
    looked_up = v1.nn.embedding_lookup(params, different, partition_strategy)
    of_each = tf.gather(looked_up, places)
    found = tf.reshape(
      of_each, tf.concat([tf.shape(ids), tf.shape(looked_up)[1:]], 0)
    )
    found.set_shape(ids.shape.concatenate(looked_up.shape[1:]))
    return found


def embedding_lookup_sparse_with_distributed_aggregation(
  params: Any,
  sp_ids: Any,
  sp_weights: Any,
  partition_strategy: str = "mod",
  name: str | None = None,
  combiner: str | None = None,
  max_norm: float | None = None,
) -> Any:
  """Combines the embeddings of each row's ids.

  The result is tf.nn.embedding_lookup_sparse's. In 1.15 each device of a
  partition added up its own embeddings first; here they are gathered.

  Args:
    params: [vocabulary, size], or a list of its partitions.
    sp_ids: a SparseTensor of integers, [batch, ids].
    sp_weights: a SparseTensor of the same places, or None.
    partition_strategy: "mod" or "div".
    name: of the operations.
    combiner: "mean", which is the default, "sqrtn" or "sum".
    max_norm: what an embedding's l2 norm is cut to.
  """
  return v1.nn.embedding_lookup_sparse(
    params,
    sp_ids,
    sp_weights,
    partition_strategy,
    name,
    combiner or _COMBINER,
    max_norm,
  )
