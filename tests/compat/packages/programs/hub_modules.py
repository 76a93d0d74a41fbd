"""Modules of tensorflow-hub 0.15, the last one that has hub.Module."""

import os

from tests.compat.packages import harness

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub

_WORDS = ["a", "b", "c", "d", "e"]
_TAGS = {"train"}


def trained_module(directory):
  """A module is loaded from its folder, and its variables are trained on."""
  path = _exported(directory, "layers", _layers)

  def features_to_net(features, is_training):
    module = hub.Module(
      path, trainable=True, tags=_TAGS if is_training else None
    )
    outputs = module({"x": features["x"]}, signature="layers", as_dict=True)
    return tf.concat([outputs["default"], outputs["hidden"]], axis=1)

  return _model(directory, features_to_net, "module/")


def text_embeddings(directory):
  """Columns of texts, one of a module that stays as it is."""
  path = _exported(directory, "texts", _texts)
  columns = [
    hub.text_embedding_column("text", path, trainable=True),
    hub.text_embedding_column("title", path),
    tf.feature_column.numeric_column("x", 4),
  ]

  def features_to_net(features, unused_is_training):
    return tf.feature_column.input_layer(features, columns)

  return _model(directory, features_to_net, "input_layer/")


def _layers(is_training=False):
  x = tf.placeholder(tf.float32, [None, 4])
  net = tf.layers.dense(x, 6, use_bias=False, name="hidden")
  net = tf.layers.batch_normalization(net, momentum=0.9, training=is_training)
  hidden = tf.nn.relu(net)
  outputs = tf.layers.dense(
    hidden,
    3,
    kernel_regularizer=tf.contrib.layers.l2_regularizer(0.01),
    name="output",
  )
  hub.add_signature(
    "layers", inputs={"x": x}, outputs={"default": outputs, "hidden": hidden}
  )


def _texts():
  texts = tf.placeholder(tf.string, [None])
  table = tf.contrib.lookup.index_table_from_tensor(_WORDS, num_oov_buckets=1)
  embeddings = tf.get_variable("embeddings", [len(_WORDS) + 1, 4])
  words = tf.string_split(texts)
  ids = tf.SparseTensor(
    words.indices, table.lookup(words.values), words.dense_shape
  )
  hub.add_signature(
    inputs=texts,
    outputs=tf.nn.embedding_lookup_sparse(embeddings, ids, None),
  )


def _exported(directory, name, module_fn):
  """Writes a module with given weights; returns its folder."""
  tags_and_args = [(set(), {})]
  if module_fn is _layers:
    tags_and_args.append((_TAGS, {"is_training": True}))
  spec = hub.create_module_spec(module_fn, tags_and_args)
  path = os.path.join(directory, "modules", name)
  with tf.Graph().as_default(), tf.Session() as session:
    module = hub.Module(spec)
    weights = harness.GivenWeights()
    weights.begin()
    session.run([tf.global_variables_initializer(), tf.tables_initializer()])
    weights.after_create_session(session, None)
    module.export(path, session)
  return path


def _model(directory, features_to_net, modules):
  def model_fn(features, labels, mode):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    net = features_to_net(features, is_training)
    logits = tf.layers.dense(net, 3)
    classes = tf.argmax(logits, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
      found = {"classes": classes, "logits": logits}
      return tf.estimator.EstimatorSpec(mode, predictions=found)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss += tf.losses.get_regularization_loss()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
      train_op = tf.train.AdamOptimizer(0.01).minimize(
        loss, tf.train.get_global_step()
      )
    return tf.estimator.EstimatorSpec(
      mode,
      loss=loss,
      train_op=train_op,
      eval_metric_ops={"accuracy": tf.metrics.accuracy(labels, classes)},
    )

  estimator = tf.estimator.Estimator(
    model_fn, config=harness.run_config(os.path.join(directory, "model"))
  )
  return harness.Model(
    estimator,
    lambda: _data().repeat(),
    _data,
    ("classes", "logits"),
    loaded=(modules,),
  )


def _data():
  random = np.random.RandomState(1)
  texts = [" ".join(random.choice([*_WORDS, "z"], 3)) for _ in range(64)]
  features = {
    "x": random.normal(size=[32, 4]).astype(np.float32),
    "text": texts[:32],
    "title": texts[32:],
  }
  labels = random.randint(0, 3, 32)
  return tf.data.Dataset.from_tensor_slices((features, labels)).batch(8)
