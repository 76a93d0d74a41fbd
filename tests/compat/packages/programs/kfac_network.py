"""Networks whose layers are registered with K-FAC, which trains them."""

from tests.compat.packages import harness

import kfac
import numpy as np
import tensorflow as tf

_CLASSES = 5


def exact(directory):
  """The Fisher matrix by all classes of each example."""
  return _model(directory, "exact")


def empirical(directory):
  """The Fisher matrix by the classes of the labels."""
  return _model(directory, "empirical")


def _network(images, layers):
  """Returns the logits; registers the layers of trainable variables."""
  convolution = tf.layers.Conv2D(4, 3, name="convolution")
  frames = convolution(images)
  layers.register_conv2d(
    (convolution.kernel, convolution.bias),
    (1, 1, 1, 1),
    "VALID",
    images,
    frames,
  )
  net = tf.reshape(tf.nn.tanh(frames), [-1, 4 * 5 * 5])
  for name, units in (("hidden", 6), ("logits", _CLASSES)):
    dense = tf.layers.Dense(units, name=name)
    outputs = dense(net)
    layers.register_fully_connected((dense.kernel, dense.bias), net, outputs)
    net = tf.nn.tanh(outputs)
  return outputs


def _model(directory, estimation_mode):
  def model_fn(features, labels, mode):
    layers = kfac.LayerCollection()
    logits = _network(features["image"], layers)
    classes = tf.argmax(logits, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
      found = {"classes": classes, "logits": logits}
      return tf.estimator.EstimatorSpec(mode, predictions=found)
    layers.register_categorical_predictive_distribution(logits, targets=labels)
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
      invert_every=2,
      cov_update_every=1,
      learning_rate=0.05,
      damping=0.05,
      cov_ema_decay=0.9,
      layer_collection=layers,
      momentum=0.9,
      norm_constraint=0.1,
      estimation_mode=estimation_mode,
      num_burnin_steps=0,
    )
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = None
    if mode == tf.estimator.ModeKeys.TRAIN:
      train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(
      mode,
      loss=loss,
      train_op=train_op,
      eval_metric_ops={"accuracy": tf.metrics.accuracy(labels, classes)},
    )

  estimator = tf.estimator.Estimator(
    model_fn, config=harness.run_config(directory)
  )
  return harness.Model(
    estimator, lambda: _data().repeat(), _data, ("classes", "logits")
  )


def _data():
  random = np.random.RandomState(1)
  images = random.normal(size=(16, 7, 7, 2)).astype(np.float32)
  labels = random.randint(0, _CLASSES, 16)
  data = tf.data.Dataset.from_tensor_slices(({"image": images}, labels))
  return data.batch(8, drop_remainder=True)
