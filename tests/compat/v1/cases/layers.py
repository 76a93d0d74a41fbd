"""tf.contrib.layers: what it computes, names, collects and first gives."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import layers
from tensorflow.contrib.framework import arg_scope

_RANDOM = np.random.RandomState(7)
_ROWS = _RANDOM.normal(size=(6, 4)).astype(np.float32)
_IMAGES = _RANDOM.normal(size=(2, 4, 3, 4)).astype(np.float32)
_RANDOM.normal(size=(1, 3, 4, 2, 2))  # Drawn when 1.15.5 ran.
_SERIES = _RANDOM.normal(size=(2, 5, 4)).astype(np.float32)


def _fed(array, shape=None):
  return tf.placeholder_with_default(array, shape or array.shape)


def _collected():
  """Names of what is in the collections that layers add to."""
  keys = tf.GraphKeys
  return {
    key: np.array([getattr(one, "op", one).name for one in found], "S")
    for key, found in (
      (key, tf.get_collection(key))
      for key in (
        keys.MODEL_VARIABLES,
        keys.TRAINABLE_VARIABLES,
        keys.UPDATE_OPS,
        keys.REGULARIZATION_LOSSES,
        "outputs",
        "mine",
      )
    )
    if found
  }


def convolutions_2d():
  x = _fed(_IMAGES, [None, 4, 3, 4])
  return {
    "same": layers.conv2d(x, 3, 3),
    "valid": layers.conv2d(x, 3, [3, 2], stride=2, padding="VALID"),
    "rate": layers.convolution2d(x, 2, 2, rate=2, activation_fn=tf.tanh),
    "linear": layers.conv2d(
      x, 5, [1, 1], activation_fn=None, biases_initializer=None, scope="one"
    ),
    "in_plane": layers.conv2d_in_plane(x, [3, 1]),
    "transposed": layers.conv2d_transpose(x, 3, [3, 3], stride=2),
    "valid_transposed": layers.convolution2d_transpose(
      x, 2, 2, stride=[2, 1], padding="VALID", activation_fn=None
    ),
  }


def fully_connected():
  x = _fed(_ROWS, [None, 4])
  regularizer = layers.l1_l2_regularizer(0.01, 0.1)
  with tf.variable_scope("top", regularizer=layers.l2_regularizer(0.5)):
    first = layers.fully_connected(
      x,
      5,
      weights_regularizer=regularizer,
      outputs_collections="outputs",
      variables_collections={"weights": ["mine"]},
    )
    second = layers.fully_connected(first, 3, normalizer_fn=layers.layer_norm)
  third = layers.linear(_fed(_SERIES), 2, scope="third")
  again = layers.linear(_fed(_SERIES), 2, scope="third", reuse=True)
  results = {
    "second": second,
    "third": third,
    "again": again,
    "relu": layers.relu(x, 2),
    "relu6": layers.relu6(x, 2, scope="six"),
    "elu": layers.elu(x, 2),
    "penalty": tf.losses.get_regularization_loss(),
  }
  results.update(_collected())
  return results


def legacy_layers():
  x = _fed(_ROWS)
  results = {
    "plain": layers.legacy_fully_connected(x, 3),
    "linear": layers.legacy_linear(_fed(_SERIES), 2, name="series"),
    "relu": layers.legacy_relu(
      x, 3, weight_regularizer=layers.l2_regularizer(0.1)
    ),
    "collections": np.array(
      [
        one.op.name
        for key in ("weights", "biases", "activations")
        for one in tf.get_collection(key)
      ],
      "S",
    ),
  }
  return results


def batch_norm_of_rows():
  x = _fed(_ROWS, [None, 4])
  flag = tf.placeholder_with_default(True, [])
  outputs = layers.batch_norm(
    x,
    decay=0.7,
    is_training=flag,
    param_initializers={
      "beta": tf.constant_initializer(0.5),
      "moving_variance": tf.constant_initializer(2.0),
    },
    param_regularizers={"beta": layers.l2_regularizer(0.3)},
    variables_collections=["mine"],
  )
  results = {"outputs": outputs, "loss": tf.losses.get_regularization_loss()}
  results.update(_collected())
  return results, tf.group(*tf.get_collection(tf.GraphKeys.UPDATE_OPS))


def batch_norm_gradients():
  x = _fed(_IMAGES)
  return {
    "fused": layers.batch_norm(x, scale=True),
    "plain": layers.batch_norm(x, scale=True, fused=False),
    "rows": layers.batch_norm(_fed(_ROWS), scale=True, is_training=True),
    "kept": layers.batch_norm(x, scale=True, is_training=False),
    "renorm": layers.batch_norm(x, scale=True, renorm=True),
    "first": layers.batch_norm(
      tf.transpose(x, [0, 3, 1, 2]), fused=False, data_format="NCHW"
    ),
  }


def other_norms():
  x = _fed(3 + 2 * _IMAGES)
  return {
    "layer": layers.layer_norm(x),
    "layer_last": layers.layer_norm(
      x, begin_norm_axis=-1, activation_fn=tf.tanh
    ),
    "layer_rows": layers.layer_norm(_fed(_ROWS, [None, 4]), scale=False),
    "instance": layers.instance_norm(x),
    "instance_first": layers.instance_norm(x, data_format="NCHW"),
    "group": layers.group_norm(x, groups=2),
    "group_first": layers.group_norm(
      x,
      groups=2,
      channels_axis=1,
      reduction_axes=[2, 3],
      mean_close_to_zero=True,
    ),
    "unit": layers.unit_norm(x, 3),
    "gdn": layers.gdn(x),
    "inverse": layers.gdn(x, inverse=True, gamma_init=0.2),
  }


def shapes():
  x = _fed(_IMAGES)
  ids = tf.constant([[1, 0, 3], [2, 2, 0]])
  return {
    "maxout": layers.maxout(x, 2),
    "softmax": layers.softmax(_fed(_SERIES)),
    "spatial": layers.spatial_softmax(x),
    "cold": layers.spatial_softmax(x, temperature=0.3),
    "flat": layers.flatten(x),
    "sequence": layers.images_to_sequence(x),
    "images": layers.sequence_to_images(_fed(_SERIES), 1),
    "hot": layers.one_hot_encoding(ids, 4, on_value=2.0, off_value=-1.0),
    "sparse": layers.dense_to_sparse(ids),
    "bias": layers.bias_add(x, tf.nn.relu),
    "added": layers.bias_add(
      _fed(_ROWS), regularizer=layers.l2_regularizer(0.1), scope="added"
    ),
    "scaled": layers.scale_gradient(
      layers.linear(_fed(_ROWS), 2), tf.constant(-0.5)
    ),
  }


def dropout():
  x = _fed(_ROWS)
  return {
    "dropped": layers.dropout(x, 0.7),
    "rows": layers.dropout(x, 0.5, noise_shape=[6, 1], seed=3),
    "off": layers.dropout(x, is_training=False),
    "undecided": layers.dropout(x, is_training=_fed(np.array(False))),
  }


def initializers():
  make = tf.get_variable
  return {
    "xavier": make("a", [30, 20], initializer=layers.xavier_initializer()),
    "normal": make("b", [9], initializer=layers.xavier_initializer(False)),
    "seeded": make("c", [9, 9], initializer=layers.xavier_initializer(seed=3)),
    "conv": make(
      "d", [3, 3, 4, 2], initializer=layers.xavier_initializer_conv2d()
    ),
    "he": make(
      "e", [20, 10], initializer=layers.variance_scaling_initializer()
    ),
    "out": make(
      "f",
      [2, 20, 10],
      initializer=layers.variance_scaling_initializer(1.5, "FAN_OUT", True),
    ),
    "parts": tf.concat(
      list(
        tf.get_variable(
          "g",
          [8, 4],
          initializer=layers.xavier_initializer(),
          partitioner=tf.fixed_size_partitioner(2),
        )
      ),
      0,
    ),
  }


def regularizers():
  w = tf.get_variable("w", initializer=_ROWS)
  v = tf.get_variable("v", initializer=_SERIES)
  l1, l2 = layers.l1_regularizer(0.1), layers.l2_regularizer(0.3)
  both = layers.sum_regularizer([l1, l2, layers.l1_regularizer(0.0)])
  total = layers.apply_regularization(both, [w, v])
  return {
    "l1": l1(w),
    "l2": l2(w),
    "both": layers.l1_l2_regularizer(0.1, 0.2)(v),
    "loss": total,
    "names": np.array([l1(w).op.name, total.op.name], "S"),
  }


def encoders():
  ids = _fed(np.array([[1, 2, 0], [3, 3, 0], [0, 0, 0]]))
  with tf.variable_scope("words"):
    sequence = layers.embed_sequence(ids, 5, 3, scope="table")
    unique = layers.embed_sequence(ids, unique=True, scope="table", reuse=True)
  return {
    "sequence": sequence,
    "unique": unique,
    "again": layers.embed_sequence(
      ids, 5, 2, regularizer=layers.l2_regularizer(0.1)
    ),
    "bag": layers.bow_encoder(ids, 5, 3),
    "dense_bag": layers.bow_encoder(ids, 5, 3, sparse_lookup=False),
    "loss_names": np.array(
      [one.op.name for one in tf.losses.get_regularization_losses()], "S"
    ),
  }


def embedding_lookups():
  table = tf.get_variable("table", initializer=_ROWS)
  parts = tf.get_variable(
    "parts",
    [5, 4],
    initializer=layers.xavier_initializer(),
    partitioner=tf.fixed_size_partitioner(3),
  )
  places = [[0, 0], [0, 1], [2, 0], [2, 2], [3, 1]]
  ids = tf.SparseTensor(places, tf.constant([1, 4, -1, 5, 2], tf.int64), [5, 3])
  weights = tf.SparseTensor(places, [0.5, 2.0, 1.0, -1.0, 3.0], [5, 3])
  deep = tf.SparseTensor(
    [[0, 0, 0], [0, 1, 1], [1, 0, 1]],
    tf.constant([0, 3, 2], tf.int64),
    [2, 2, 2],
  )
  lookup = layers.safe_embedding_lookup_sparse
  return {
    "mean": lookup(table, ids),
    "sum": lookup([table], ids, weights, combiner="sum"),
    "sqrtn": lookup(table, ids, weights, combiner="sqrtn", default_id=1),
    "clipped": lookup(table, ids, combiner="sum", max_norm=1.0),
    "parts": lookup(parts, deep, combiner="sum"),
    "deep": lookup(table, deep, combiner="mean"),
    "unique": layers.embedding_lookup_unique(
      table, tf.constant([[1, 1], [5, 0]])
    ),
  }


def reversible_block():
  def f(x):
    return layers.fully_connected(x, 2, activation_fn=tf.tanh)

  def g(x):
    return layers.fully_connected(x, 2, activation_fn=tf.sigmoid)

  x1, x2 = tf.split(_fed(_ROWS), 2, axis=1)
  y1, y2 = layers.rev_block(x1, x2, f, g, num_layers=2)
  return {"y1": y1, "y2": y2}


def recomputed():
  @layers.recompute_grad
  def net(x):
    return layers.fully_connected(x, 3, activation_fn=tf.tanh)

  with tf.variable_scope("net", use_resource=True):
    return {"y": net(_fed(_ROWS))}


def summaries_of_layers():
  with arg_scope([layers.conv2d], outputs_collections=tf.GraphKeys.ACTIVATIONS):
    net = layers.conv2d(_fed(_IMAGES), 3, 3)
  layers.summarize_collection(tf.GraphKeys.WEIGHTS)
  layers.summarize_activations()
  layers.summarize_tensor(tf.reduce_sum(net), "total")
  layers.summarize_tensors([net, tf.reduce_mean(net)])
  found = tf.get_collection(tf.GraphKeys.SUMMARIES)
  return {
    "names": np.array([one.op.name for one in found], "S"),
    "kinds": np.array([one.op.type for one in found], "S"),
  }


def _optimize(**kwargs):
  x = _fed(_ROWS)
  with tf.variable_scope("net"):
    # First: a bias before it would have a gradient of rounding errors only.
    normalized = layers.batch_norm(x, decay=0.5)
    outputs = layers.stack(normalized, layers.fully_connected, [5, 2])
  loss = tf.reduce_mean(tf.square(outputs - 1.0))
  kwargs = dict({"learning_rate": 0.1, "optimizer": "SGD"}, **kwargs)
  train = layers.optimize_loss(
    loss, tf.train.get_or_create_global_step(), **kwargs
  )
  found = tf.get_collection(tf.GraphKeys.SUMMARIES)
  return {
    "loss": loss,
    "summaries": np.array([one.op.name for one in found], "S"),
  }, train


def optimize_by_class_with_decay():
  return _optimize(
    optimizer=tf.train.AdamOptimizer,
    learning_rate_decay_fn=lambda rate, step: tf.train.exponential_decay(
      rate, step, 1, 0.5
    ),
    gradient_multipliers={"net/Stack/fully_connected_1/weights": 0.5},
    summaries=layers.OPTIMIZER_SUMMARIES,
  )


def optimize_with_adaptive_clipping():
  clip = tf.contrib.slim.adaptive_clipping_fn(
    std_factor=0.1,
    static_max_norm=1.5,
    global_step=tf.train.get_or_create_global_step(),
    report_summary=True,
  )
  return _optimize(clip_gradients=clip)


def optimize_with_noise():
  return _optimize(
    optimizer=lambda rate: tf.train.AdagradOptimizer(rate),
    learning_rate=tf.constant(0.2),
    gradient_noise_scale=0.5,
  )
