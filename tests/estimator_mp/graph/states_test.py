"""States: all slices share one, and a step uses it as the plain step does."""

import estimator_mp
from tests import tiers
from tests.estimator_mp import programs, shapes, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_KEYS = np.arange(30, dtype=np.int64)
_VALUES = np.random.RandomState(3).permutation(_KEYS)
_BATCH = (
  {"x": zoo.FEATURES["x"], "item": zoo.FEATURES["item"]},
  zoo.LABELS.astype(np.float32),
)


def _fill(table, keys, values):
  v1.add_to_collection(
    v1.GraphKeys.TABLE_INITIALIZERS, table.insert(keys, values)
  )
  return table.lookup


def _dense():
  table = tf.lookup.experimental.DenseHashTable(
    tf.int64, tf.int64, -1, empty_key=-1, deleted_key=-2
  )
  return _fill(table, _KEYS, _VALUES)


def _mutable():
  table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
  return _fill(table, _KEYS, _VALUES)


def _mutable_of_tensors():
  table = tf.lookup.experimental.MutableHashTable(
    tf.int64, tf.int64, [-1, -1], name="pairs"
  )
  lookup = _fill(table, _KEYS, np.stack([_VALUES, _VALUES], 1))
  return lambda ids: lookup(ids)[..., 0]


def _vocabulary():
  table = tf.lookup.StaticVocabularyTable(
    tf.lookup.KeyValueTensorInitializer(_KEYS[:20], _VALUES[:20]), 10
  )
  return table.lookup


def _reference():
  """As graphs of TensorFlow 1.0 have them."""
  table = tf.raw_ops.HashTable(key_dtype=tf.int64, value_dtype=tf.int64)
  start = tf.raw_ops.InitializeTable(
    table_handle=table, keys=_KEYS, values=_VALUES
  )
  v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, start)

  def lookup(ids):
    found = tf.raw_ops.LookupTableFind(
      table_handle=table, keys=ids, default_value=np.int64(-1)
    )
    return tf.ensure_shape(found, [None, 1])

  return lookup


def _exported():
  """Some of the rows of what a table holds, by each example."""
  table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
  lookup = _fill(table, _KEYS, _VALUES)
  keys, values = table.export()
  values = tf.gather(values, tf.argsort(keys))
  values = tf.ensure_shape(values, [30])
  return lambda ids: tf.gather(values, ids) + 0 * lookup(ids)


def _looked_up(make, features, labels, mode):
  lookup = make()
  table = v1.get_variable(
    "table", [30, 8], initializer=v1.truncated_normal_initializer(stddev=0.3)
  )
  net = tf.nn.embedding_lookup(table, lookup(features["item"])[:, 0])
  net = v1.layers.dense(tf.concat([net, features["x"]], 1), 8, tf.tanh)
  net = v1.layers.dense(net, 8, tf.tanh)
  return _spec(mode, v1.layers.dense(net, 1), labels)


def _spec(mode, logits, labels):
  loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
  train_op = v1.train.GradientDescentOptimizer(0.1).minimize(
    loss, v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class TablesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("dense", _dense, "data:2,stage:2"),
        ("mutable", _mutable, "stage:2"),
        ("mutable_of_tensors", _mutable_of_tensors, "data:2,stage:2"),
        ("vocabulary", _vocabulary, "stage:2"),
        ("reference", _reference, "data:2,stage:2"),
        ("exported", _exported, "stage:2"),
      ]
    )
  )
  def test_all_micro_batches_look_up_in_one(self, make, mesh):
    """Clones had empty tables of their own: a loss of 7508, not 7.4."""

    def model_fn(features, labels, mode):
      return _looked_up(make, features, labels, mode)

    config = estimator_mp.ShardingConfig(mesh, num_micro_batches=3)
    shapes.assert_equals_the_full_batch(self, model_fn, _BATCH, config)

  def test_data_drawn_by_a_model_is_the_same_for_all(self):
    """A step draws one element, whichever op draws it."""

    def model_fn(features, labels, mode):
      iterator = v1.data.make_initializable_iterator(
        tf.data.Dataset.range(1, 100).map(lambda i: tf.cast(i, tf.float32) / 9)
      )
      v1.add_to_collection(
        v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer
      )
      scale = iterator.get_next_as_optional().get_value()
      net = v1.layers.dense(features["x"] * scale, 8, tf.tanh)
      return _spec(mode, v1.layers.dense(net, 1), labels)

    config = estimator_mp.ShardingConfig("data:2", num_micro_batches=2)
    batch = programs.examples(_BATCH, 0, 24)
    plain = programs.Program(model_fn, None, batch)
    program = programs.Program(model_fn, config, batch)
    programs.assert_same_steps(self, plain, program, [batch] * 3)


class QueueTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("micro_batches", {"mesh": "stage:2", "num_micro_batches": 2}),
    ("replicas", {"mesh": "data:2"}),
  )
  def test_a_step_takes_one_element(self, fields):
    """What has a state is executed once, for the whole batch."""

    def model_fn(features, labels, mode):
      queue = tf.queue.FIFOQueue(8, tf.float32, [])
      v1.add_to_collection(
        v1.GraphKeys.TABLE_INITIALIZERS,
        queue.enqueue_many(np.arange(1, 9, dtype=np.float32)),
      )
      net = v1.layers.dense(features["x"] * queue.dequeue(), 8, tf.tanh)
      return _spec(mode, v1.layers.dense(net, 1), labels)

    config = estimator_mp.ShardingConfig(**fields)
    batch = programs.examples(_BATCH, 0, 24)
    plain = programs.Program(model_fn, None, batch)
    program = programs.Program(model_fn, config, batch)
    programs.assert_same_steps(self, plain, program, [batch] * 3)


if __name__ == "__main__":
  absltest.main()
