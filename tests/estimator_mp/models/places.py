"""Models that know the place of an example in its batch."""

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import tensorflow as tf

v1 = tf.compat.v1


@registry.model("x")
def weights_by_place(features, labels, mode):
  """Later examples count for more."""
  losses = parts.losses(labels, parts.logits(features["x"]))[:, 0]
  places = tf.cast(tf.range(tf.shape(losses)[0]), tf.float32)
  return parts.spec(mode, tf.reduce_mean(losses * places))


@registry.model("x")
def next_example(features, labels, mode):
  """Each example is compared with its neighbour."""
  net = parts.tower(features["x"])
  size = tf.shape(net)[0]
  neighbours = tf.gather(net, (tf.range(size) + 1) % size)
  logits = v1.layers.dense(tf.concat([net, neighbours], 1), 1)
  return parts.spec(mode, parts.mean_loss(labels, logits))


@registry.model("x")
def permuted_features(features, labels, mode):
  """The features of a permuted batch are negatives."""
  x = features["x"]
  size = tf.shape(x)[0]
  other = tf.gather(x, (tf.range(size) * 3 + 1) % size)
  similar = tf.reduce_sum(parts.tower(x) * parts.tower(other), 1)
  positive = parts.mean_loss(labels, parts.logits(x))
  return parts.spec(mode, positive + tf.reduce_mean(tf.square(similar)))


@registry.model("x", labels="class")
def permuted_labels(features, labels, mode):
  """Mixup with the labels of a permuted batch."""
  x = features["x"]
  size = tf.shape(x)[0]
  permutation = (tf.range(size) * 3 + 2) % size
  logits = parts.logits(0.7 * x + 0.3 * tf.gather(x, permutation), 4)
  first = parts.class_losses(labels, logits)
  second = parts.class_losses(tf.gather(labels, permutation), logits)
  return parts.spec(mode, tf.reduce_mean(0.7 * first + 0.3 * second))


@registry.model("x", labels="score")
def reversed_batch(features, labels, mode):
  """Differences of each example and that at its mirrored place."""
  outputs = parts.logits(features["x"])
  differences = outputs - outputs[::-1]
  loss = tf.reduce_mean(tf.square(differences - (labels - labels[::-1])))
  return parts.spec(mode, loss, parts.descend(loss, 0.01))


@registry.model("x")
def gan_of_halves(features, labels, mode):
  """One half of the batch is real, the other is what fakes are made of."""
  del labels
  x = features["x"]
  half = tf.shape(x)[0] // 2
  fake = v1.layers.dense(parts.tower(x[half:], scope="generator"), 12)
  judge = parts.tower
  real_score = tf.reduce_mean(judge(x[:half], scope="critic"), 1)
  fake_score = tf.reduce_mean(judge(fake, scope="critic"), 1)
  critic_loss = tf.reduce_mean(tf.nn.softplus(-real_score)) + tf.reduce_mean(
    tf.nn.softplus(fake_score)
  )
  generator_loss = tf.reduce_mean(tf.nn.softplus(-fake_score))
  optimizer = v1.train.GradientDescentOptimizer(0.1)
  critic = v1.trainable_variables("critic/")
  generator = [v for v in v1.trainable_variables() if v not in critic]
  critic_gradients = optimizer.compute_gradients(critic_loss, critic)
  generator_gradients = optimizer.compute_gradients(generator_loss, generator)
  train_op = optimizer.apply_gradients(
    critic_gradients + generator_gradients, v1.train.get_global_step()
  )
  return parts.spec(mode, critic_loss + generator_loss, train_op)


@tf.custom_gradient
def _reverse_gradient(x):
  return tf.identity(x), lambda upstream: -0.5 * upstream


@registry.model("x")
def domain_adaptation(features, labels, mode):
  """DANN: half a batch has labels, and a domain is told from the other."""
  net = parts.tower(features["x"])
  half = tf.shape(net)[0] // 2
  losses = parts.losses(labels[:half], v1.layers.dense(net[:half], 1))
  domains = tf.concat(
    [tf.zeros([half, 1]), tf.ones([tf.shape(net)[0] - half, 1])], 0
  )
  guessed = v1.layers.dense(_reverse_gradient(net), 1, name="domain")
  loss = tf.reduce_mean(losses) + tf.reduce_mean(parts.losses(domains, guessed))
  return parts.spec(mode, loss)


@registry.model("x")
def pairs_of_halves(features, labels, mode):
  """Example i of the first half belongs to example i of the second."""
  net = parts.tower(features["x"])
  half = tf.shape(net)[0] // 2
  first, second = net[:half], net[half : 2 * half]
  losses = parts.losses(labels, v1.layers.dense(net, 1))
  between = tf.reduce_mean(tf.square(first - second))
  return parts.spec(mode, tf.reduce_mean(losses) + between)


@registry.model("x", "rank", labels="score")
def ranks_by_argsort(features, labels, mode):
  """An example weighs by its rank among those of the batch."""
  order = tf.argsort(features["rank"], stable=True)
  ranks = tf.cast(tf.argsort(order), tf.float32)
  errors = tf.square(parts.logits(features["x"]) - labels)[:, 0]
  return parts.spec(mode, tf.reduce_mean(errors / (1.0 + ranks)))


@registry.model("x")
def even_and_odd_places(features, labels, mode):
  """Siamese pairs lie beside each other in the batch."""
  net = parts.tower(features["x"])
  pairs = tf.shape(net)[0] // 2
  left, right = net[: 2 * pairs : 2], net[1 : 2 * pairs : 2]
  is_same = tf.cast(
    tf.equal(labels[: 2 * pairs : 2, 0], labels[1 : 2 * pairs : 2, 0]),
    tf.float32,
  )
  distances = tf.reduce_sum(tf.square(left - right), 1)
  apart = tf.nn.relu(1.0 - distances)
  loss = tf.reduce_mean(is_same * distances + (1.0 - is_same) * apart)
  return parts.spec(mode, loss)


@registry.model("x", labels="score")
def first_example_as_anchor(features, labels, mode):
  """The outputs are relative to those of the batch's first example."""
  outputs = parts.logits(features["x"])
  errors = (outputs - outputs[:1]) - (labels - labels[:1])
  loss = tf.reduce_mean(tf.square(errors))
  return parts.spec(mode, loss, parts.descend(loss, 0.01))


@registry.model("x")
def mixup_by_reversing(features, labels, mode):
  x = features["x"]
  mixed = 0.8 * x + 0.2 * tf.reverse(x, [0])
  targets = 0.8 * labels + 0.2 * tf.reverse(labels, [0])
  losses = parts.losses(targets, parts.logits(mixed))
  return parts.spec(mode, tf.reduce_mean(losses))


@registry.model("x", "other")
def rolled_negatives(features, labels, mode):
  """DSSM: the documents of the next examples are negatives."""
  del labels
  query = tf.nn.l2_normalize(parts.tower(features["x"], scope="query"), 1)
  document = tf.nn.l2_normalize(parts.tower(features["other"], scope="doc"), 1)
  scores = [tf.reduce_sum(query * document, 1)]
  for shift in (1, 2):
    rolled = tf.roll(document, shift, axis=0)
    scores.append(tf.reduce_sum(query * rolled, 1))
  likelihood = tf.nn.log_softmax(5.0 * tf.stack(scores, 1))
  return parts.spec(mode, -tf.reduce_mean(likelihood[:, 0]))
