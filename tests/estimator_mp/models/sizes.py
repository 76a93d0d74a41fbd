"""Models that know how many examples a batch has."""

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import tensorflow as tf

v1 = tf.compat.v1
BATCH_SIZE = registry.BATCH_SIZE
_STATIC = (registry.STATIC,)


@registry.model("x", labels="score")
def unbiased_variance(features, labels, mode):
  """A sum over n - 1."""
  errors = parts.logits(features["x"]) - labels
  size = tf.cast(tf.shape(errors)[0], tf.float32)
  return parts.spec(mode, tf.reduce_sum(tf.square(errors)) / (size - 1.0))


@registry.model("x", "other", inputs=_STATIC)
def eye_of_static_batch(features, labels, mode):
  """CLIP, with the size of the batch from the static shape."""
  del labels
  size = features["x"].shape[0]
  first = tf.nn.l2_normalize(parts.tower(features["x"], scope="image"), 1)
  second = tf.nn.l2_normalize(parts.tower(features["other"], scope="text"), 1)
  scores = 4.0 * tf.matmul(first, second, transpose_b=True)
  losses = tf.nn.softmax_cross_entropy_with_logits(tf.eye(size), scores)
  return parts.spec(mode, tf.reduce_mean(losses))


@registry.model("x", "other")
def eye_of_batch(features, labels, mode):
  """The same, with the size at run time, and in both directions."""
  del labels
  first = parts.tower(features["x"], scope="image")
  second = parts.tower(features["other"], scope="text")
  scores = tf.matmul(first, second, transpose_b=True)
  targets = tf.eye(tf.shape(scores)[0])
  loss = tf.reduce_mean(
    tf.nn.softmax_cross_entropy_with_logits(targets, scores)
  ) + tf.reduce_mean(
    tf.nn.softmax_cross_entropy_with_logits(targets, tf.transpose(scores))
  )
  return parts.spec(mode, loss)


@registry.model("x")
def one_hot_of_places(features, labels, mode):
  """The next example is the positive one."""
  del labels
  net = tf.nn.l2_normalize(parts.tower(features["x"]), 1)
  size = tf.shape(net)[0]
  scores = tf.matmul(net, net, transpose_b=True) - 10.0 * tf.eye(size)
  targets = tf.one_hot((tf.range(size) + 1) % size, size)
  losses = tf.nn.softmax_cross_entropy_with_logits(targets, scores)
  return parts.spec(mode, tf.reduce_mean(losses))


@registry.model("x", inputs=_STATIC)
def position_of_example(features, labels, mode):
  """A one-hot place is a feature: range(n) + 1 of n + 1 classes."""
  size = features["x"].shape[0]
  places = tf.one_hot(tf.range(size) + 1, BATCH_SIZE + 1)
  net = parts.tower(tf.concat([features["x"], places], 1))
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x", "user", inputs=_STATIC)
def as_many_segments(features, labels, mode):
  """Examples of one user are summed into as many rows as there are examples."""
  net = parts.tower(features["x"])
  summed = tf.math.unsorted_segment_sum(net, features["user"], BATCH_SIZE)
  rows = tf.gather(summed, features["user"])
  return parts.spec(mode, parts.loss_of(labels, tf.concat([net, rows], 1)))


def _gather_positions(sequences, positions):
  """Gathers vectors at positions of a batch, as BERT does."""
  shape = tf.shape(sequences)
  width = sequences.shape[2]
  offsets = tf.reshape(tf.range(0, shape[0]) * shape[1], [-1, 1])
  flat_positions = tf.reshape(positions + offsets, [-1])
  return tf.gather(tf.reshape(sequences, [-1, width]), flat_positions)


@registry.model("seq", "positions")
def masked_positions(features, labels, mode):
  """BERT's masked tokens, by flat offsets of the batch."""
  net = v1.layers.dense(features["seq"], 8, tf.tanh)
  net = v1.layers.dense(net, 8, tf.tanh)
  gathered = _gather_positions(net, features["positions"])
  gathered = tf.reshape(gathered, [-1, 2 * 8])
  return parts.spec(mode, parts.loss_of(labels, gathered))


@registry.model("seq", "positions")
def batch_gather_nd(features, labels, mode):
  """The same by gather_nd, with a range of the batch."""
  net = v1.layers.dense(features["seq"], 8, tf.tanh)
  net = v1.layers.dense(net, 8, tf.tanh)
  first = features["positions"][:, 0]
  places = tf.stack([tf.range(tf.shape(first)[0]), first], 1)
  return parts.spec(mode, parts.loss_of(labels, tf.gather_nd(net, places)))


@registry.model("x")
def sum_by_constant(features, labels, mode):
  """The sum over a size that is a constant of the program."""
  losses = parts.losses(labels, parts.logits(features["x"]))
  return parts.spec(mode, tf.reduce_sum(losses) / BATCH_SIZE)


@registry.model("x", inputs=_STATIC)
def sum_by_static_size(features, labels, mode):
  losses = parts.losses(labels, parts.logits(features["x"]))
  return parts.spec(mode, tf.reduce_sum(losses) / int(losses.shape[0]))


@registry.model("seq", inputs=_STATIC)
def reshape_to_static_size(features, labels, mode):
  """Time and batch are one axis between the layers."""
  seq = features["seq"]
  batch, time, width = seq.shape
  net = tf.reshape(seq, [batch * time, width])
  net = tf.reshape(parts.tower(net), [batch, time * 8])
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("seq", "length", inputs=_STATIC, tags="ordinary rnn")
def zero_state_of_batch(features, labels, mode):
  """An LSTM that starts from zero_state(BATCH_SIZE)."""
  cell = v1.nn.rnn_cell.LSTMCell(8)
  outputs, _ = v1.nn.dynamic_rnn(
    cell,
    features["seq"],
    sequence_length=features["length"],
    initial_state=cell.zero_state(BATCH_SIZE, tf.float32),
  )
  net = v1.layers.dense(outputs[:, -1], 8, tf.tanh)
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("seq", "length", inputs=_STATIC, tags="ordinary rnn")
def static_rnn(features, labels, mode):
  """An unrolled GRU, from zeros of the static size."""
  cell = v1.nn.rnn_cell.GRUCell(8)
  steps = tf.unstack(features["seq"], axis=1)
  zeros = tf.zeros([features["seq"].shape[0], 8])
  outputs, _ = v1.nn.static_rnn(cell, steps, initial_state=zeros)
  net = v1.layers.dense(outputs[-1], 8, tf.tanh)
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x", inputs=_STATIC)
def loop_over_examples(features, labels, mode):
  """A loop of Python over the examples of a batch."""
  outputs = parts.logits(features["x"])
  losses = []
  for row, label in zip(tf.unstack(outputs), tf.unstack(labels), strict=True):
    losses.append(tf.reduce_sum(parts.losses(label, row)))
  return parts.spec(mode, tf.add_n(losses) / len(losses))


@registry.model("seq")
def tiled_start(features, labels, mode):
  """A learned first token is tiled as often as there are examples."""
  seq = features["seq"]
  start = parts.weight("start", [1, 1, 4])
  start = tf.tile(start, [tf.shape(seq)[0], 1, 1])
  net = tf.reshape(tf.concat([start, seq], 1), [-1, 8 * 4])
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))
