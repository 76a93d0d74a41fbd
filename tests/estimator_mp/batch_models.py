"""Models whose losses, gradients and variables need the whole batch."""

from tests.estimator_mp import zoo

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
_RNG = np.random.RandomState(3)
BATCH = (
  {
    "x": zoo.FEATURES["x"],
    "ids": zoo.FEATURES["ids"],
    "weight": 0.5 + _RNG.rand(zoo.EXAMPLES, 1).astype(np.float32),
  },
  zoo.LABELS.astype(np.float32),
)


def weight(name, shape):
  """Returns a variable with small initial values."""
  return v1.get_variable(
    name, shape, initializer=v1.truncated_normal_initializer(stddev=0.3)
  )


def _logits(features, outputs=1):
  net = tf.tanh(tf.matmul(features["x"], weight("first", [10, 8])))
  return tf.matmul(net, weight("last", [8, outputs]))


def spec(mode, loss, updates=()):
  """Returns what a model_fn does, which trains by plain descent."""
  step = v1.train.get_global_step()
  optimizer = v1.train.GradientDescentOptimizer(0.1)
  with tf.control_dependencies(updates):
    train_op = optimizer.minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _losses(features, labels, outputs=1):
  return tf.nn.sigmoid_cross_entropy_with_logits(
    labels + tf.zeros([outputs]), _logits(features, outputs)
  )


def vector_of_one(features, labels, mode):
  return spec(mode, tf.reduce_mean(_losses(features, labels), axis=0))


def means_of_tasks(features, labels, mode):
  losses = tf.reduce_mean(_losses(features, labels, 4), axis=0)
  weights = tf.constant([0.1, 0.2, 0.3, 0.4])
  variables = v1.trainable_variables()
  gradients = tf.gradients(losses * weights, variables)
  train_op = v1.train.GradientDescentOptimizer(0.1).apply_gradients(
    zip(gradients, variables, strict=True), v1.train.get_global_step()
  )
  loss = tf.reduce_sum(losses * weights)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def total(features, labels, mode):
  return spec(mode, tf.reduce_sum(_losses(features, labels)))


def total_by_size(features, labels, mode):
  size = tf.cast(tf.shape(features["x"])[0], tf.float32)
  return spec(mode, tf.reduce_sum(_losses(features, labels)) / size)


def total_by_weights(features, labels, mode):
  """As padding is masked: the divisor is of the whole batch."""
  weights = features["weight"]
  losses = weights * _losses(features, labels)
  loss = tf.reduce_sum(losses) / (tf.reduce_sum(weights) + 1e-5)
  return spec(mode, loss)


def total_and_mean(features, labels, mode):
  losses = _losses(features, labels)
  loss = 0.01 * tf.reduce_sum(losses) + tf.reduce_mean(tf.square(losses))
  penalty = tf.add_n([tf.nn.l2_loss(w) for w in v1.trainable_variables()])
  return spec(mode, loss + 0.1 * penalty)


def keras_loss(features, labels, mode):
  loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
  return spec(
    mode, loss(labels, _logits(features), sample_weight=features["weight"])
  )


def v1_losses(features, labels, mode):
  v1.losses.sigmoid_cross_entropy(
    labels, _logits(features), weights=features["weight"]
  )
  return spec(mode, v1.losses.get_total_loss())


def norm_penalty(features, labels, mode):
  """The norm of the gradient is a part of the loss."""
  loss = tf.reduce_mean(_losses(features, labels))
  gradients = tf.gradients(loss, v1.trainable_variables())
  norm = tf.add_n([tf.reduce_sum(g * g) for g in gradients])
  return spec(mode, loss + 3.0 * norm)


def norm_penalty_of_tape(features, labels, mode):
  with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
      loss = tf.reduce_mean(_losses(features, labels))
    variables = v1.trainable_variables()
    gradients = inner.gradient(loss, variables)
    norm = tf.add_n([tf.reduce_sum(g * g) for g in gradients])
    loss += 3.0 * norm
  gradients = outer.gradient(loss, variables)
  train_op = v1.train.GradientDescentOptimizer(0.1).apply_gradients(
    zip(gradients, variables, strict=True), v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def maml(features, labels, mode):
  """A step of gradient descent inside of the model."""
  first, last = weight("first", [10, 8]), weight("last", [8, 1])

  def loss_of(first, last):
    logits = tf.matmul(tf.tanh(tf.matmul(features["x"], first)), last)
    return tf.reduce_mean(
      tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    )

  d_first, d_last = tf.gradients(loss_of(first, last), [first, last])
  return spec(mode, loss_of(first - 0.5 * d_first, last - 0.5 * d_last))


def hessian_vector(features, labels, mode):
  loss = tf.reduce_mean(_losses(features, labels))
  variables = v1.trainable_variables()
  gradients = tf.gradients(loss, variables)
  products = tf.gradients(
    gradients, variables, [tf.ones_like(v) for v in variables]
  )
  train_op = v1.train.GradientDescentOptimizer(0.1).apply_gradients(
    zip(products, variables, strict=True), v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def adversarial(features, labels, mode):
  """Examples moved along the gradient of their own loss."""
  x = features["x"]
  with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
    loss = tf.reduce_mean(_losses({"x": x}, labels))
    (slope,) = tf.gradients(loss, [x])
    moved = tf.stop_gradient(x + 5.0 * slope)
    loss += tf.reduce_mean(_losses({"x": moved}, labels))
  return spec(mode, loss)


def slope_penalty(features, labels, mode):
  """The gradient of a mean loss by its inputs is a part of the loss."""
  loss = tf.reduce_mean(_losses(features, labels))
  (slopes,) = tf.gradients(loss, [features["x"]])
  return spec(mode, loss + 100.0 * tf.reduce_sum(tf.square(slopes)))


def two_steps(features, labels, mode):
  """Backpropagation from an activation on, with what came to it."""
  first, last = weight("first", [10, 8]), weight("last", [8, 1])
  net = tf.tanh(tf.matmul(features["x"], first))
  loss = tf.reduce_mean(
    tf.nn.sigmoid_cross_entropy_with_logits(labels, tf.matmul(net, last))
  )
  d_last, d_net = tf.gradients(loss, [last, net])
  (d_first,) = tf.gradients(net, [first], grad_ys=[d_net])
  train_op = v1.train.GradientDescentOptimizer(0.1).apply_gradients(
    [(d_first, first), (d_last, last)], v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _counter(name, shape=(), dtype=tf.float32):
  return v1.get_variable(
    name, shape, dtype, v1.zeros_initializer(), trainable=False
  )


def counters(features, labels, mode):
  """Of examples, classes and hits, written off the way to the loss."""
  logits = _logits(features)
  losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
  hits = tf.cast(tf.equal(tf.cast(logits > 0, tf.float32), labels), tf.int32)
  classes = tf.reduce_sum(tf.one_hot(tf.cast(labels[:, 0], tf.int32), 2), 0)
  updates = [
    _counter("seen", (), tf.int64).assign_add(
      tf.shape(features["x"], out_type=tf.int64)[0]
    ),
    _counter("classes", [2]).assign_add(classes),
    _counter("hits", (), tf.int32).assign_add(tf.reduce_sum(hits)),
    _counter("largest").assign(tf.reduce_max(losses)),
    _counter("spread").assign(
      tf.sqrt(tf.reduce_mean(tf.square(losses - tf.reduce_mean(losses))))
    ),
    _counter("share").assign(
      tf.reduce_sum(losses * labels) / tf.reduce_sum(losses)
    ),
  ]
  return spec(mode, tf.reduce_mean(losses), updates)


def centers(features, labels, mode):
  """Center loss: the mean activation of each class moves with the batch."""
  net = tf.tanh(tf.matmul(features["x"], weight("first", [10, 8])))
  classes = tf.cast(labels[:, 0], tf.int32)
  table = _counter("centers", [2, 8])
  distances = tf.gather(table, classes) - net
  update = v1.scatter_sub(table, classes, 0.5 * distances)
  logits = tf.matmul(net, weight("last", [8, 1]))
  losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
  loss = tf.reduce_mean(losses) + tf.reduce_mean(tf.square(distances))
  return spec(mode, loss, [update])


def streaming_metric(features, labels, mode):
  logits = _logits(features)
  losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
  _, accuracy = v1.metrics.accuracy(labels, tf.cast(logits > 0, tf.float32))
  for variable in v1.local_variables():
    v1.add_to_collection(v1.GraphKeys.GLOBAL_VARIABLES, variable)
  return spec(mode, tf.reduce_mean(losses), [accuracy])


def area_under_curve(features, labels, mode):
  logits = _logits(features)
  losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
  _, auc = v1.metrics.auc(labels, tf.sigmoid(logits))
  for variable in v1.local_variables():
    v1.add_to_collection(v1.GraphKeys.GLOBAL_VARIABLES, variable)
  return spec(mode, tf.reduce_mean(losses), [auc])


def root_of_mean(features, labels, mode):
  return spec(mode, tf.sqrt(tf.reduce_mean(_losses(features, labels))))


def centered(features, labels, mode):
  """What all activations have in common goes back into each of them."""
  net = tf.tanh(tf.matmul(features["x"], weight("before", [10, 10])))
  x = net - tf.reduce_mean(net, 0)
  return spec(mode, tf.reduce_mean(_losses({"x": x}, labels)))


def in_batch_softmax(features, labels, mode):
  """Each example is told from the others of its batch."""
  del labels
  net = tf.matmul(features["x"], weight("tower", [10, 8]))
  scores = tf.matmul(net, net, transpose_b=True)
  size = tf.shape(net)[0]
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
    tf.range(size), scores
  )
  return spec(mode, tf.reduce_mean(losses))


def python_in_summary(features, labels, mode):
  losses = _losses(features, labels)
  ordered = tf.py_function(lambda x: tf.sort(x), [losses[:, 0]], tf.float32)
  ordered.set_shape([None])
  v1.summary.scalar("smallest", ordered[0])
  return spec(mode, tf.reduce_mean(losses))


LOSSES = (
  vector_of_one,
  means_of_tasks,
  total,
  total_by_size,
  total_by_weights,
  total_and_mean,
  keras_loss,
  v1_losses,
)
GRADIENTS = (
  norm_penalty,
  norm_penalty_of_tape,
  maml,
  hessian_vector,
  adversarial,
  slope_penalty,
  two_steps,
)
UPDATES = (counters, centers, streaming_metric)
