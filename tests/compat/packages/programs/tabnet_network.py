"""No package but TensorFlow: an attentive network for tables.

After Arik and Pfister, "TabNet: Attentive Interpretable Tabular Learning",
2019: each step chooses its features by a sparse mask, of what the steps before
left. Virtual batches are normalized, linear units are gated, and blocks shared
by all steps are reused variables.
"""

from tests.compat.packages import harness

import numpy as np
import tensorflow as tf

_FEATURES, _OUTPUTS, _CLASSES = 7, 4, 3
_STEPS, _RELAXATION, _SPARSITY = 2, 1.5, 0.01
_BATCH, _VIRTUAL = 32, 16


def classifier(directory):
  """Numbers and embedded categories, with a decay of the learning rate."""
  estimator = tf.estimator.Estimator(
    _model_fn, config=harness.run_config(directory)
  )
  return harness.Model(
    estimator,
    lambda: _data().repeat(),
    _data,
    ("classes", "probabilities", "mask"),
  )


def _gated(net):
  return net[:, :_OUTPUTS] * tf.nn.sigmoid(net[:, _OUTPUTS:])


def _normalized(net, is_training):
  return tf.layers.batch_normalization(
    net, momentum=0.7, training=is_training, virtual_batch_size=_VIRTUAL
  )


def _block(net, name, step, is_training):
  """A gated layer, with a way around it where sizes agree.

  Its weights are those of the name. The moments are each step's own.
  """
  with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
    hidden = tf.layers.dense(net, 2 * _OUTPUTS, use_bias=False, name="dense")
  with tf.variable_scope("%s_norm_%d" % (name, step)):
    hidden = _gated(_normalized(hidden, is_training))
  if net.shape[1].value != _OUTPUTS:
    return hidden
  return (hidden + net) * np.sqrt(0.5).astype(np.float32)


def _transformed(features, step, is_training):
  """Two blocks of all steps, and two of this one."""
  net = features
  for name in ("shared_0", "shared_1", "own_0_%d" % step, "own_1_%d" % step):
    net = _block(net, name, step, is_training)
  return net


def _masks(features, is_training):
  """Returns the sum of the decisions, all masks and how spread they are."""
  prior = tf.ones_like(features)
  attended = features
  total, entropy, masks = 0.0, 0.0, []
  for step in range(_STEPS + 1):
    net = _transformed(attended, step, is_training)
    decision, attention = tf.split(net, 2, axis=1)
    if step:
      total += tf.nn.relu(decision)
    if step == _STEPS:
      break
    chosen = tf.layers.dense(
      attention, _FEATURES, use_bias=False, name="attention_%d" % step
    )
    with tf.variable_scope("attention_%d_norm" % step):
      chosen = _normalized(chosen, is_training)
    mask = tf.contrib.sparsemax.sparsemax(chosen * prior)
    prior *= _RELAXATION - mask
    entropy -= tf.reduce_mean(tf.reduce_sum(mask * tf.log(mask + 1e-5), axis=1))
    attended = mask * features
    masks.append(mask)
  return total, tf.stack(masks, axis=1), entropy / _STEPS


def _model_fn(features, labels, mode):
  is_training = mode == tf.estimator.ModeKeys.TRAIN
  columns = [
    tf.feature_column.numeric_column("numbers", 4),
    tf.feature_column.embedding_column(
      tf.feature_column.categorical_column_with_identity("kind", 5), 3
    ),
  ]
  inputs = tf.feature_column.input_layer(features, columns)
  inputs = tf.layers.batch_normalization(
    inputs, momentum=0.7, training=is_training
  )
  total, masks, entropy = _masks(inputs, is_training)
  logits = tf.layers.dense(total, _CLASSES, use_bias=False)
  classes = tf.argmax(logits, axis=1)
  if mode == tf.estimator.ModeKeys.PREDICT:
    found = {
      "classes": classes,
      "probabilities": tf.nn.softmax(logits),
      "mask": masks,
    }
    return tf.estimator.EstimatorSpec(mode, predictions=found)
  loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
  loss += _SPARSITY * entropy
  step = tf.train.get_global_step()
  rate = tf.train.exponential_decay(0.01, step, 5, 0.9, staircase=True)
  optimizer = tf.train.MomentumOptimizer(rate, 0.9)
  with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
    gradients = optimizer.compute_gradients(loss)
    clipped = [(tf.clip_by_value(x, -2.0, 2.0), y) for x, y in gradients]
    train_op = optimizer.apply_gradients(clipped, step)
  return tf.estimator.EstimatorSpec(
    mode,
    loss=loss,
    train_op=train_op,
    eval_metric_ops={"accuracy": tf.metrics.accuracy(labels, classes)},
  )


def _data():
  random = np.random.RandomState(1)
  features = {
    "numbers": random.normal(size=[64, 4]).astype(np.float32),
    "kind": random.randint(0, 5, 64),
  }
  labels = random.randint(0, _CLASSES, 64)
  data = tf.data.Dataset.from_tensor_slices((features, labels))
  return data.batch(_BATCH, drop_remainder=True)
