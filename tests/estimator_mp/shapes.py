"""Models of many shapes: what a slice has to carry along."""

from tests.estimator_mp import programs, zoo

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
BATCH = (
  {name: zoo.FEATURES[name] for name in ("x", "ids", "item")},
  zoo.LABELS.astype(np.float32),
)
_RNG = np.random.RandomState(5)
WEIGHTED = (
  BATCH[0] | {"weight": 0.5 + _RNG.rand(zoo.EXAMPLES, 1).astype(np.float32)},
  BATCH[1],
)


def _sgd(loss):
  optimizer = v1.train.GradientDescentOptimizer(0.1)
  return optimizer.minimize(loss, v1.train.get_global_step())


def _weight(name, shape):
  return v1.get_variable(
    name, shape, initializer=v1.truncated_normal_initializer(stddev=0.3)
  )


def _dense(net, units, name, activation=tf.tanh):
  net = tf.matmul(net, _weight(name, [net.shape[-1], units]))
  return net if activation is None else activation(net)


def _mean_loss(logits, labels):
  return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))


def _spec(mode, loss, train_op=None, **fields):
  train_op = _sgd(loss) if train_op is None else train_op
  return tf.estimator.EstimatorSpec(
    mode, loss=loss, train_op=train_op, **fields
  )


def skip_connections(features, labels, mode):
  nets = [features["x"]]
  for i in range(6):
    nets.append(_dense(nets[-1], 10, f"layer_{i}"))
  last = tf.concat([nets[-1] + nets[1], nets[2] * nets[4]], axis=1)
  return _spec(mode, _mean_loss(_dense(last, 1, "last", None), labels))


def tied_weights(features, labels, mode):
  """One table embeds words on the first stage and scores them on the last."""
  ids = features["ids"]
  table = _weight("table", [50, 8])
  net = tf.reduce_mean(tf.nn.embedding_lookup(table, ids[:, :-1]), axis=1)
  for i in range(3):
    net = _dense(net, 8, f"layer_{i}")
  scores = tf.matmul(net, table, transpose_b=True)
  loss = tf.nn.sparse_softmax_cross_entropy_with_logits(ids[:, -1], scores)
  return _spec(mode, tf.reduce_mean(loss) + 0 * tf.reduce_mean(labels))


def two_lookups(features, labels, mode):
  """One table is looked up on two stages: its gradient is sparse."""
  table = _weight("table", [50, 8])
  net = tf.reduce_mean(
    tf.nn.embedding_lookup(table, features["ids"][:, :6]), axis=1
  )
  for i in range(3):
    net = _dense(net, 8, f"layer_{i}")
  later = tf.nn.embedding_lookup(table, features["ids"][:, 6:])
  net = net * tf.reduce_sum(later, axis=1)
  return _spec(mode, _mean_loss(_dense(net, 1, "last", None), labels))


def conds(features, labels, mode):
  net = _dense(features["x"], 8, "first")
  step = v1.train.get_global_step()
  kernel = _weight("even", [8, 8])
  odd = _weight("odd", [8, 8])
  # The same branch for all micro-batches, and one that depends on examples.
  net = tf.cond(
    tf.equal(step % 2, 0),
    lambda: tf.matmul(net, kernel),
    lambda: tf.tanh(tf.matmul(net, odd)),
  )
  net = tf.cond(
    tf.reduce_max(features["x"]) < 100.0,
    lambda: tf.tanh(tf.matmul(net, odd)),
    lambda: net,
  )
  return _spec(mode, _mean_loss(_dense(net, 1, "last", None), labels))


def loops(features, labels, mode):
  kernel = _weight("kernel", [8, 8])
  net = _dense(features["x"], 8, "first")
  # As often as the graph says, and once per word of the example.
  _, net = tf.while_loop(
    lambda i, _: i < 3,
    lambda i, state: (i + 1, tf.tanh(tf.matmul(state, kernel))),
    [tf.constant(0), net],
  )
  scale = _weight("scale", [8])
  net = tf.map_fn(lambda row: tf.sin(row * scale), net)
  table = _weight("table", [50, 8])
  words = tf.transpose(
    tf.nn.embedding_lookup(table, features["ids"]), [1, 0, 2]
  )
  net = tf.scan(
    lambda state, word: tf.tanh(tf.matmul(state, kernel) + word), words, net
  )[-1]
  return _spec(mode, _mean_loss(_dense(net, 1, "last", None), labels))


def gan(features, labels, mode):
  """The generator's loss is made after the discriminator's update."""
  del labels
  with v1.variable_scope("generator"):
    made = _dense(features["x"][:, :4], 8, "a")
    made = _dense(made, 10, "b", None)

  def judge(net):
    with v1.variable_scope("judge", reuse=v1.AUTO_REUSE):
      return _dense(_dense(net, 8, "a"), 1, "b", None)

  real, fake = judge(features["x"]), judge(tf.stop_gradient(made))
  judge_loss = _mean_loss(real, tf.ones_like(real)) + _mean_loss(
    fake, tf.zeros_like(fake)
  )
  optimizer = v1.train.GradientDescentOptimizer(0.1)
  judge_op = optimizer.minimize(
    judge_loss, var_list=v1.trainable_variables("judge/")
  )
  with tf.control_dependencies([judge_op]):
    fooled = judge(made)
    generator_loss = _mean_loss(fooled, tf.ones_like(fooled))
    train_op = optimizer.minimize(
      generator_loss,
      v1.train.get_global_step(),
      v1.trainable_variables("generator/"),
    )
  return _spec(mode, judge_loss + generator_loss, train_op)


def gradient_penalty(features, labels, mode):
  """The gradient with respect to the inputs is part of the loss."""
  x = features["x"]
  net = _dense(_dense(x, 8, "first"), 8, "second")
  logits = _dense(net, 1, "last", None)
  (slopes,) = tf.gradients(logits, [x])
  norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=1) + 1e-6)
  penalty = tf.reduce_mean(tf.square(norms - 1.0))
  return _spec(mode, _mean_loss(logits, labels) + 10.0 * penalty)


def weighted_examples(features, labels, mode):
  logits = _dense(_dense(features["x"], 8, "first"), 1, "last", None)
  weights = features["weight"]
  v1.losses.sigmoid_cross_entropy(labels, logits, weights)
  v1.losses.mean_squared_error(
    labels,
    tf.sigmoid(logits),
    reduction=v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
  )
  return _spec(mode, v1.losses.get_total_loss())


def regularized_sum(features, labels, mode):
  """What does not depend on examples is there once per batch."""
  logits = _dense(_dense(features["x"], 8, "first"), 1, "last", None)
  loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
  kernel, last = v1.trainable_variables()
  v1.losses.add_loss(loss)
  v1.losses.add_loss(
    0.5 * tf.nn.l2_loss(kernel), v1.GraphKeys.REGULARIZATION_LOSSES
  )
  total = v1.losses.get_total_loss() - tf.reduce_sum(tf.abs(last))
  return _spec(mode, tf.identity(total))


def _counter(name, shape=(), dtype=tf.float32):
  return v1.get_variable(
    name, shape, dtype, v1.zeros_initializer(), trainable=False
  )


def counters(features, labels, mode):
  """Of examples, classes and hits, written off the way to the loss."""
  logits = _dense(_dense(features["x"], 8, "first"), 1, "last", None)
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
  with tf.control_dependencies(updates):
    return _spec(mode, tf.reduce_mean(losses))


def clipped(features, labels, mode):
  logits = _dense(_dense(features["x"], 8, "first"), 1, "last", None)
  loss = _mean_loss(10.0 * logits, labels)
  optimizer = v1.train.GradientDescentOptimizer(1.0)
  gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
  clipped, norm = tf.clip_by_global_norm(gradients, 0.1)
  v1.summary.scalar("norm", norm)
  train_op = optimizer.apply_gradients(
    zip(clipped, variables, strict=True), v1.train.get_global_step()
  )
  return _spec(mode, loss, train_op)


def assert_equals_the_full_batch(test, model_fn, batch, config):
  """Asserts that each step of a sharded model is the plain model's.

  That is of batches whose sizes the graph does not know, and does.

  Args:
    test: The test.
    model_fn: One of the models.
    batch: Features and labels, of which each step takes some.
    config: How to shard it.
  """
  plain = programs.Program(model_fn, None, batch)
  before = plain.variables()
  for is_static, sizes in ((False, (24, 25, 3)), (True, (24, 24))):
    program = programs.Program(
      model_fn, config, programs.examples(batch, 0, 24), None, is_static
    )
    with test.subTest(static=is_static):
      plain.load(before)
      batches = [programs.examples(batch, n // 5, n // 5 + n) for n in sizes]
      programs.assert_same_steps(test, plain, program, batches)
