"""tf.contrib.compiler: what XLA compiles."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib.compiler import jit, xla

_X = np.random.RandomState(1).normal(size=(4, 3)).astype(np.float32)


def _net(x):
  with tf.variable_scope("net", use_resource=True, reuse=tf.AUTO_REUSE):
    return tf.layers.dense(
      tf.layers.dense(x, 4, tf.tanh, name="a"), 2, name="b"
    )


def jit_scope():
  x = tf.placeholder_with_default(_X, [4, 3])
  with jit.experimental_jit_scope(separate_compiled_gradients=True):
    inside = _net(x)
    with jit.experimental_jit_scope(False):
      plain = tf.square(inside, name="plain")
  return {
    "inside": inside,
    "plain": plain,
    "is_compiled": [
      inside.op.get_attr("_XlaCompile"),
      plain.op.get_attr("_XlaCompile"),
    ],
  }


def compile_function():
  """The variables are made in it; it gives two tensors, and runs an op."""
  x = tf.placeholder_with_default(_X, [4, 3])
  count = tf.get_variable("count", initializer=0, use_resource=True)

  def step(x, factor):
    loss = tf.reduce_mean(tf.square(_net(x)) * factor)
    return loss, loss + 1, tf.assign_add(count, 2)

  loss, more = xla.compile(step, [x, 3.0])[:2]
  return {"loss_of": loss, "more": more}, tf.group(loss, more)


def _model_fn(features, labels, mode, params):
  loss = tf.losses.mean_squared_error(labels, _net(features["x"]))
  if mode == tf.estimator.ModeKeys.TRAIN:
    train_op = tf.train.MomentumOptimizer(params["rate"], 0.9).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
  return tf.contrib.tpu.TPUEstimatorSpec(
    mode,
    loss=loss,
    eval_metrics=(
      lambda losses, x: {"l": tf.metrics.mean(losses), "x": tf.metrics.mean(x)},
      {"x": features["x"], "losses": tf.reshape(loss, [1])},
    ),
  )


def _batch():
  return {"x": tf.placeholder_with_default(_X, [4, 3])}, tf.ones([4, 2])


def model_fn_that_trains():
  with tf.variable_scope("", use_resource=True):
    spec = xla.estimator_model_fn(_model_fn)(*_batch(), "train", {"rate": 0.1})
  return {"loss_of": spec.loss}, spec.train_op


def model_fn_that_evaluates():
  compiled = xla.estimator_model_fn()(_model_fn)
  spec = compiled(*_batch(), mode="eval", params={})
  metrics = {name: spec.eval_metric_ops[name][1] for name in ("l", "x")}
  return metrics, tf.group(*metrics.values())
