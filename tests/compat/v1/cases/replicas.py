"""replicate_model_fn and TowerOptimizer of tf.contrib.estimator.

On 1.15 the model is on two devices, which are twice the same.
"""

import tempfile

import numpy as np
import tensorflow as tf

contrib = tf.contrib.estimator
_X = np.random.RandomState(7).normal(size=(6, 4)).astype(np.float32)
_CLASSES = np.array([0, 1, 2, 2, 1, 1])


def _input_fn():
  features = {"x": _X, "id": np.array([0, 3, 3, 1, 0, 4])}
  return tf.data.Dataset.from_tensors((features, _CLASSES)).repeat(3)


def _model_fn(reduction, make_optimizer):
  def model_fn(features, labels, mode, params):
    table = tf.get_variable("table", [5, 4])
    net = features["x"] + tf.nn.embedding_lookup(table, features["id"])
    logits = tf.layers.dense(net, params["classes"], name="logits")
    chances = tf.nn.softmax(logits)
    if mode == tf.estimator.ModeKeys.PREDICT:
      return tf.estimator.EstimatorSpec(mode, {"chances": chances})
    loss = tf.losses.sparse_softmax_cross_entropy(
      labels, logits, reduction=reduction
    )
    if mode == tf.estimator.ModeKeys.EVAL:
      accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, -1))
      return tf.estimator.EstimatorSpec(
        mode, loss=loss, eval_metric_ops={"accuracy": accuracy}
      )
    optimizer = contrib.TowerOptimizer(make_optimizer())
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


def _trained(reduction, make_optimizer, devices, **options):
  """Variables, metrics and predictions after three steps."""
  estimator = tf.estimator.Estimator(
    contrib.replicate_model_fn(
      _model_fn(reduction, make_optimizer), devices=devices, **options
    ),
    model_dir=tempfile.mkdtemp(),
    params={"classes": 3},
    config=tf.estimator.RunConfig(tf_random_seed=3),
  )
  estimator.train(_input_fn, steps=3)
  found = {
    name: estimator.get_variable_value(name)
    for name in estimator.get_variable_names()
  }
  for name, value in estimator.evaluate(_input_fn).items():
    found["eval/" + name] = value
  predicted = list(estimator.predict(_input_fn))
  found["chances"] = np.array([one["chances"] for one in predicted])
  return found


def _adam():
  return tf.train.AdamOptimizer(0.1)


def mean_on_two_devices():
  return _trained(
    tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS, _adam, ["/cpu:0", "/cpu:0"]
  )


def sum_on_two_devices():
  return _trained(
    tf.losses.Reduction.SUM,
    # Made when it is first asked for.
    lambda: lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    ["/cpu:0", "/cpu:0"],
    loss_reduction=tf.losses.Reduction.SUM,
  )


def mean_on_one_device():
  return _trained(
    tf.losses.Reduction.SUM_OVER_BATCH_SIZE,
    _adam,
    ["/cpu:0"],
    loss_reduction=tf.losses.Reduction.SUM,
  )


def tower_optimizer():
  x = tf.placeholder_with_default(_X, [6, 4])
  loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 2) - 1.0))
  before = contrib.TowerOptimizer.has_been_used()
  optimizer = contrib.TowerOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
  made = contrib.TowerOptimizer.has_been_used()
  step = tf.train.get_or_create_global_step()
  pairs = optimizer.compute_gradients(loss)
  train_op = optimizer.apply_gradients(pairs, step)
  return {
    "loss": loss,
    "used": [before, made, contrib.TowerOptimizer.has_been_used()],
    "name": optimizer.get_name(),
    "slots": optimizer.get_slot_names(),
    "slot": optimizer.get_slot(pairs[0][1], "momentum"),
    "variables": " ".join(one.op.name for one in optimizer.variables()),
  }, train_op
