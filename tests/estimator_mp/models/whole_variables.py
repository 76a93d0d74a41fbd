"""Optimizers and kernels that look at a whole variable, which may be split."""

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import tensorflow as tf

v1 = tf.compat.v1
_TAG = "whole_variables"


def _dense(net, units, name, activation=tf.tanh):
  with v1.variable_scope(name, reuse=v1.AUTO_REUSE):
    bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
    return activation(parts.layer(net, "kernel", units, None) + bias)


def _logits(net):
  return _dense(
    _dense(_dense(net, 12, "up"), 9, "down"), 1, "last", tf.identity
  )


def _trained(mode, net, labels, optimizer=None):
  logits = _dense(net, 1, "last", tf.identity)
  return parts.spec(mode, parts.mean_loss(labels, logits), optimizer)


def _then_step(*updates):
  with tf.control_dependencies([tf.group(*updates)]):
    return v1.assign_add(v1.train.get_global_step(), 1).op


def _by_hand(update):
  """Enters a model that updates each variable in a way of its own."""

  def model_fn(features, labels, mode):
    loss = parts.mean_loss(labels, _logits(features["x"]))
    variables = v1.trainable_variables()
    gradients = tf.gradients(loss, variables)
    updates = [
      update(gradient, variable)
      for gradient, variable in zip(gradients, variables, strict=True)
    ]
    return parts.spec(mode, loss, _then_step(*tf.nest.flatten(updates)))

  model_fn.__name__ = update.__name__
  return registry.of_rows("x", tags=_TAG)(model_fn)


def _slot(variable, name, shape=None):
  shape = variable.shape if shape is None else shape
  return parts.state(f"{variable.op.name}/{name}", shape)


@_by_hand
def lamb(gradient, variable):
  m, v = _slot(variable, "m"), _slot(variable, "v")
  next_m = 0.9 * m + 0.1 * gradient
  next_v = 0.99 * v + 0.01 * tf.square(gradient)
  step = next_m / (tf.sqrt(next_v) + 1e-3)
  if "bias" not in variable.op.name:
    step += 0.1 * variable
  ratio = tf.math.divide_no_nan(tf.norm(variable), tf.norm(step))
  ratio = tf.where(ratio > 0.0, ratio, 1.0)
  return [
    v1.assign_sub(variable, 0.1 * ratio * step),
    v1.assign(m, next_m),
    v1.assign(v, next_v),
  ]


@_by_hand
def adafactor(gradient, variable):
  if variable.shape.rank != 2:
    return v1.assign_sub(variable, 0.1 * gradient)
  rows = _slot(variable, "rows", variable.shape[:1])
  columns = _slot(variable, "columns", variable.shape[1:])
  squares = tf.square(gradient) + 1e-6
  by_row = 0.9 * rows + 0.1 * tf.reduce_mean(squares, 1)
  by_column = 0.9 * columns + 0.1 * tf.reduce_mean(squares, 0)
  by_row_now = by_row / tf.reduce_mean(by_row)
  step = gradient * tf.math.rsqrt(by_row_now[:, None] * by_column)
  step /= tf.maximum(1.0, tf.sqrt(tf.reduce_mean(tf.square(step))))
  scale = tf.sqrt(tf.reduce_mean(tf.square(variable)))
  return [
    v1.assign_sub(variable, 0.1 * scale * step),
    v1.assign(rows, by_row),
    v1.assign(columns, by_column),
  ]


@registry.of_rows("x", tags=_TAG)
def curvature(features, labels, mode):
  loss = parts.mean_loss(labels, _logits(features["x"]))
  variables = v1.trainable_variables()
  gradients = tf.gradients(loss, variables)
  constants = [tf.stop_gradient(gradient) for gradient in gradients]
  products = tf.gradients(gradients, variables, constants)
  updates = [
    v1.assign_sub(variable, 0.1 * (gradient + product))
    for variable, gradient, product in zip(
      variables, gradients, products, strict=True
    )
  ]
  return parts.spec(mode, loss, _then_step(*updates))


@registry.of_rows("x", tags=_TAG)
def recomputed(features, labels, mode):
  """The gradient of its own reads the kernel once more."""
  kernel = parts.weight("kernel", [10, 10])
  layer = tf.recompute_grad(lambda net: tf.tanh(tf.matmul(net, kernel)))
  net = _dense(layer(features["x"]), 8, "down")
  return _trained(mode, net, labels)


@registry.of_rows("x", tags=_TAG)
def pieces(features, labels, mode):
  """A kernel is used twice: transposed, sliced, reshaped, joined."""
  kernel = parts.weight("kernel", [10, 12])
  first = tf.matmul(features["x"], tf.reshape(kernel[:, :6], [10, 6]))
  second = tf.matmul(features["x"][:, :4], kernel[2:6, ::2])
  both = tf.concat([kernel[:, 6:], tf.reverse(kernel, [1])], axis=1)
  net = tf.concat([first, second, tf.matmul(features["x"], both)], axis=1)
  back = tf.matmul(tf.tanh(net[:, :12]), kernel, transpose_b=True)
  return _trained(mode, back, labels)


@registry.of_rows("x", tags=_TAG)
def normalized_weights(features, labels, mode):
  direction = parts.weight("direction", [10, 12])
  length = v1.get_variable("length", [12], initializer=v1.ones_initializer())
  net = features["x"] @ (length * tf.nn.l2_normalize(direction, axis=0))
  net = tf.nn.l2_normalize(tf.tanh(net), axis=1)
  return _trained(mode, net, labels)


@registry.of_rows("ids", tags=_TAG)
def looked_up_with_a_norm(features, labels, mode):
  table = parts.weight("table", [50, 8])
  found = tf.nn.embedding_lookup(table, features["ids"], max_norm=0.5)
  net = tf.reduce_mean(found, axis=1)
  loss = parts.mean_loss(labels, _dense(net, 1, "last", tf.identity))
  optimizer = v1.train.AdagradOptimizer(0.1)
  clipped = [
    (tf.clip_by_norm(gradient, 0.01), variable)
    for gradient, variable in optimizer.compute_gradients(loss)
  ]
  step = v1.train.get_global_step()
  return parts.spec(mode, loss, optimizer.apply_gradients(clipped, step))


@registry.of_rows("x", tags=_TAG)
def unused_half(features, labels, mode):
  """As a mean without its deviation: the second part has no gradient."""
  mean, _ = tf.split(_dense(features["x"], 8, "up"), 2, axis=1)
  return _trained(mode, mean, labels)


@registry.of_rows("ids", tags=_TAG)
def unused_columns(features, labels, mode):
  """The gradient of the table is of the rows that were looked up."""
  rows = tf.gather(parts.weight("table", [50, 8]), features["ids"][:, 0])
  _, used = tf.split(rows, 2, axis=1)
  optimizer = v1.train.MomentumOptimizer(0.2, 0.9)
  return _trained(mode, used, labels, optimizer)


@registry.of_rows("x", tags=_TAG)
def shared_minimum(features, labels, mode):
  """The gradient of a minimum is shared by the zeros of all parts."""
  net = _dense(features["x"], 7, "up", tf.nn.relu)
  net -= 0.5 * tf.reduce_min(net, axis=1, keepdims=True)
  return _trained(mode, net, labels)
