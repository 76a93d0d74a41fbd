"""Transformations of tf.contrib.data; a case gives the first elements."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.contrib import data


def _all(dataset, count):
  """Elements 0 to count - 1, in order, by name."""
  iterator = tf.data.make_one_shot_iterator(dataset)
  found = {}
  before = []
  for i in range(count):
    with tf.control_dependencies(before):
      element = tf.contrib.framework.nest.flatten(iterator.get_next())
    for j, part in enumerate(element):
      found["%d_%d" % (i, j)] = part
    before = [tf.identity(part) for part in element]
  found["shapes"] = str(dataset.output_shapes)
  found["types"] = str(dataset.output_types)
  return found


def _numbers(count=12):
  return tf.data.Dataset.range(count)


def windows():
  found = _all(_numbers().apply(data.sliding_window_batch(3, 2)), 3)
  del found["shapes"]  # 1.15 does not know them.
  return found


def windows_of_structures():
  pairs = tf.data.Dataset.zip((_numbers(), {"b": _numbers().map(tf.square)}))
  windows = data.sliding_window_batch(4, window_shift=3, window_stride=2)
  found = _all(pairs.apply(windows), 2)
  del found["shapes"]
  return found


def full_batches():
  return _all(_numbers().apply(data.batch_and_drop_remainder(5)), 2)


def full_padded_batches():
  lists = _numbers().map(lambda n: tf.fill([n % 4], n))
  padding = np.int64(-1)
  batches = lists.apply(
    data.padded_batch_and_drop_remainder(5, [None], padding)
  )
  return _all(batches, 2)


def asserted_shapes():
  lists = _numbers().map(lambda n: (tf.fill([n % 4, 3], n), {"b": n}))
  shapes = (tf.TensorShape([None, 3]), {"b": tf.TensorShape([])})
  return _all(lists.apply(data.assert_element_shape(shapes)), 2)


def reduced():
  reducer = data.Reducer(
    lambda key: (key, tf.constant(0, tf.int64)),
    lambda state, n: (state[0] + 1, state[1] + n),
    lambda count, total: total / count,
  )
  count, total = data.reduce_dataset(_numbers(), reducer)
  return {"count": count, "total": total}


def others():
  found = _all(_numbers(4).apply(data.enumerate_dataset(3)), 2)
  batches = _numbers().batch(4).apply(data.unbatch())
  found.update(("b" + k, v) for k, v in _all(batches, 5).items())
  counter = data.Counter(3, 2)
  found.update(("c" + k, v) for k, v in _all(counter, 3).items())
  sparse = _numbers().map(lambda n: tf.fill([n % 3], n))
  sparse = sparse.apply(data.dense_to_sparse_batch(3, [4]))
  batch = tf.data.make_one_shot_iterator(sparse).get_next()
  found["sparse"] = tf.sparse.to_dense(batch)
  found["single"] = data.get_single_element(_numbers(1))
  return found


def _records():
  """Writes a file of three examples."""
  handle, path = tempfile.mkstemp()
  os.close(handle)
  with tf.python_io.TFRecordWriter(path) as writer:
    for i in range(3):
      values = tf.train.FloatList(value=[i, i + 0.5])
      example = tf.train.Example()
      example.features.feature["x"].float_list.CopyFrom(values)
      writer.write(example.SerializeToString())
  return path


def features():
  batch = data.read_batch_features(
    _records(),
    2,
    {"x": tf.FixedLenFeature([2], tf.float32)},
    randomize_input=False,
    num_epochs=1,
  )
  return {"x": batch["x"], "names": " ".join(batch)}
