"""tf.nn: convolutions, pools, embeddings, moments, normalizations."""

import numpy as np
import tensorflow as tf

_R = np.random.RandomState(7)
_IMAGES = _R.normal(size=(2, 6, 6, 3)).astype(np.float32)
_ROWS = _R.normal(size=(5, 4)).astype(np.float32)


def _images():
  return tf.placeholder_with_default(_IMAGES, [None, 6, 6, 3])


def _rows():
  return tf.placeholder_with_default(_ROWS, [None, 4])


def convolutions():
  x = _images()
  w = tf.get_variable("w", [3, 3, 3, 4])
  d = tf.get_variable("d", [3, 3, 3, 2])
  p = tf.get_variable("p", [1, 1, 6, 2])
  t = tf.get_variable("t", [3, 3, 5, 3])
  return {
    "conv": tf.nn.conv2d(x, w, [1, 2, 2, 1], "SAME"),
    "named": tf.nn.conv2d(
      input=x, filter=w, strides=[1, 1, 1, 1], padding="VALID"
    ),
    "gpu": tf.nn.conv2d(
      x, w, [1, 1, 1, 1], "SAME", use_cudnn_on_gpu=False, data_format="NHWC"
    ),
    "dilated": tf.nn.atrous_conv2d(x, w, 2, "SAME"),
    "any": tf.nn.convolution(x, w, "SAME", dilation_rate=[2, 2]),
    "depthwise": tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], "SAME"),
    "native": tf.nn.depthwise_conv2d_native(x, d, [1, 2, 2, 1], "SAME"),
    "separable": tf.nn.separable_conv2d(x, d, p, [1, 1, 1, 1], "SAME"),
    "transpose": tf.nn.conv2d_transpose(
      x, t, tf.stack([tf.shape(x)[0], 12, 12, 5]), [1, 2, 2, 1]
    ),
    "line": tf.nn.conv1d(x[:, 0], w[0], 2, "SAME"),
    "line_named": tf.nn.conv1d(
      value=x[:, 0], filters=w[0], stride=1, padding="VALID"
    ),
    "morph": tf.nn.dilation2d(
      x, w[:, :, :, 0], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"
    ),
    "erosion": tf.nn.erosion2d(
      x, w[:, :, :, 0], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"
    ),
  }


def pools():
  x = _images()
  best, where = tf.nn.max_pool_with_argmax(
    x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"
  )
  return {
    "max": tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "SAME"),
    "value": tf.nn.max_pool(
      value=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"
    ),
    "mean": tf.nn.avg_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "SAME"),
    "any": tf.nn.pool(x, [2, 2], "AVG", "SAME", strides=[2, 2]),
    "best": best,
    "where": where,
  }


def moments():
  x = _images()
  mean, variance = tf.nn.moments(x, [0, 1, 2])
  kept, kept_variance = tf.nn.moments(x, [1, 2], keep_dims=True)
  weighted = tf.nn.weighted_moments(x, [0, 1, 2], tf.abs(x))
  y, batch_mean, batch_variance = tf.nn.fused_batch_norm(
    x, [1.0, 2.0, 3.0], [0.0, 1.0, 0.0]
  )
  return {
    "mean": mean,
    "variance": variance,
    "kept": kept,
    "kept_variance": kept_variance,
    "weighted": weighted[1],
    "normal": tf.nn.batch_normalization(x, mean, variance, 0.1, None, 1e-3),
    "global": tf.nn.batch_norm_with_global_normalization(
      x, mean, variance, [0.0] * 3, [1.0] * 3, 1e-3, True
    ),
    "fused": y,
    "batch_mean": batch_mean,
    "batch_variance": batch_variance,
    "lrn": tf.nn.lrn(x, 2, bias=1.0, alpha=0.1),
    "normalized": tf.nn.l2_normalize(x, [1, 2]),
    "half": tf.cast(tf.nn.moments(tf.cast(x, tf.float16), [0])[1], tf.float32),
    "zero": tf.nn.zero_fraction(tf.nn.relu(x)),
  }


def activations():
  x = _rows()
  return {
    name: function(x)
    for name, function in {
      "relu": tf.nn.relu,
      "relu6": tf.nn.relu6,
      "crelu": tf.nn.crelu,
      "elu": tf.nn.elu,
      "selu": tf.nn.selu,
      "leaky": tf.nn.leaky_relu,
      "softplus": tf.nn.softplus,
      "softsign": tf.nn.softsign,
      "swish": tf.nn.swish,
      "sigmoid": tf.nn.sigmoid,
      "log_sigmoid": tf.log_sigmoid,
      "tanh": tf.tanh,
      "l2_loss": tf.nn.l2_loss,
    }.items()
  }


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


def connectionist():
  logits = tf.layers.dense(_rows(), 4)
  logits = tf.stack([logits, logits * 2], 1)
  labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 2, 0], [2, 2])
  decoded, probability = tf.nn.ctc_greedy_decoder(logits, [5, 4])
  beams, log_probability = tf.nn.ctc_beam_search_decoder(logits, [5, 4], 8)
  return {
    "loss": tf.nn.ctc_loss(labels, logits, [5, 4]),
    "decoded": decoded[0],
    "probability": probability,
    "beams": beams[0],
    "log_probability": log_probability,
  }
