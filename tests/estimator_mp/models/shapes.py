"""Models of many shapes: what a slice has to carry along.

They train, and do no more.
"""

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import tensorflow as tf

v1 = tf.compat.v1


def _logits(net):
  return parts.layer(net, "last", 1, None)


def _of_two_layers(features):
  return _logits(parts.layer(features["x"], "first", 8))


@registry.of_rows("x", tags="pairs")
def skip_connections(features, labels, mode):
  nets = [features["x"]]
  for i in range(6):
    nets.append(parts.layer(nets[-1], f"layer_{i}", 10))
  last = tf.concat([nets[-1] + nets[1], nets[2] * nets[4]], axis=1)
  return parts.spec(mode, parts.mean_loss(labels, _logits(last)))


@registry.of_rows("ids", tags="pairs table shared")
def tied_weights(features, labels, mode):
  """One table embeds words on the first stage and scores them on the last."""
  ids = features["ids"]
  table = parts.weight("table", [50, 8])
  net = tf.reduce_mean(tf.nn.embedding_lookup(table, ids[:, :-1]), axis=1)
  for i in range(3):
    net = parts.layer(net, f"layer_{i}", 8)
  scores = tf.matmul(net, table, transpose_b=True)
  loss = tf.nn.sparse_softmax_cross_entropy_with_logits(ids[:, -1], scores)
  return parts.spec(mode, tf.reduce_mean(loss) + 0 * tf.reduce_mean(labels))


@registry.of_rows("ids", tags="pairs table shared")
def two_lookups(features, labels, mode):
  """One table is looked up on two stages: its gradient is sparse."""
  table = parts.weight("table", [50, 8])
  net = tf.reduce_mean(
    tf.nn.embedding_lookup(table, features["ids"][:, :6]), axis=1
  )
  for i in range(3):
    net = parts.layer(net, f"layer_{i}", 8)
  later = tf.nn.embedding_lookup(table, features["ids"][:, 6:])
  net = net * tf.reduce_sum(later, axis=1)
  return parts.spec(mode, parts.mean_loss(labels, _logits(net)))


@registry.of_rows("x", tags="pairs shallow")
def conds(features, labels, mode):
  net = parts.layer(features["x"], "first", 8)
  step = v1.train.get_global_step()
  kernel = parts.weight("even", [8, 8])
  odd = parts.weight("odd", [8, 8])
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
  return parts.spec(mode, parts.mean_loss(labels, _logits(net)))


@registry.of_rows("x", "ids", tags="pairs rnn table")
def loops(features, labels, mode):
  kernel = parts.weight("kernel", [8, 8])
  net = parts.layer(features["x"], "first", 8)
  # As often as the graph says, and once per word of the example.
  _, net = tf.while_loop(
    lambda i, _: i < 3,
    lambda i, state: (i + 1, tf.tanh(tf.matmul(state, kernel))),
    [tf.constant(0), net],
  )
  scale = parts.weight("scale", [8])
  net = tf.map_fn(lambda row: tf.sin(row * scale), net)
  table = parts.weight("table", [50, 8])
  words = tf.transpose(
    tf.nn.embedding_lookup(table, features["ids"]), [1, 0, 2]
  )
  net = tf.scan(
    lambda state, word: tf.tanh(tf.matmul(state, kernel) + word), words, net
  )[-1]
  return parts.spec(mode, parts.mean_loss(labels, _logits(net)))


@registry.of_rows("x", tags="pairs shallow")
def gan(features, labels, mode):
  """The generator's loss is made after the discriminator's update."""
  del labels
  with v1.variable_scope("generator"):
    made = parts.layer(features["x"][:, :4], "a", 8)
    made = parts.layer(made, "b", 10, None)

  def judge(net):
    with v1.variable_scope("judge", reuse=v1.AUTO_REUSE):
      return parts.layer(parts.layer(net, "a", 8), "b", 1, None)

  real, fake = judge(features["x"]), judge(tf.stop_gradient(made))
  judge_loss = parts.mean_loss(tf.ones_like(real), real) + parts.mean_loss(
    tf.zeros_like(fake), fake
  )
  optimizer = v1.train.GradientDescentOptimizer(0.1)
  judge_op = optimizer.minimize(
    judge_loss, var_list=v1.trainable_variables("judge/")
  )
  with tf.control_dependencies([judge_op]):
    fooled = judge(made)
    generator_loss = parts.mean_loss(tf.ones_like(fooled), fooled)
    train_op = optimizer.minimize(
      generator_loss,
      v1.train.get_global_step(),
      v1.trainable_variables("generator/"),
    )
  return parts.spec(mode, judge_loss + generator_loss, train_op)


@registry.of_rows("x", tags="pairs shallow")
def gradient_penalty(features, labels, mode):
  """The gradient with respect to the inputs is part of the loss."""
  x = features["x"]
  net = parts.layer(parts.layer(x, "first", 8), "second", 8)
  logits = _logits(net)
  (slopes,) = tf.gradients(logits, [x])
  norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=1) + 1e-6)
  penalty = tf.reduce_mean(tf.square(norms - 1.0))
  return parts.spec(mode, parts.mean_loss(labels, logits) + 10.0 * penalty)


@registry.of_rows("x", "weight", tags="pairs shallow")
def weighted_examples(features, labels, mode):
  logits = _of_two_layers(features)
  weights = features["weight"]
  v1.losses.sigmoid_cross_entropy(labels, logits, weights)
  v1.losses.mean_squared_error(
    labels,
    tf.sigmoid(logits),
    reduction=v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
  )
  return parts.spec(mode, v1.losses.get_total_loss())


@registry.of_rows("x", tags="pairs shallow")
def regularized_sum(features, labels, mode):
  """What does not depend on examples is there once per batch."""
  logits = _of_two_layers(features)
  loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
  kernel, last = v1.trainable_variables()
  v1.losses.add_loss(loss)
  v1.losses.add_loss(
    0.5 * tf.nn.l2_loss(kernel), v1.GraphKeys.REGULARIZATION_LOSSES
  )
  total = v1.losses.get_total_loss() - tf.reduce_sum(tf.abs(last))
  return parts.spec(mode, tf.identity(total))


@registry.of_rows("x", tags="pairs shallow state")
def counters(features, labels, mode):
  """Of examples, classes and hits, written off the way to the loss."""
  logits = _of_two_layers(features)
  losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
  hits = tf.cast(tf.equal(tf.cast(logits > 0, tf.float32), labels), tf.int32)
  classes = tf.reduce_sum(tf.one_hot(tf.cast(labels[:, 0], tf.int32), 2), 0)
  updates = [
    parts.state("seen", dtype=tf.int64).assign_add(
      tf.shape(features["x"], out_type=tf.int64)[0]
    ),
    parts.state("classes", [2]).assign_add(classes),
    parts.state("hits", dtype=tf.int32).assign_add(tf.reduce_sum(hits)),
    parts.state("largest").assign(tf.reduce_max(losses)),
    parts.state("spread").assign(
      tf.sqrt(tf.reduce_mean(tf.square(losses - tf.reduce_mean(losses))))
    ),
    parts.state("share").assign(
      tf.reduce_sum(losses * labels) / tf.reduce_sum(losses)
    ),
  ]
  with tf.control_dependencies(updates):
    return parts.spec(mode, tf.reduce_mean(losses))


@registry.of_rows("x", tags="pairs shallow")
def clipped(features, labels, mode):
  logits = _of_two_layers(features)
  loss = parts.mean_loss(labels, 10.0 * logits)
  optimizer = v1.train.GradientDescentOptimizer(1.0)
  gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
  clipped, norm = tf.clip_by_global_norm(gradients, 0.1)
  v1.summary.scalar("norm", norm)
  train_op = parts.apply(optimizer, clipped, variables)
  return parts.spec(mode, loss, train_op)


@registry.of_rows("x", tags="pairs state")
def averages(features, labels, mode):
  """Moving averages of variables and of the loss; UPDATE_OPS; clipping."""
  net = features["x"]
  for _ in range(3):
    net = v1.layers.dense(net, 12, tf.tanh)
  logits = v1.layers.dense(net, 1)
  loss = parts.mean_loss(labels, logits)
  step = v1.train.get_global_step()
  of_loss = v1.train.ExponentialMovingAverage(0.8, name="of_loss")
  v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, of_loss.apply([loss]))
  optimizer = v1.train.RMSPropOptimizer(0.01)
  gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
  gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
  update = optimizer.apply_gradients(
    zip(gradients, variables, strict=True), step
  )
  averages = v1.train.ExponentialMovingAverage(0.9, step)
  with tf.control_dependencies(
    [update, *v1.get_collection(v1.GraphKeys.UPDATE_OPS)]
  ):
    train_op = averages.apply(variables)
  return parts.spec(mode, loss, train_op)
