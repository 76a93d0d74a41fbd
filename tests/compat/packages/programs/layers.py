"""No package but TensorFlow: a network of tf.layers, as tutorials had it."""

from tests.compat.packages import harness

import numpy as np
import tensorflow as tf


def convolutional(directory):
  """Convolutions, pools, batch normalization and two dense layers."""
  estimator = tf.estimator.Estimator(
    _model_fn, config=harness.run_config(directory)
  )
  return harness.Model(
    estimator, lambda: _data().repeat(), _data, ("classes", "probabilities")
  )


def _data():
  random = np.random.RandomState(3)
  images = random.normal(size=(32, 8, 8, 1)).astype(np.float32)
  labels = random.randint(0, 10, 32)
  data = tf.data.Dataset.from_tensor_slices(({"image": images}, labels))
  return data.batch(8)


def _model_fn(features, labels, mode):
  is_training = mode == tf.estimator.ModeKeys.TRAIN
  net = features["image"]
  for filters in (8, 16):
    net = tf.layers.conv2d(net, filters, 3, padding="same", use_bias=False)
    net = tf.layers.batch_normalization(net, training=is_training)
    net = tf.layers.max_pooling2d(tf.nn.relu(net), 2, 2)
  net = tf.layers.dense(tf.layers.flatten(net), 32, activation=tf.nn.relu)
  logits = tf.layers.dense(net, 10)
  classes = tf.argmax(logits, axis=1)
  if mode == tf.estimator.ModeKeys.PREDICT:
    found = {"classes": classes, "probabilities": tf.nn.softmax(logits)}
    return tf.estimator.EstimatorSpec(mode, predictions=found)
  loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
  optimizer = tf.train.AdamOptimizer(1e-3)
  with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
  return tf.estimator.EstimatorSpec(
    mode,
    loss=loss,
    train_op=train_op,
    eval_metric_ops={"accuracy": tf.metrics.accuracy(labels, classes)},
  )
