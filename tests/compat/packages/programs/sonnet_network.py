"""Modules of dm-sonnet: convolutional, recurrent, normalizing, regularized."""

from tests.compat.packages import harness

import numpy as np
import sonnet as snt
import tensorflow as tf

_CLASSES = 5


def reader(directory):
  """Reads a sequence of small images."""
  estimator = tf.estimator.Estimator(
    _model_fn, config=harness.run_config(directory)
  )
  return harness.Model(
    estimator, lambda: _data().repeat(), _data, ("classes", "logits")
  )


class _Reader(snt.AbstractModule):
  def __init__(self, name="reader"):
    super(_Reader, self).__init__(name=name)

  def _build(self, images, is_training):
    convolution = snt.Conv2D(
      4,
      kernel_shape=3,
      stride=2,
      regularizers={"w": tf.contrib.layers.l2_regularizer(0.01)},
    )
    frames = snt.BatchApply(convolution)(images)
    norm = snt.BatchNorm(decay_rate=0.9)
    frames = tf.nn.relu(snt.BatchApply(norm)(frames, is_training))
    frames = snt.BatchFlatten(preserve_dims=2)(frames)
    frames = snt.BatchApply(snt.nets.MLP([8], activate_final=True))(frames)
    core = snt.DeepRNN([snt.LSTM(6), snt.GRU(5)], skip_connections=True)
    start = core.initial_state(images.shape[1].value)
    outputs, _ = tf.nn.dynamic_rnn(
      core, frames, initial_state=start, time_major=True
    )
    return snt.Linear(_CLASSES)(snt.LayerNorm()(outputs[-1]))


def _model_fn(features, labels, mode):
  is_training = mode == tf.estimator.ModeKeys.TRAIN
  logits = _Reader()(features["images"], is_training)
  classes = tf.argmax(logits, 1)
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


def _data():
  random = np.random.RandomState(1)
  images = random.normal(size=(16, 3, 7, 7, 2)).astype(np.float32)
  labels = random.randint(0, _CLASSES, 16)
  data = tf.data.Dataset.from_tensor_slices((images, labels))
  return data.batch(8, drop_remainder=True).map(
    lambda images, labels: (
      {"images": tf.transpose(images, [1, 0, 2, 3, 4])},
      labels,
    )
  )
