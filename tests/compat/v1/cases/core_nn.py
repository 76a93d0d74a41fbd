"""tf.nn: dropout, embeddings, dense layers of matrices."""

import numpy as np
import tensorflow as tf

_R = np.random.RandomState(7)
_R.normal(size=(2, 6, 6, 3))  # Drawn when 1.15.5 ran.
_ROWS = _R.normal(size=(5, 4)).astype(np.float32)


def _rows():
  return tf.placeholder_with_default(_ROWS, [None, 4])


def dense_parts():
  x = _rows()
  w = tf.get_variable("w", [4, 3])
  b = tf.get_variable("b", [3], initializer=tf.ones_initializer())
  return {
    "xw": tf.nn.xw_plus_b(x, w, b),
    "relu": tf.nn.relu_layer(x, w, b),
    "bias": tf.nn.bias_add(tf.matmul(x, w), b),
  }


def dropout():
  x = _rows()
  return {
    "kept": tf.nn.dropout(x, 0.6, seed=3),
    "keep_prob": tf.nn.dropout(x, keep_prob=0.3),
    "rate": tf.nn.dropout(x, rate=0.3, seed=4),
    "shape": tf.nn.dropout(x, 0.5, noise_shape=[5, 1]),
    "tensor": tf.nn.dropout(x, tf.placeholder_with_default(0.7, [])),
    "all": tf.nn.dropout(x, 1.0),
  }


def embeddings():
  table = tf.get_variable("table", [6, 3])
  parts = tf.get_variable(
    "parts", [7, 3], partitioner=tf.fixed_size_partitioner(2)
  )
  ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 5, 2], [2, 2])
  weights = tf.SparseTensor(ids.indices, [1.0, 2.0, 0.5], [2, 2])
  return {
    "plain": tf.nn.embedding_lookup(table, [[0, 5], [1, 1]]),
    "norm": tf.nn.embedding_lookup(table, [0, 5], max_norm=0.1),
    "parts": tf.nn.embedding_lookup(parts, [0, 3, 6]),
    "div": tf.nn.embedding_lookup(list(parts), [0, 3, 6], "div"),
    "sparse": tf.nn.embedding_lookup_sparse(table, ids, None),
    "mean": tf.nn.embedding_lookup_sparse(table, ids, weights),
    "sum": tf.nn.embedding_lookup_sparse(table, ids, weights, combiner="sqrtn"),
    "safe": tf.nn.safe_embedding_lookup_sparse(table, ids),
    "names": " ".join(v.name for v in tf.trainable_variables()),
  }
