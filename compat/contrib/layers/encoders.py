"""Encoders of tf.contrib.layers: embeddings of words and of bags of words."""

from typing import Any

from compat.contrib import framework
from compat.contrib.layers import embedding_lookups

import tensorflow as tf

v1 = tf.compat.v1


def bow_encoder(
  ids: Any,
  vocab_size: int,
  embed_dim: int,
  sparse_lookup: bool = True,
  initializer: Any = None,
  regularizer: Any = None,
  trainable: bool = True,
  scope: Any = None,
  reuse: bool | None = None,
) -> Any:
  """Maps a bag of words to the mean of the words' embeddings.

  Args:
    ids: integers [batch, words], dense or sparse.
    vocab_size: the number of different words.
    embed_dim: the size of an embedding.
    sparse_lookup: whether a 0 among dense ids is padding, which does not count.
    initializer: of the variable "embeddings", [vocab_size, embed_dim].
    regularizer: its penalty goes to the regularization losses.
    trainable: whether an optimizer may change the embeddings.
    scope: the variable scope; "bow_encoder" by default.
    reuse: whether the variable exists already.

  Returns:
    [batch, embed_dim], float.

  Raises:
    ValueError: if the sizes are not given.
    TypeError: if the ids are sparse, but the lookup is not.
  """
  if not vocab_size or not embed_dim:
    raise ValueError(
      f"vocab_size={vocab_size!r} and embed_dim={embed_dim!r} must both be "
      "given, and above 0."
    )
  with v1.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
    embeddings = framework.model_variable(
      "embeddings",
      [vocab_size, embed_dim],
      initializer=initializer,
      regularizer=regularizer,
      trainable=trainable,
    )
    is_sparse = isinstance(ids, tf.SparseTensor)
    if sparse_lookup:
      sparse_ids = ids if is_sparse else tf.sparse.from_dense(ids)
      return embedding_lookups.safe_embedding_lookup_sparse(
        [embeddings], sparse_ids, combiner="mean", default_id=0
      )
    if is_sparse:
      raise TypeError("sparse_lookup is False, but the ids are a SparseTensor.")
    return tf.reduce_mean(tf.nn.embedding_lookup(embeddings, ids), 1)


def embed_sequence(
  ids: Any,
  vocab_size: int | None = None,
  embed_dim: int | None = None,
  unique: bool = False,
  initializer: Any = None,
  regularizer: Any = None,
  trainable: bool = True,
  scope: Any = None,
  reuse: bool | None = None,
) -> Any:
  """Maps sequences of words to sequences of embeddings.

  Args:
    ids: integers [batch, words].
    vocab_size: the number of different words.
    embed_dim: the size of an embedding.
    unique: whether a word that occurs often is looked up once.
    initializer: of the variable "embeddings", [vocab_size, embed_dim].
    regularizer: its penalty goes to the regularization losses.
    trainable: whether an optimizer may change the embeddings.
    scope: the variable scope; "EmbedSequence" by default.
    reuse: whether the variable exists already; then sizes may be left out.

  Returns:
    [batch, words, embed_dim], float.

  Raises:
    ValueError: if the sizes are not given, and the variable is new.
  """
  sizes = [vocab_size, embed_dim]
  if not reuse and not all(sizes):
    raise ValueError(
      f"vocab_size={vocab_size!r} and embed_dim={embed_dim!r} must both be "
      "given, and above 0, unless the variable is reused."
    )
  with v1.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
    embeddings = framework.model_variable(
      "embeddings",
      sizes if None not in sizes else None,
      initializer=initializer,
      regularizer=regularizer,
      trainable=trainable,
    )
    if unique:
      return embedding_lookups.embedding_lookup_unique(embeddings, ids)
    return tf.nn.embedding_lookup(embeddings, ids)
