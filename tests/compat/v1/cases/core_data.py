"""tf.data of version 1, and the queues from before it."""

import os
import tempfile

import numpy as np
import tensorflow as tf


def _stacked(dataset, count=4):
  following = dataset.batch(count).make_one_shot_iterator().get_next()
  return following


def iterators():
  dataset = tf.data.Dataset.range(8).map(lambda x: x * 2)
  one = dataset.make_one_shot_iterator()
  other = tf.data.make_one_shot_iterator(dataset)
  reinitializable = tf.data.Iterator.from_structure(
    dataset.output_types, dataset.output_shapes
  )
  initialize = reinitializable.make_initializer(dataset, name="start")
  with tf.control_dependencies([initialize]):
    reinitialized = reinitializable.get_next()
  iterator = dataset.make_initializable_iterator()
  tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
  return {
    "one": one.get_next(),
    "other": other.get_next(),
    "reinitialized": tf.shape(reinitialized),
    "initializable": iterator.get_next(),
    "types": "%s %s %s"
    % (
      dataset.output_types,
      dataset.output_shapes,
      dataset.output_classes.__name__,
    ),
    "of_iterator": "%s %s" % (one.output_types, one.output_shapes),
    "kind": str(isinstance(dataset, tf.data.Dataset)),
    "functions": "%s %s"
    % (
      tf.data.get_output_types(dataset),
      tf.data.get_output_shapes(dataset),
    ),
  }


def transformations():
  base = tf.data.Dataset.range(10)
  return {
    "shuffle": _stacked(base.shuffle(5, seed=3), 10),
    "again": _stacked(
      base.shuffle(5, 3, reshuffle_each_iteration=False).repeat(2), 20
    ),
    "interleave": _stacked(
      base.interleave(
        lambda x: tf.data.Dataset.from_tensors(x).repeat(3), 2, 2
      ),
      30,
    ),
    "parallel": _stacked(
      base.apply(
        tf.data.experimental.parallel_interleave(
          lambda x: tf.data.Dataset.from_tensors(x).repeat(3), 2
        )
      ),
      30,
    ),
    "padded": tf.data.Dataset.range(1, 4)
    .map(lambda x: tf.fill([x], x))
    .padded_batch(3, [None])
    .make_one_shot_iterator()
    .get_next(),
    "padded_values": tf.data.Dataset.range(1, 4)
    .map(lambda x: tf.fill([x], x))
    .padded_batch(3, [5], tf.constant(-1, tf.int64), drop_remainder=True)
    .make_one_shot_iterator()
    .get_next(),
    "shard": _stacked(base.shard(3, 1), 3),
    "filter": _stacked(base.filter(lambda x: tf.equal(x % 3, 0)), 4),
    "zip": tf.stack(_stacked(tf.data.Dataset.zip((base, base.skip(2))), 3)),
    "concatenate": _stacked(base.take(2).concatenate(base.skip(8)), 4),
    "map_and_batch": base.apply(
      tf.data.experimental.map_and_batch(lambda x: x + 1, 4)
    )
    .make_one_shot_iterator()
    .get_next(),
    "batch": str(base.batch(3).output_shapes)
    + str(base.batch(3, drop_remainder=True).output_shapes),
    "reduce": base.reduce(tf.constant(0, tf.int64), lambda a, b: a + b),
    "sample": _stacked(
      tf.data.experimental.sample_from_datasets(
        [base, base.map(lambda x: -x)], [0.5, 0.5], seed=4
      ),
      8,
    ),
    "enumerate": _stacked(base.enumerate(5), 3)[0],
    "cache": _stacked(base.cache().prefetch(1), 3),
  }


def input_queues():
  value, row = tf.train.slice_input_producer(
    [tf.constant([1, 2, 3]), tf.constant(np.eye(3, dtype=np.float32))],
    shuffle=False,
  )
  batch = tf.train.batch([value, row], 2, num_threads=1, capacity=4)
  name = tf.train.string_input_producer(["a", "b"], shuffle=False).dequeue()
  limit = tf.train.range_input_producer(3, shuffle=False).dequeue()
  return {
    "batch": batch[0],
    "rows": batch[1],
    "name": name,
    "limit": limit,
    "runners": len(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)),
    "variables": " ".join(v.name for v in tf.global_variables()),
    "summaries": len(tf.get_collection(tf.GraphKeys.SUMMARIES)),
  }


def readers():
  path = os.path.join(tempfile.mkdtemp(), "x.txt")
  with open(path, "w") as text:
    text.write("1,2\n3,4\n")
  names = tf.train.string_input_producer([path], shuffle=False)
  _, value = tf.TextLineReader().read(names)
  columns = tf.decode_csv(value, [[0], [0]])
  whole = tf.WholeFileReader()
  _, text = whole.read(tf.train.string_input_producer([path]))
  return {
    "columns": tf.stack(tf.train.batch(columns, 2)),
    "text": text,
    "count": len(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)),
  }
