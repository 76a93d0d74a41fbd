"""Whatever ops a program builds its graph of, sharding it changes nothing."""

from tests import tiers
from tests.estimator_mp import zoo
from tests.estimator_mp.equality import transparency

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN
_RULES = ((r"^a/", 0), (r"^b/", 1), (r".", 2))


def _dense(net, units, name, activation=None, **kwargs):
  return v1.layers.dense(net, units, activation, name=name, **kwargs)


def _train():
  return zoo.minimize(v1.train.AdamOptimizer(0.01))


def conditions(features, labels, mode):
  """A branch by `tf.cond`, one by `tf.compat.v1.cond`, one inside the other."""
  net = _dense(features["x"], 16, "a", tf.tanh)
  positive = tf.reduce_mean(net) > 0
  net = tf.cond(positive, lambda: tf.nn.relu(net), lambda: tf.tanh(net))
  with v1.variable_scope("b"):
    left = v1.get_variable("left", [16, 8])
    right = v1.get_variable("right", [16, 8])

  def outer():
    return v1.cond(tf.reduce_sum(net) > 3, lambda: tf.matmul(net, left), inner)

  def inner():
    return tf.matmul(net, right)

  net = v1.cond(positive, outer, inner, name="b/cond")
  return zoo.spec(mode, _dense(net, 1, "c"), labels, _train())


def loops(features, labels, mode):
  """`while_loop`, `map_fn` and `scan`, with weights outside and inside."""
  net = _dense(features["x"], 8, "a", tf.tanh)
  with v1.variable_scope("b"):
    kernel = v1.get_variable("kernel", [8, 8])
    net = tf.while_loop(
      lambda i, _: i < 3,
      lambda i, net: (i + 1, tf.tanh(tf.matmul(net, kernel))),
      [tf.constant(0), net],
    )[1]
  net = tf.map_fn(lambda row: row * tf.reduce_max(row), net)
  sums = tf.scan(lambda total, column: total + column, tf.transpose(net))
  # No tanh: TensorFlow 2.15.1 fuses this one on processors with AVX-512, and
  # has no kernel for it.
  net = _dense(tf.reshape(tf.transpose(sums), [-1, 8]), 8, "c", tf.nn.relu)
  return zoo.spec(mode, _dense(net, 1, "d"), labels, _train())


def regularized(features, labels, mode):
  """Losses in the collection of regularization losses, and a constraint."""
  decay = tf.keras.regularizers.l2(0.01)
  net = _dense(
    features["x"],
    16,
    "a",
    tf.tanh,
    kernel_regularizer=decay,
    kernel_constraint=tf.keras.constraints.MaxNorm(2.0),
  )
  net = _dense(net, 8, "b", tf.tanh, kernel_regularizer=decay)
  logits = _dense(net, 1, "c", kernel_regularizer=decay)

  def train(loss):
    # Their sum is in the collection of losses too.
    total = loss + v1.losses.get_regularization_loss()
    return _train()(total)

  return zoo.spec(mode, logits, labels, train)


def multi_head(features, labels, mode):
  """Two heads of tf.estimator on one trunk."""
  net = _dense(_dense(features["x"], 16, "a", tf.tanh), 8, "b", tf.tanh)
  logits = {"one": _dense(net, 1, "one"), "two": _dense(net, 2, "two")}
  head = tf.estimator.MultiHead(
    [
      tf.estimator.BinaryClassHead(name="one"),
      tf.estimator.RegressionHead(name="two", label_dimension=2),
    ],
    [1.0, 0.5],
  )
  if labels is not None:
    labels = {"one": labels, "two": features["x"][:, :2]}
  spec = head.create_estimator_spec(
    features,
    mode,
    logits,
    labels,
    train_op_fn=_train(),
    trainable_variables=v1.trainable_variables(),
  )
  return spec._replace(
    predictions=None if mode == TRAIN else {"logits": logits["one"]}
  )


def scaffold(features, labels, mode):
  """A Scaffold with an init_fn, and local variables that are counted."""
  net = _dense(features["x"], 16, "a", tf.tanh)
  seen = v1.get_local_variable(
    "seen", [], tf.float32, v1.zeros_initializer(), trainable=False
  )
  scale = v1.get_local_variable("scale", [16], initializer=tf.ones)
  with tf.control_dependencies([v1.assign_add(seen, 1.0)]):
    net = net * scale
  net = _dense(net, 8, "b", tf.tanh)
  spec = zoo.spec(mode, _dense(net, 1, "c"), labels, _train())
  new_scale = v1.placeholder(tf.float32, [16])
  set_scale = v1.assign(scale, new_scale)

  def init_fn(scaffold, session):
    session.run(set_scale, {new_scale: np.linspace(0.5, 1.5, 16)})

  return spec._replace(
    scaffold=v1.train.Scaffold(
      init_fn=init_fn,
      local_init_op=tf.group(
        v1.local_variables_initializer(), v1.tables_initializer()
      ),
    )
  )


def batch_norm(features, labels, mode):
  """tf_keras layers that normalise, called as functions, and their updates."""
  layers = tf.keras.layers
  net = _dense(features["x"], 16, "a")
  training = mode == TRAIN
  normalise = layers.BatchNormalization(momentum=0.8, name="b/norm")
  net = tf.nn.relu(normalise(net, training=training))
  net = _dense(net, 8, "b/dense", tf.tanh)
  logits = layers.Dense(1, name="c")(net)

  def train(loss):
    update = tf.group(*normalise.updates)
    with tf.control_dependencies([update]):
      return _train()(loss)

  return zoo.spec(mode, logits, labels, train)


_WORDS = np.array([b"red", b"green", b"blue", b"mauve", b"grey"])


def words_input_fn():
  """Sparse features: strings of which some are missing, and sequences."""
  random = np.random.RandomState(23)
  words = _WORDS[random.randint(5, size=[50, 4])]
  words[random.rand(50, 4) < 0.4] = b""
  ids = random.randint(20, size=[50, 6])
  ids[:, 3:] *= random.rand(50, 3) < 0.6
  labels = random.randint(2, size=[50, 1])

  def sparse(words, ids, labels):
    features = {
      "words": tf.sparse.from_dense(words),
      "ids": tf.sparse.from_dense(ids),
      "text": words,
    }
    return features, labels

  data = tf.data.Dataset.from_tensor_slices((words, ids, labels))
  return data.batch(20).map(sparse)


def lookups(features, labels, mode):
  """Strings through tables, and through hashes, to sparse embeddings."""
  table = tf.lookup.StaticVocabularyTable(
    tf.lookup.KeyValueTensorInitializer(
      _WORDS[:3], np.arange(3, dtype=np.int64)
    ),
    num_oov_buckets=2,
  )
  words = features["words"]
  found = tf.SparseTensor(
    words.indices, table.lookup(words.values), words.dense_shape
  )
  with v1.variable_scope("a"):
    net = tf.nn.safe_embedding_lookup_sparse(
      v1.get_variable("table", [5, 4]), found, combiner="sum"
    )
  hashed = tf.strings.to_hash_bucket_fast(features["text"], 11)
  with v1.variable_scope("b"):
    embedded = v1.nn.embedding_lookup(
      v1.get_variable("hashed", [11, 4]), hashed
    )
  net = tf.concat([net, tf.reduce_sum(embedded, axis=1)], axis=1)
  net = _dense(net, 8, "c", tf.tanh)
  return zoo.spec(mode, _dense(net, 1, "d"), labels, _train())


def sequences(features, labels, mode):
  """Sequence feature columns, an LSTM of tf_keras, and an indicator column."""
  column = tf.feature_column
  ids = column.sequence_categorical_column_with_identity("ids", 20)
  words = column.categorical_column_with_hash_bucket("words", 7)
  embedded, length = tf.keras.experimental.SequenceFeatures(
    [column.embedding_column(ids, 4)], name="a"
  )({"ids": features["ids"]})
  mask = tf.sequence_mask(length, tf.shape(embedded)[1])
  net = tf.keras.layers.LSTM(8, name="b")(embedded, mask=mask)
  bag = v1.feature_column.input_layer(
    {"words": features["words"]}, [column.indicator_column(words)]
  )
  net = _dense(tf.concat([net, bag], axis=1), 8, "c", tf.tanh)
  return zoo.spec(mode, _dense(net, 1, "d"), labels, _train())


class ProgramsTest(transparency.TransparencyTestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("conditions", zoo.Model(conditions, _RULES)),
        ("loops", zoo.Model(loops, _RULES)),
        ("regularized", zoo.Model(regularized, _RULES)),
        ("multi_head", zoo.Model(multi_head, _RULES)),
        ("scaffold", zoo.Model(scaffold, _RULES)),
        ("batch_norm", zoo.Model(batch_norm, _RULES)),
      ]
    )
  )
  def test_dense_features(self, model):
    self.assert_transparent(model)

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("lookups", zoo.Model(lookups, _RULES)),
        ("sequences", zoo.Model(sequences, _RULES)),
      ]
    )
  )
  def test_sparse_features(self, model):
    self.assert_transparent(model, words_input_fn)


if __name__ == "__main__":
  absltest.main()
