"""Losses of many kinds: of one example, of pairs, and of the whole batch."""

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import tensorflow as tf

v1 = tf.compat.v1


@registry.model("x")
def plain_mean(features, labels, mode):
  return parts.spec(mode, parts.mean_loss(labels, parts.logits(features["x"])))


@registry.model("x")
def plain_sum(features, labels, mode):
  losses = parts.losses(labels, parts.logits(features["x"]))
  loss = tf.reduce_sum(losses)
  return parts.spec(mode, loss, parts.descend(loss, 0.01))


@registry.model("x", labels=("label", "score"))
def two_losses(features, labels, mode):
  """Two heads; the loss of one is a mean, that of the other a sum."""
  net = parts.tower(features["x"])
  first = parts.losses(labels["label"], v1.layers.dense(net, 1))
  second = tf.square(labels["score"] - v1.layers.dense(net, 1))
  return parts.spec(mode, tf.reduce_mean(first) + 0.01 * tf.reduce_sum(second))


@registry.model("x")
def l2_regularisation(features, labels, mode):
  """Regularizers of layers, collected by get_regularization_loss."""
  regularizer = tf.keras.regularizers.l2(0.05)
  net = features["x"]
  for units in (16, 8):
    net = v1.layers.dense(net, units, tf.tanh, kernel_regularizer=regularizer)
  losses = parts.losses(labels, v1.layers.dense(net, 1))
  penalty = v1.losses.get_regularization_loss()
  return parts.spec(mode, tf.reduce_mean(losses) + penalty)


@registry.model("x", labels="class")
def label_smoothing(features, labels, mode):
  hot = tf.one_hot(labels, registry.CLASSES)
  logits = parts.logits(features["x"], registry.CLASSES)
  loss = v1.losses.softmax_cross_entropy(hot, logits, label_smoothing=0.1)
  return parts.spec(mode, loss)


@registry.model("x")
def focal(features, labels, mode):
  """The sum of focal losses by the number of positive examples."""
  logits = parts.logits(features["x"])
  chance = tf.sigmoid(logits)
  right = labels * chance + (1.0 - labels) * (1.0 - chance)
  losses = tf.square(1.0 - right) * parts.losses(labels, logits)
  positives = tf.maximum(tf.reduce_sum(labels), 1.0)
  return parts.spec(mode, tf.reduce_sum(losses) / positives)


@registry.model("x", labels="score")
def root_of_mean(features, labels, mode):
  errors = tf.square(parts.logits(features["x"]) - labels)
  return parts.spec(mode, tf.sqrt(tf.reduce_mean(errors)))


@registry.model("x")
def dice(features, labels, mode):
  """Dice over all examples of the batch."""
  chance = tf.sigmoid(parts.logits(features["x"]))
  both = tf.reduce_sum(chance * labels)
  either = tf.reduce_sum(chance) + tf.reduce_sum(labels)
  return parts.spec(mode, 1.0 - (2.0 * both + 1.0) / (either + 1.0))


@registry.model("x", labels="score")
def pearson(features, labels, mode):
  """One minus the correlation of outputs and labels."""
  outputs = parts.logits(features["x"])
  outputs -= tf.reduce_mean(outputs)
  expected = labels - tf.reduce_mean(labels)
  product = tf.reduce_sum(outputs * expected)
  norms = tf.norm(outputs) * tf.norm(expected)
  return parts.spec(mode, 1.0 - product / (norms + 1e-6))


@registry.model("x")
def nt_xent(features, labels, mode):
  """SimCLR: two views of each example among all views of the batch."""
  del labels
  views = tf.concat([features["x"], 0.9 * features["x"]], 0)
  net = tf.nn.l2_normalize(parts.tower(views), 1)
  size = tf.shape(features["x"])[0]
  scores = tf.matmul(net, net, transpose_b=True) / 0.5
  scores -= 1e9 * tf.eye(2 * size)
  targets = tf.concat([tf.range(size) + size, tf.range(size)], 0)
  return parts.spec(mode, tf.reduce_mean(parts.class_losses(targets, scores)))


@registry.model("x", "other", "rank")
def in_batch_softmax(features, labels, mode):
  """Two towers; the items of other examples are negatives, by frequency."""
  del labels
  user = parts.tower(features["x"], scope="user")
  item = parts.tower(features["other"], scope="item")
  scores = tf.matmul(user, item, transpose_b=True)
  frequency = (1.0 + tf.cast(features["rank"], tf.float32)) / 100.0
  scores -= tf.math.log(frequency)
  targets = tf.range(tf.shape(scores)[0])
  return parts.spec(mode, tf.reduce_mean(parts.class_losses(targets, scores)))


@registry.model("x", labels="score")
def all_pairs_ranking(features, labels, mode):
  """RankNet over all pairs of the batch."""
  outputs = parts.logits(features["x"])
  margins = outputs - tf.transpose(outputs)
  above = tf.cast(labels > tf.transpose(labels), tf.float32)
  losses = above * tf.nn.softplus(-margins)
  loss = tf.reduce_sum(losses) / tf.maximum(tf.reduce_sum(above), 1.0)
  return parts.spec(mode, loss)


@registry.model("x", labels="class")
def mined_triplets(features, labels, mode):
  """Batch-hard: the farthest positive and the nearest negative."""
  net = parts.tower(features["x"])
  dots = tf.matmul(net, net, transpose_b=True)
  squares = tf.linalg.diag_part(dots)
  distances = squares[:, tf.newaxis] - 2.0 * dots + squares[tf.newaxis]
  same = tf.cast(tf.equal(labels[:, tf.newaxis], labels), tf.float32)
  positive = tf.reduce_max(same * distances, 1)
  negative = tf.reduce_min(distances + 100.0 * same, 1)
  losses = tf.nn.relu(positive - negative + 0.5)
  return parts.spec(mode, tf.reduce_mean(losses))


@registry.model("x")
def hard_examples(features, labels, mode):
  """OHEM: the mean of the three largest losses."""
  losses = parts.losses(labels, parts.logits(features["x"]))[:, 0]
  hardest, _ = tf.nn.top_k(losses, 3)
  return parts.spec(mode, tf.reduce_mean(hardest))


@registry.model("x")
def hard_half(features, labels, mode):
  """The harder half of the batch, by its size."""
  losses = parts.losses(labels, parts.logits(features["x"]))[:, 0]
  hardest, _ = tf.nn.top_k(losses, tf.shape(losses)[0] // 2)
  return parts.spec(mode, tf.reduce_mean(hardest))


@registry.model("x", labels=("time", "event"))
def cox(features, labels, mode):
  """The partial likelihood: who is still at risk is in the same batch."""
  risk = parts.logits(features["x"])[:, 0]
  order = tf.argsort(labels["time"], direction="DESCENDING")
  risk = tf.gather(risk, order)
  event = tf.gather(labels["event"], order)
  at_risk = tf.math.log(tf.cumsum(tf.exp(risk)))
  loss = tf.reduce_sum((at_risk - risk) * event)
  return parts.spec(mode, loss / (tf.reduce_sum(event) + 1e-6))


@registry.model("x")
def balanced_experts(features, labels, mode):
  """Switch: the share of each expert times its mean chance."""
  net = parts.tower(features["x"])
  chances = tf.nn.softmax(v1.layers.dense(net, 3, name="router"))
  chosen = tf.one_hot(tf.argmax(chances, 1), 3)
  experts = parts.weight("experts", [3, 8, 8])
  outputs = tf.einsum("bi,eio->beo", net, experts)
  net = tf.reduce_sum(outputs * (chosen * chances)[..., tf.newaxis], 1)
  balance = tf.reduce_mean(chosen, 0) * tf.reduce_mean(chances, 0)
  losses = parts.losses(labels, v1.layers.dense(net, 1))
  return parts.spec(mode, tf.reduce_mean(losses) + tf.reduce_sum(balance) * 3)


@registry.model("x")
def barlow_twins(features, labels, mode):
  """The correlation of two views over the batch is to be the identity."""
  del labels

  def standardised(x):
    mean, variance = tf.nn.moments(x, [0])
    return (x - mean) / tf.sqrt(variance + 1e-4)

  first = standardised(parts.tower(features["x"]))
  second = standardised(parts.tower(0.8 * features["x"] + 0.1))
  size = tf.cast(tf.shape(first)[0], tf.float32)
  correlation = tf.matmul(first, second, transpose_a=True) / size
  errors = tf.square(correlation - tf.eye(8))
  loss = tf.reduce_sum(tf.linalg.diag_part(errors))
  loss += 0.1 * (tf.reduce_sum(errors) - loss)
  return parts.spec(mode, loss, parts.descend(loss, 0.01))


@registry.model("x")
def variance_of_activations(features, labels, mode):
  """VICReg's hinge on the deviation of each activation."""
  net = parts.tower(features["x"])
  losses = parts.losses(labels, v1.layers.dense(net, 1))
  deviation = tf.sqrt(tf.math.reduce_variance(net, 0) + 1e-4)
  hinge = tf.reduce_mean(tf.nn.relu(1.0 - deviation))
  return parts.spec(mode, tf.reduce_mean(losses) + hinge)


@registry.model("x")
def sparse_activations(features, labels, mode):
  """The mean activation of a unit over the batch is held at 5%."""
  x = features["x"]
  net = v1.layers.dense(x, 16, tf.sigmoid)
  rho = tf.reduce_mean(net, 0)
  divergence = 0.05 * tf.math.log(0.05 / rho)
  divergence += 0.95 * tf.math.log(0.95 / (1.0 - rho))
  losses = parts.losses(labels, v1.layers.dense(net, 1))
  loss = tf.reduce_mean(losses) + 0.1 * tf.reduce_sum(divergence)
  return parts.spec(mode, loss)


@registry.model("x", "other")
def maximum_mean_discrepancy(features, labels, mode):
  """Two domains are compared by kernels between all examples."""
  first = parts.tower(features["x"])
  second = parts.tower(features["other"])

  def kernel(a, b):
    distances = tf.reduce_sum(tf.square(a[:, tf.newaxis] - b), 2)
    return tf.reduce_mean(tf.exp(-distances))

  between = kernel(first, first) + kernel(second, second)
  between -= 2.0 * kernel(first, second)
  losses = parts.losses(labels, v1.layers.dense(first, 1))
  return parts.spec(mode, tf.reduce_mean(losses) + between)


@registry.model("x", labels="partial")
def mean_of_boolean_mask(features, labels, mode):
  """Missing labels are left out."""
  logits = parts.logits(features["x"], registry.CLASSES)
  known = labels >= 0
  losses = parts.class_losses(
    tf.boolean_mask(labels, known), tf.boolean_mask(logits, known)
  )
  return parts.spec(mode, tf.reduce_mean(losses))


@registry.model("x", labels="partial")
def sum_of_boolean_mask(features, labels, mode):
  logits = parts.logits(features["x"], registry.CLASSES)
  losses = parts.class_losses(tf.maximum(labels, 0), logits)
  loss = tf.reduce_sum(tf.boolean_mask(losses, labels >= 0))
  return parts.spec(mode, loss, parts.descend(loss, 0.02))


@registry.model("x", labels="partial")
def missing_labels(features, labels, mode):
  """Missing labels weigh nothing."""
  logits = parts.logits(features["x"], registry.CLASSES)
  known = tf.cast(tf.not_equal(labels, -1), tf.float32)
  losses = parts.class_losses(tf.nn.relu(labels), logits)
  loss = tf.math.divide_no_nan(
    tf.reduce_sum(losses * known), tf.reduce_sum(known)
  )
  return parts.spec(mode, loss)


@registry.model("words", "length", tags="ordinary table")
def masked_losses_of_open_length(features, labels, mode):
  """tf.losses over a time that no graph knows, without its padding."""
  words = tf.squeeze(features["words"], -1)
  table = parts.weight("table", [registry.VOCABULARY, 8])
  net = tf.nn.embedding_lookup(table, words[:, :-1])
  logits = v1.layers.dense(v1.layers.dense(net, 8, tf.tanh), 30)
  mask = tf.cast(tf.not_equal(words[:, 1:], 0), tf.float32)
  loss = v1.losses.sparse_softmax_cross_entropy(words[:, 1:], logits, mask)
  return parts.spec(mode, loss + 0.0 * tf.reduce_mean(labels))


@registry.model("x")
def class_weights_by_where(features, labels, mode):
  losses = parts.losses(labels, parts.logits(features["x"]))
  weights = tf.where(labels > 0.5, 3.0 * labels, tf.ones_like(labels))
  loss = tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)
  return parts.spec(mode, loss)


@registry.model("x", "user")
def losses_by_segment(features, labels, mode):
  """The mean over users of each user's mean."""
  losses = parts.losses(labels, parts.logits(features["x"]))[:, 0]
  user = features["user"]
  sums = tf.math.unsorted_segment_sum(losses, user, 6)
  counts = tf.math.unsorted_segment_sum(tf.ones_like(losses), user, 6)
  means = tf.math.divide_no_nan(sums, counts)
  there = tf.reduce_sum(tf.cast(counts > 0.0, tf.float32))
  return parts.spec(mode, tf.reduce_sum(means) / there)


@registry.model("seq")
def einsum_weights(features, labels, mode):
  """Attention written in einsum."""
  net = features["seq"]
  query = tf.einsum("btd,dhk->bthk", net, parts.weight("query", [4, 2, 4]))
  key = tf.einsum("btd,dhk->bthk", net, parts.weight("key", [4, 2, 4]))
  value = tf.einsum("btd,dhk->bthk", net, parts.weight("value", [4, 2, 4]))
  shares = tf.nn.softmax(tf.einsum("bqhk,bthk->bhqt", query, key))
  net = tf.einsum("bhqt,bthk->bqhk", shares, value)
  net = tf.einsum("bqhk,hkd->bd", net, parts.weight("out", [2, 4, 8]))
  return parts.spec(mode, parts.loss_of(labels, tf.tanh(net)))


@registry.model("seq")
def tensordot_weights(features, labels, mode):
  net = tf.tensordot(features["seq"], parts.weight("first", [4, 8]), [[2], [0]])
  net = tf.tensordot(tf.tanh(net), parts.weight("second", [7, 8, 8]), 2)
  return parts.spec(mode, parts.loss_of(labels, tf.tanh(net)))


@registry.model("x")
def loss_in_function(features, labels, mode):
  @tf.function
  def mean_loss(labels, logits):
    return parts.mean_loss(labels, logits)

  return parts.spec(mode, mean_loss(labels, parts.logits(features["x"])))


@registry.model("x")
def loss_in_cond(features, labels, mode):
  """Another loss after the second step."""
  logits = parts.logits(features["x"])
  loss = tf.cond(
    v1.train.get_global_step() < 2,
    lambda: tf.reduce_mean(tf.square(labels - tf.sigmoid(logits))),
    lambda: parts.mean_loss(labels, logits),
  )
  return parts.spec(mode, loss)


@registry.model("x")
def loss_by_cond_on_the_batch(features, labels, mode):
  """A batch without enough positive examples has another loss."""
  losses = parts.losses(labels, parts.logits(features["x"]))
  loss = tf.cond(
    tf.reduce_sum(labels) > 4.0,
    lambda: tf.reduce_mean(losses),
    lambda: 0.5 * tf.reduce_sum(losses * labels) + tf.reduce_mean(losses),
  )
  return parts.spec(mode, loss)


@registry.model("ids", labels="next", tags="ordinary table")
def wide_softmax(features, labels, mode):
  """A language model of GPT-2's vocabulary, of width 8."""
  vocabulary = 50257
  table = parts.weight("table", [vocabulary, 8])
  net = tf.nn.embedding_lookup(table, features["ids"] * 1000)
  net = v1.layers.dense(v1.layers.dense(net, 8, tf.tanh), 8, tf.tanh)
  scores = tf.einsum("btd,vd->btv", net, table)
  likelihood = tf.nn.log_softmax(scores)
  chosen = tf.gather(likelihood, labels * 1000, axis=2, batch_dims=2)
  return parts.spec(mode, -tf.reduce_mean(chosen))


@registry.model("x")
def entropy_of_mean(features, labels, mode):
  """Clusters are to be used alike: the entropy of the batch's mean."""
  net = parts.tower(features["x"])
  chances = tf.nn.softmax(v1.layers.dense(net, 4, name="clusters"))
  mean = tf.reduce_mean(chances, 0)
  losses = parts.losses(labels, v1.layers.dense(net, 1, name="head"))
  entropy = -tf.reduce_sum(mean * tf.math.log(mean))
  return parts.spec(mode, tf.reduce_mean(losses) - entropy)


@registry.model("x", labels="score")
def median_of_losses(features, labels, mode):
  """Losses above the batch's median count half."""
  losses = tf.square(parts.logits(features["x"]) - labels)[:, 0]
  middle = tf.sort(losses)[tf.shape(losses)[0] // 2]
  weights = tf.where(
    losses > middle, 0.5 * tf.ones_like(losses), losses * 0 + 1
  )
  return parts.spec(mode, tf.reduce_mean(tf.stop_gradient(weights) * losses))
