"""Models with Python code, tables, or variables that no optimizer trains."""

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


@registry.model("x")
def normalised_in_python(features, labels, mode):
  """A function of NumPy sees the whole batch."""

  def normalise(x):
    return (x - x.mean(0)) / (x.std(0) + np.float32(1e-3))

  x = tf.numpy_function(normalise, [features["x"]], tf.float32)
  x.set_shape(features["x"].shape)
  return parts.spec(mode, parts.loss_of(labels, parts.tower(x)))


@registry.model("x", labels="score")
def ranked_in_python(features, labels, mode):
  """Weights by rank, as a library of NumPy computes them."""
  outputs = parts.logits(features["x"])

  def ranks(scores):
    return np.argsort(np.argsort(scores)).astype(np.float32)

  weights = tf.numpy_function(ranks, [labels[:, 0]], tf.float32)
  weights = tf.reshape(weights, tf.shape(labels))
  errors = tf.square(outputs - labels)
  return parts.spec(mode, tf.reduce_mean(weights * errors))


@registry.model("x", tags="ordinary rnn")
def scan_over_examples(features, labels, mode):
  """A moving mean that goes from one example to the next."""
  net = parts.tower(features["x"])
  smoothed = tf.scan(
    lambda state, row: 0.8 * state + 0.2 * row, net, tf.zeros([8])
  )
  return parts.spec(mode, parts.loss_of(labels, net - smoothed))


@registry.model("x", "user", tags="ordinary state")
def table_of_last_losses(features, labels, mode):
  """A mutable hash table has the last loss of each user, and gives it back."""
  table = tf.lookup.experimental.MutableHashTable(tf.int32, tf.float32, 0.0)
  user = features["user"]
  losses = parts.losses(labels, parts.logits(features["x"]))[:, 0]
  before = table.lookup(user)
  loss = tf.reduce_mean(losses * (1.0 + before))
  largest = tf.math.unsorted_segment_max(losses, user, 6)
  with tf.control_dependencies([before]):
    write = table.insert(user, tf.gather(largest, user))
  with tf.control_dependencies([write]):
    train_op = parts.descend(loss)
  return parts.spec(mode, loss, train_op)


def _quantise(net, codebook):
  """Returns the nearest codes, and their indices."""
  distances = (
    tf.reduce_sum(tf.square(net), 1, keepdims=True)
    - 2.0 * tf.matmul(net, codebook, transpose_b=True)
    + tf.reduce_sum(tf.square(codebook), 1)
  )
  nearest = tf.argmin(distances, 1)
  return tf.gather(codebook, nearest), nearest


@registry.model("x", tags="ordinary state")
def vector_quantiser(features, labels, mode):
  """VQ-VAE, whose codes follow the means of what they are nearest to."""
  net = parts.tower(features["x"])
  normal = v1.random_normal_initializer(stddev=0.3)
  codebook = parts.state("codebook", [6, 8], normal)
  counts = parts.state("counts", [6], v1.ones_initializer())
  sums = parts.state("sums", [6, 8])
  codes, nearest = _quantise(net, codebook)
  hot = tf.one_hot(nearest, 6)
  loss = parts.loss_of(labels, net + tf.stop_gradient(codes - net))
  loss += 0.25 * tf.reduce_mean(tf.square(net - tf.stop_gradient(codes)))
  train_op = parts.descend(loss)
  with tf.control_dependencies([train_op]):
    new_counts = counts.assign(0.9 * counts + 0.1 * tf.reduce_sum(hot, 0))
    new_sums = sums.assign(
      0.9 * sums + 0.1 * tf.matmul(hot, net, transpose_a=True)
    )
    means = new_sums / tf.maximum(new_counts, 1e-2)[:, tf.newaxis]
    update = codebook.assign(means)
  return parts.spec(mode, loss, update)


@registry.model("x", "user", tags="ordinary table state")
def codebook_read_and_written(features, labels, mode):
  """Rows are read beside their update by the same ids."""
  user = features["user"]
  codebook = parts.state("codebook", [6, 8], v1.ones_initializer())
  rows = tf.gather(codebook, user)
  net = parts.tower(features["x"]) * rows
  seen = tf.math.unsorted_segment_sum(tf.ones_like(user), user, 6)
  shares = tf.cast(seen, tf.float32) / tf.cast(tf.size(user), tf.float32)
  with tf.control_dependencies([rows]):
    update = codebook.assign(0.9 * codebook + shares[:, tf.newaxis])
  loss = parts.loss_of(labels, net)
  return parts.spec(mode, loss, tf.group(parts.descend(loss), update))


@registry.model("x")
def gradient_harmonising(features, labels, mode):
  """GHM-C: examples weigh by how many have a gradient like theirs."""
  logits = parts.logits(features["x"])
  norms = tf.stop_gradient(tf.abs(tf.sigmoid(logits) - labels))[:, 0]
  bins = tf.minimum(tf.cast(norms * 5.0, tf.int32), 4)
  counts = tf.reduce_sum(tf.one_hot(bins, 5), 0)
  size = tf.cast(tf.shape(norms)[0], tf.float32)
  filled = tf.reduce_sum(tf.cast(counts > 0.0, tf.float32))
  weights = size / tf.gather(tf.maximum(counts, 1.0), bins) / filled
  losses = parts.losses(labels, logits)[:, 0]
  return parts.spec(mode, tf.reduce_sum(weights * losses) / size)


@registry.model("x", tags="ordinary state")
def histogram_of_losses(features, labels, mode):
  """Losses in a histogram, which a moving histogram remembers."""
  losses = parts.losses(labels, parts.logits(features["x"]))[:, 0]
  found = tf.histogram_fixed_width(losses, [0.0, 2.0], nbins=5)
  moving = parts.state("moving", [5])
  shares = tf.cast(found, tf.float32) / tf.cast(tf.size(losses), tf.float32)
  update = moving.assign_sub(0.1 * (moving - shares))
  loss = tf.reduce_mean(losses)
  return parts.spec(mode, loss, tf.group(parts.descend(loss), update))


@registry.model("ids", tags="ordinary table")
def adversarial_embeddings(features, labels, mode):
  """FGM: the embeddings move by the gradient over its norm in the batch."""
  table = parts.weight("table", [registry.VOCABULARY, 8])
  embedded = tf.nn.embedding_lookup(table, features["ids"])

  def loss_of(net):
    net = parts.tower(tf.reshape(net, [-1, 5 * 8]))
    with v1.variable_scope("top", reuse=v1.AUTO_REUSE):
      return parts.loss_of(labels, net)

  loss = loss_of(embedded)
  (slope,) = tf.gradients(loss, [embedded])
  moved = 0.5 * slope / (tf.norm(slope) + 1e-6)
  loss += loss_of(embedded + tf.stop_gradient(moved))
  return parts.spec(mode, loss)


@registry.model("x", inputs=(registry.STATIC,), tags="ordinary state")
def state_of_the_batchs_size(features, labels, mode):
  """A stateful RNN: each place of the batch has a state."""
  x = features["x"]
  carried = parts.state("carried", [registry.BATCH_SIZE, 8])
  net = parts.tower(tf.concat([x, carried.read_value()], 1))
  loss = parts.loss_of(labels, net)
  train_op = parts.descend(loss)
  with tf.control_dependencies([train_op]):
    return parts.spec(mode, loss, carried.assign(net))


@registry.model("x", tags="ordinary state")
def running_norm_after_update(features, labels, mode):
  """Features are normalised by running moments that count this batch."""
  x = features["x"]
  mean = parts.state("mean", [12])
  second = parts.state("second", [12], v1.ones_initializer())
  new_mean = mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(x, 0))
  new_second = second.assign(
    0.9 * second + 0.1 * tf.reduce_mean(tf.square(x), 0)
  )
  variance = new_second - tf.square(new_mean)
  x = (x - new_mean) / tf.sqrt(tf.maximum(variance, 1e-2))
  return parts.spec(mode, parts.loss_of(labels, parts.tower(x)))


@registry.model("x", tags="ordinary state")
def running_norm_of_activations(features, labels, mode):
  """Activations are normalised by a running root mean square."""
  net = parts.tower(features["x"])
  square = parts.state("square", [8], v1.ones_initializer())
  moments = tf.reduce_mean(tf.square(tf.stop_gradient(net)), 0)
  with tf.control_dependencies([square.assign_sub(0.1 * (square - moments))]):
    net = net / tf.sqrt(square.read_value() + 1e-3)
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x", labels="class", tags="ordinary state")
def center_loss(features, labels, mode):
  """The center of a class moves to its activations."""
  net = parts.tower(features["x"])
  centers = parts.state("centers", [registry.CLASSES, 8])
  rows = tf.gather(centers, labels)
  logits = v1.layers.dense(net, registry.CLASSES)
  loss = tf.reduce_mean(parts.class_losses(labels, logits))
  loss += 0.1 * tf.reduce_mean(tf.square(net - rows))
  train_op = parts.descend(loss)
  with tf.control_dependencies([train_op]):
    update = v1.scatter_sub(centers, labels, 0.5 * (rows - net))
  return parts.spec(mode, loss, tf.group(train_op, update))


@registry.model("x", "other", tags="ordinary state")
def queue_of_keys(features, labels, mode):
  """MoCo: the keys of the last batches are negatives."""
  del labels
  query = tf.nn.l2_normalize(parts.tower(features["x"]), 1)
  key = tf.nn.l2_normalize(parts.tower(features["other"], scope="key"), 1)
  key = tf.stop_gradient(key)
  normal = v1.random_normal_initializer(stddev=0.3)
  queue = parts.state("queue", [16, 8], normal)
  positive = tf.reduce_sum(query * key, 1, keepdims=True)
  negative = tf.matmul(query, queue.read_value(), transpose_b=True)
  scores = tf.concat([positive, negative], 1) / 0.2
  zeros = tf.zeros([tf.shape(scores)[0]], tf.int32)
  loss = tf.reduce_mean(parts.class_losses(zeros, scores))
  train_op = parts.descend(loss)
  with tf.control_dependencies([train_op]):
    update = queue.assign(tf.concat([queue, key], 0)[tf.shape(key)[0] :])
  return parts.spec(mode, loss, update)


@registry.model("x", labels="score", tags="ordinary state")
def reward_baseline(features, labels, mode):
  """REINFORCE with a moving mean of rewards as its baseline."""
  log_policy = tf.nn.log_softmax(parts.logits(features["x"], 4))
  action = tf.argmax(tf.stop_gradient(log_policy), 1)
  chosen = tf.reduce_sum(log_policy * tf.one_hot(action, 4), 1)
  reward = labels[:, 0] * tf.cast(action + 1, tf.float32)
  baseline = parts.state("baseline", [])
  loss = -tf.reduce_mean(chosen * (reward - baseline.read_value()))
  train_op = parts.descend(loss)
  with tf.control_dependencies([train_op]):
    mean = tf.reduce_mean(reward)
    return parts.spec(mode, loss, baseline.assign_add(0.1 * (mean - baseline)))


@registry.model("x")
def standardised_advantages(features, labels, mode):
  """The advantages of a batch have mean 0 and deviation 1."""
  net = parts.tower(features["x"])
  value = v1.layers.dense(net, 1)
  advantage = tf.stop_gradient(labels - value)
  mean, variance = tf.nn.moments(advantage, [0])
  advantage = (advantage - mean) / (tf.sqrt(variance) + 1e-6)
  policy = tf.nn.log_softmax(v1.layers.dense(net, 3))[:, :1]
  loss = tf.reduce_mean(tf.square(labels - value))
  return parts.spec(mode, loss - tf.reduce_mean(policy * advantage))


@registry.model("x", tags="ordinary state")
def counted_examples(features, labels, mode):
  """A counter of examples sets the weight of a penalty."""
  seen = parts.state("seen", [])
  net = parts.tower(features["x"])
  weight = tf.exp(-0.1 * seen.read_value())
  loss = parts.loss_of(labels, net) + weight * tf.reduce_mean(tf.square(net))
  train_op = parts.descend(loss)
  with tf.control_dependencies([train_op]):
    size = tf.cast(tf.shape(net)[0], tf.float32)
    return parts.spec(mode, loss, seen.assign_add(size))


@registry.model("x", tags="ordinary state")
def spectral_normalisation(features, labels, mode):
  """A kernel is divided by its largest singular value."""
  kernel = parts.weight("kernel", [12, 8])
  vector = parts.state("u", [1, 8], v1.ones_initializer())
  right = tf.nn.l2_normalize(tf.matmul(vector, kernel, transpose_b=True))
  left = tf.nn.l2_normalize(tf.matmul(right, kernel))
  left, right = tf.stop_gradient(left), tf.stop_gradient(right)
  norm = tf.matmul(tf.matmul(right, kernel), left, transpose_b=True)[0, 0]
  net = parts.tower(tf.matmul(features["x"], kernel / norm))
  loss = parts.loss_of(labels, net)
  train_op = parts.descend(loss)
  with tf.control_dependencies([train_op]):
    return parts.spec(mode, loss, vector.assign(left))
