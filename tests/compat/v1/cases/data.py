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


def groups():
  by_reducer = _numbers().apply(
    data.group_by_reducer(
      lambda n: n % 3,
      data.Reducer(lambda key: key, lambda state, n: state + n, lambda n: n),
    )
  )
  by_window = _numbers().apply(
    data.group_by_window(lambda n: n % 2, lambda key, d: d.batch(4), 4)
  )
  found = _all(by_reducer, 3)
  found.update(("w" + k, v) for k, v in _all(by_window, 3).items())
  return found


def buckets():
  lists = _numbers().map(lambda n: tf.fill([n % 5 + 1], n))
  return _all(
    lists.apply(
      data.bucket_by_sequence_length(
        lambda one: tf.shape(one)[0], [3, 5], [2, 2, 1]
      )
    ),
    4,
  )


def interleaved():
  mixed = _numbers(4).apply(
    data.parallel_interleave(
      lambda n: tf.data.Dataset.from_tensors(n).repeat(3), 2, block_length=2
    )
  )
  return _all(mixed, 8)


def scanned_and_unique():
  scanned = _numbers().apply(
    data.scan(tf.constant(0, tf.int64), lambda state, n: (state + n, state))
  )
  unique = _numbers().map(lambda n: n // 3).apply(data.unique())
  found = _all(scanned, 4)
  found.update(("u" + k, v) for k, v in _all(unique, 3).items())
  return found


def mapped_and_batched():
  batches = _numbers().apply(
    data.map_and_batch(lambda n: (n, n * n), 5, drop_remainder=True)
  )
  return _all(batches, 2)


def chosen():
  choice = tf.data.Dataset.from_tensor_slices(np.array([0, 1, 1, 0]))
  parts = [_numbers(), _numbers().map(lambda n: n + 100)]
  return _all(data.choose_from_datasets(parts, choice), 4)


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


def csv():
  handle, path = tempfile.mkstemp()
  with os.fdopen(handle, "w") as file:
    file.write("a,b,c\n1,2.5,x\n3,4.5,y\n5,6.5,z\n")
  dataset = data.make_csv_dataset(
    path, 2, shuffle=False, label_name="c", num_epochs=1
  )
  found = _all(dataset, 1)
  plain = data.CsvDataset(
    path, [0, 0.5, ""], header=True, select_cols=[0, 1, 2]
  )
  found.update(("p" + k, v) for k, v in _all(plain, 2).items())
  return found
