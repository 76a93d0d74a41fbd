"""Networks of tf-slim and of tf.contrib.slim, with few and narrow layers."""

from tests.compat.packages import harness

import numpy as np
import tensorflow as tf
import tf_slim
from tensorflow.contrib import slim
from tensorflow.contrib.slim.nets import resnet_utils, resnet_v1
from tf_slim.nets import inception, resnet_v2

_CLASSES = 5


def contrib_resnet_v1(directory):
  """A residual network, by tf.contrib.slim and its training."""
  return _model(directory, _resnet_v1, _train_by_slim, 33)


def resnet_v2_of_tf_slim(directory):
  """A residual network with batch normalization before the convolutions."""
  return _model(directory, _resnet_v2, _train_by_tf_slim, 33)


def inception_v3(directory):
  """The first modules of Inception, with a fifth of the channels."""
  return _model(directory, _inception_v3, _train_by_tf_slim, 75)


def _resnet_v1(images, training):
  blocks = [
    resnet_v1.resnet_v1_block("block1", base_depth=2, num_units=2, stride=2),
    resnet_v1.resnet_v1_block("block2", base_depth=4, num_units=2, stride=1),
  ]
  with slim.arg_scope(resnet_utils.resnet_arg_scope(batch_norm_decay=0.9)):
    logits, _ = resnet_v1.resnet_v1(
      images, blocks, _CLASSES, is_training=training, scope="resnet"
    )
  return tf.squeeze(logits, [1, 2])


def _resnet_v2(images, training):
  blocks = [
    resnet_v2.resnet_v2_block("block1", base_depth=2, num_units=2, stride=2),
    resnet_v2.resnet_v2_block("block2", base_depth=4, num_units=2, stride=1),
  ]
  with tf_slim.arg_scope(resnet_v2.resnet_arg_scope(batch_norm_decay=0.9)):
    logits, _ = resnet_v2.resnet_v2(
      images, blocks, _CLASSES, is_training=training, scope="resnet"
    )
  return tf.squeeze(logits, [1, 2])


def _inception_v3(images, training):
  scope = inception.inception_v3_arg_scope()
  with (
    tf_slim.arg_scope(scope),
    tf_slim.arg_scope([tf_slim.batch_norm], is_training=training),
  ):
    net, _ = inception.inception_v3_base(
      images, final_endpoint="Mixed_5d", depth_multiplier=0.2
    )
  net = tf_slim.dropout(tf.reduce_mean(net, [1, 2]), is_training=training)
  return tf_slim.fully_connected(net, _CLASSES, activation_fn=None)


def _train_by_slim(loss):
  return slim.learning.create_train_op(
    loss,
    tf.train.MomentumOptimizer(0.01, 0.9),
    global_step=tf.train.get_global_step(),
    clip_gradient_norm=1.0,
  )


def _train_by_tf_slim(loss):
  return tf_slim.learning.create_train_op(
    loss,
    tf.train.GradientDescentOptimizer(0.001),
    global_step=tf.train.get_global_step(),
  )


def _model(directory, network, train, size):
  def model_fn(features, labels, mode):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    logits = network(features["image"], is_training)
    classes = tf.argmax(logits, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
      found = {"classes": classes, "logits": logits}
      return tf.estimator.EstimatorSpec(mode, predictions=found)
    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = tf.losses.get_total_loss()
    accuracy = tf.metrics.accuracy(labels, classes)
    return tf.estimator.EstimatorSpec(
      mode,
      loss=loss,
      train_op=train(loss) if is_training else None,
      eval_metric_ops={"accuracy": accuracy},
    )

  def input_fn():
    random = np.random.RandomState(1)
    images = random.normal(size=(16, size, size, 3)).astype(np.float32)
    labels = random.randint(0, _CLASSES, 16)
    data = tf.data.Dataset.from_tensor_slices(({"image": images}, labels))
    return data.batch(8)

  estimator = tf.estimator.Estimator(
    model_fn, config=harness.run_config(directory)
  )
  return harness.Model(
    estimator, lambda: input_fn().repeat(), input_fn, ("classes", "logits")
  )
