"""Models with tables of embeddings, in all ways of looking rows up."""

import contextlib
import functools
import tempfile

import estimator_mp
from tests.estimator_mp import runs

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

NUM_ROWS = 11
WIDTH = 4
_BATCH = 12


def input_fn():
  """Returns four batches of ids, some of which no lookup finds."""
  random = np.random.RandomState(4)
  size = 4 * _BATCH
  features = {
    "bag": random.randint(-1, NUM_ROWS, [size, 3]),
    "id": random.randint(NUM_ROWS, size=[size]).astype(np.int32),
    "word": random.choice([*"abcdefgh"], [size, 2]),
  }
  labels = random.randn(size).astype(np.float32)
  return tf.data.Dataset.from_tensor_slices((features, labels)).batch(
    _BATCH, drop_remainder=True
  )


def _table(name="table", num_rows=NUM_ROWS):
  return v1.get_variable(
    name,
    [num_rows, WIDTH],
    initializer=v1.random_normal_initializer(seed=3),
    use_resource=True,
  )


def _sparse(ids):
  """Returns bags of ids; those that are negative are left out."""
  where = tf.where(ids >= 0)
  shape = tf.shape(ids, out_type=tf.int64)
  return tf.SparseTensor(where, tf.gather_nd(ids, where), shape)


def gather(features):
  """Two lookups of one table, by ids of two dtypes and ranks."""
  table = _table()
  bag = tf.nn.relu(features["bag"])
  return [
    tf.reduce_sum(tf.nn.embedding_lookup(table, bag), axis=1),
    tf.gather(table, features["id"]),
  ]


def lookup_sparse(features):
  """Bags of ids, weighted or safe from ids that are none."""
  table = _table()
  ids = _sparse(features["bag"])
  weights = ids.with_values(tf.cos(tf.cast(ids.values, tf.float32)))
  first = tf.SparseTensor(
    [[i, 0] for i in range(_BATCH)],
    tf.cast(features["id"], tf.int64),
    [_BATCH, 1],
  )
  return [
    tf.nn.embedding_lookup_sparse(table, first, None, combiner="sum"),
    v1.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner="sqrtn"),
    tf.nn.safe_embedding_lookup_sparse(table, ids, default_id=2),
  ]


def columns(features):
  """Feature columns, two of which share a table."""
  column = tf.feature_column
  bag = column.categorical_column_with_identity("bag", NUM_ROWS)
  single = column.categorical_column_with_identity("id", NUM_ROWS)
  word = column.categorical_column_with_hash_bucket("word", 13)
  seeded = functools.partial(v1.truncated_normal_initializer, seed=2)
  found = [
    column.embedding_column(word, 3, initializer=seeded()),
    *v1.feature_column.shared_embedding_columns(
      [bag, single], WIDTH, initializer=seeded()
    ),
  ]
  return [v1.feature_column.input_layer(features, found)]


def keras_layer(features):
  """A layer of tf_keras."""
  keras = tf.compat.v1.keras
  start = keras.initializers.RandomNormal(seed=2)
  layer = keras.layers.Embedding(NUM_ROWS, WIDTH, start, name="embedding")
  return [
    layer(features["id"]),
    tf.reduce_max(layer(tf.abs(features["bag"])), 1),
  ]


def in_branches(features):
  """Lookups in the branches of a cond."""
  table, ids = _table(), features["id"]
  is_even = tf.equal(tf.reduce_sum(ids) % 2, 0)
  return [
    v1.cond(
      is_even,
      lambda: tf.gather(table, ids),
      lambda: 2.0 * tf.gather(table, ids // 2),
    )
  ]


def in_branches_and_outside(features):
  """Lookups in the branches of a cond, and one that is always made."""
  always = tf.gather(_table(), features["id"] // 3)
  with v1.variable_scope(v1.get_variable_scope(), reuse=True):
    return [always, *in_branches(features)]


def nested(features):
  """Ids that follow from rows of the same table."""
  table = _table()
  rows = tf.gather(table, features["id"])
  more = tf.argmax(rows, axis=1, output_type=tf.int32)
  return [rows, tf.gather(table, more), tf.gather(table, features["id"] // 2)]


def after_an_update(features):
  """A lookup that waits for an update of the table, and one that does not."""
  table = _table()
  rows = tf.gather(table, features["id"])
  update = table.scatter_add(tf.IndexedSlices(tf.ones([1, WIDTH]), [3]))
  with tf.control_dependencies([rows]), tf.control_dependencies([update]):
    return [rows, tf.gather(table, features["id"])]


def beside_one_that_no_step_needs(features):
  """A lookup of what nobody feeds, as a serving input is."""
  table = _table()
  tf.gather(table, v1.placeholder(tf.int32, [None]))
  return [tf.gather(table, features["id"])]


def tied(features):
  """A table that is read whole, too, as the weights of a softmax."""
  table = _table()
  rows = tf.gather(table, features["id"])
  return [rows, tf.nn.softmax(tf.matmul(rows, table, transpose_b=True))]


def rows_of_a_tensor(features):
  """Lookups that do not name the variable, but the tensor that it reads as."""
  table = tf.identity(_table())
  bag = tf.nn.relu(features["bag"])
  return [
    tf.reduce_sum(tf.gather(table, bag), axis=1),
    tf.gather(table, features["id"]),
  ]


@functools.cache
def make_model_fn(look_up, make_optimizer=None, clip=False):
  """Returns a model_fn of one layer over what is looked up.

  Args:
    look_up: Makes tensors with a row for each example of features.
    make_optimizer: Makes an optimizer of either kind; Adagrad by default.
    clip: Whether gradients are clipped by their global norm.
  """

  def model_fn(features, labels, mode, params):
    del params
    net = tf.concat(look_up(features), axis=1)
    kernel = v1.get_variable(
      "kernel",
      [net.shape[1], 1],
      initializer=v1.random_normal_initializer(seed=5),
    )
    logits = tf.matmul(tf.tanh(net), kernel)[:, 0]
    predictions = {"logits": logits}
    if mode == tf.estimator.ModeKeys.PREDICT:
      return tf.estimator.EstimatorSpec(mode, predictions)
    loss = v1.losses.mean_squared_error(labels, logits)
    train_op = None
    if mode == tf.estimator.ModeKeys.TRAIN:
      train_op = _train_op(loss, make_optimizer, clip)
    return tf.estimator.EstimatorSpec(
      mode, predictions, loss=loss, train_op=train_op
    )

  return model_fn


def _train_op(loss, make_optimizer, clip):
  step = v1.train.get_global_step()
  variables = v1.trainable_variables()
  gradients = tf.gradients(loss, variables)
  if clip:
    gradients, _ = tf.clip_by_global_norm(gradients, 0.3)
  pairs = list(zip(gradients, variables, strict=True))
  optimizer = v1.train.AdagradOptimizer(0.2)
  if make_optimizer is not None:
    optimizer = make_optimizer()
  if isinstance(optimizer, v1.train.Optimizer):
    return optimizer.apply_gradients(pairs, step)
  update = optimizer.apply_gradients(pairs)
  with tf.control_dependencies([update]):
    return v1.assign_add(step, 1)


def train(model_fn, config, steps=5):
  """Returns the losses of some steps, and variables by names."""
  folder = tempfile.mkdtemp()
  losses = runs.train(model_fn, config, {}, folder, steps, input_fn)
  return losses, runs.variables_of(folder)


@functools.cache
def _plain_training(model_fn):
  """Returns what `train` does, of the plain model: the same for each mesh."""
  return train(model_fn, None)


def check(test, model_fn, mesh, split=(("table|embedding", "div"),), **options):
  """Asserts that a model with split tables trains as the plain one.

  Args:
    test: The test.
    model_fn: The model.
    mesh: The mesh.
    split: Rules.
    **options: Of `ShardingConfig`.
  """
  losses, variables = _plain_training(model_fn)
  config = estimator_mp.ShardingConfig(
    mesh, split=(*split, (".*", None)), **options
  )
  sharded = estimator_mp.shard_model_fn(model_fn, config)
  found, values = train(sharded, config)
  np.testing.assert_allclose(found, losses, rtol=2e-6)
  test.assertCountEqual(values, variables)
  for name, value in variables.items():
    np.testing.assert_allclose(
      values[name], value, rtol=1e-5, atol=1e-6, err_msg=name
    )


@contextlib.contextmanager
def built(model_fn, config):
  """Yields the graph of a training step, and what model_fn returned."""
  with tf.Graph().as_default() as graph:
    v1.train.create_global_step()
    data = v1.data.make_one_shot_iterator(input_fn().repeat())
    features, labels = data.get_next()
    spec = estimator_mp.shard_model_fn(model_fn, config)(
      features,
      labels,
      tf.estimator.ModeKeys.TRAIN,
      {},
      estimator_mp.run_config(config),
    )
    yield graph, spec
