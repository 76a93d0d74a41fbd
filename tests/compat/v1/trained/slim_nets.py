"""Networks of tf.contrib.slim, small."""

import numpy as np
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib.slim import nets

_IMAGES = np.random.RandomState(3).normal(size=(4, 8, 8, 3))
_LABELS = [0, 2, 1, 2]


def _images():
  return tf.placeholder_with_default(
    _IMAGES.astype(np.float32), [None, 8, 8, 3]
  )


def _trained(training, evaluating):
  """Trains on logits, and returns those of the moving averages, too."""
  tf.losses.sparse_softmax_cross_entropy(_LABELS, training)
  train_op = slim.learning.create_train_op(
    tf.losses.get_total_loss(), tf.train.MomentumOptimizer(0.05, 0.9)
  )
  return {"logits": evaluating}, train_op


def resnet_v1():
  unit = nets.resnet_v1.resnet_v1_block

  def net(is_training):
    with slim.arg_scope(nets.resnet_utils.resnet_arg_scope()):
      logits, _ = nets.resnet_v1.resnet_v1(
        _images(),
        [unit("block1", 2, 2, 2), unit("block2", 3, 1, 1)],
        num_classes=3,
        is_training=is_training,
        include_root_block=False,
        reuse=None if is_training else True,
        scope="tiny",
      )
    return tf.squeeze(logits, [1, 2])

  return _trained(net(True), net(False))


def separable():
  def net():
    net = slim.conv2d(_images(), 4, [3, 3], stride=2, scope="Conv2d_0")
    net = slim.separable_conv2d(
      net, None, [3, 3], 1, scope="Conv2d_1_depthwise"
    )
    net = slim.conv2d(net, 6, [1, 1], scope="Conv2d_1_pointwise")
    net = tf.reduce_mean(net, [1, 2])
    return slim.fully_connected(net, 3, activation_fn=None, scope="Logits")

  def in_scopes(is_training):
    scope = tf.variable_scope("Mobile", reuse=None if is_training else True)
    layers = slim.arg_scope(
      [slim.conv2d, slim.separable_conv2d],
      normalizer_fn=slim.batch_norm,
      activation_fn=tf.nn.relu6,
      weights_regularizer=slim.l2_regularizer(4e-5),
    )
    norms = slim.arg_scope(
      [slim.batch_norm], is_training=is_training, scale=True, decay=0.9
    )
    with scope, layers, norms:
      return net()

  return _trained(in_scopes(True), in_scopes(False))


def vgg():
  def net(is_training):
    net = slim.repeat(_images(), 2, slim.conv2d, 4, [3, 3], scope="conv1")
    net = slim.max_pool2d(net, [2, 2], scope="pool1")
    net = slim.conv2d(net, 5, [4, 4], padding="VALID", scope="fc6")
    net = slim.dropout(net, 1.0, is_training=is_training)
    net = slim.conv2d(net, 3, [1, 1], activation_fn=None, scope="fc8")
    return tf.squeeze(net, [1, 2])

  def in_scopes(is_training):
    scope = tf.variable_scope("vgg", reuse=None if is_training else True)
    with scope, slim.arg_scope(nets.vgg.vgg_arg_scope()):
      return net(is_training)

  return _trained(in_scopes(True), in_scopes(False))
