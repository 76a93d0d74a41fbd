"""tf.layers: values, names, initial values, reuse, collections."""

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(2).normal(size=(4, 6, 6, 3)).astype(np.float32)


def _images(shape=(None, 6, 6, 3)):
  return tf.placeholder_with_default(_X, shape)


def _rows():
  return tf.placeholder_with_default(_X[:, 0, :, 0], [None, 6])


def dense_with_all():
  y = tf.layers.dense(
    _rows(),
    4,
    tf.nn.tanh,
    kernel_initializer=tf.truncated_normal_initializer(stddev=0.1),
    bias_initializer=tf.ones_initializer(),
    kernel_regularizer=lambda w: tf.reduce_sum(w * w),
    name="first",
  )
  with tf.variable_scope("outer"):
    z = tf.layers.dense(y, 3, use_bias=False)
    z = tf.layers.dense(z, 3)
  losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
  return {"z": z, "count": len(losses), "loss": tf.add_n(losses)}


def reuse():
  first = tf.layers.dense(_rows(), 4, name="shared")
  second = tf.layers.dense(_rows() * 2, 4, name="shared", reuse=True)
  with tf.variable_scope("scope", reuse=tf.AUTO_REUSE):
    third = tf.layers.dense(_rows(), 2, name="auto")
  with tf.variable_scope("scope", reuse=tf.AUTO_REUSE):
    fourth = tf.layers.dense(_rows(), 2, name="auto")
  return {"a": first, "b": second, "c": third, "d": fourth}


def convolutions():
  x = _images()
  y = tf.layers.conv2d(x, 4, 3, padding="same", activation=tf.nn.relu)
  y = tf.layers.conv2d(y, 4, [3, 3], (2, 2), "SAME", name="second")
  y = tf.layers.separable_conv2d(y, 5, 2, depth_multiplier=2)
  y = tf.layers.conv2d_transpose(y, 2, 3, 2, padding="same")
  return {"y": y}


def batch_norm_in_training():
  y = tf.layers.conv2d(_images(), 4, 3, use_bias=False)
  y = tf.layers.batch_normalization(y, training=True)
  updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
  loss = tf.reduce_mean(tf.square(y - 1))
  with tf.control_dependencies(updates):
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
  return {"loss": loss, "y": y, "updates": len(updates)}, train


def batch_norm_not_fused():
  is_training = tf.placeholder_with_default(True, [])
  y = tf.layers.batch_normalization(
    _rows(), training=is_training, scale=False, epsilon=1e-2, fused=False
  )
  updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
  loss = tf.reduce_sum(y * _rows())
  with tf.control_dependencies(updates):
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
  return {"loss": loss, "updates": len(updates)}, train


def dropout():
  y = tf.layers.dropout(_rows(), 0.4, seed=7, training=True)
  z = tf.layers.dropout(_rows(), 0.4, training=True)
  return {"y": y, "z": z, "off": tf.layers.dropout(_rows(), 0.4)}


def layer_objects():
  layer = tf.layers.Dense(3, name="dense")
  one, two = layer(_rows()), layer(_rows() + 1)
  other = tf.layers.Dense(2, _scope="given")
  three = other.apply(one)
  count = len(layer.trainable_weights) + len(layer.variables)
  return {
    "one": one,
    "two": two,
    "three": three,
    "count": count,
    "name": layer.name,
    "scope": layer.scope_name,
    "names": " ".join(v.name for v in layer.variables + other.variables),
    "spec": str(layer.input_spec.axes),
  }


class _Scale(tf.layers.Layer):
  def build(self, input_shape):
    width = input_shape[-1].value
    self.scale = self.add_variable("scale", [width])
    self.fixed = self.add_variable(
      "fixed", shape=(width,), trainable=False, initializer=tf.ones_initializer
    )
    super(_Scale, self).build(input_shape)

  def call(self, inputs):
    self.add_loss(tf.reduce_sum(self.scale))
    return inputs * self.scale * self.fixed


def own_layers():
  layer = _Scale()
  again = _Scale(name="again")
  return {
    "y": again(layer(_rows())),
    "losses": len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)),
    "of_layer": len(layer.losses),
  }


def names_of_outputs():
  y = tf.layers.dense(_rows(), 2, activation=tf.nn.relu)
  z = tf.layers.conv2d(_images(), 2, 1, name="conv")
  w = tf.layers.batch_normalization(z, training=True)
  v = tf.layers.dropout(w, training=True)
  u = tf.layers.max_pooling2d(v, 2, 2)
  f = tf.layers.flatten(u)
  return {
    "names": " ".join(one.name for one in (y, z, w, u, f)),
  }
