"""tf.data of version 1, and the queues and readers from before it."""

import os
import tempfile

import numpy as np
import tensorflow as tf


def _all(dataset, count=4):
  """The first elements, by an iterator that is initialized when it is made."""
  iterator = dataset.make_one_shot_iterator()
  return [iterator.get_next() for _ in range(count)]


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


def bucket_by_length():
  dataset = tf.data.Dataset.range(1, 9).map(lambda x: tf.fill([x % 4 + 1], x))
  dataset = dataset.apply(
    tf.data.experimental.bucket_by_sequence_length(
      lambda x: tf.shape(x)[0], [3], [2, 2]
    )
  )
  return {"first": tf.shape(_all(dataset, 1)[0])}


def sources():
  def generate():
    for k in range(3):
      yield k, [float(k)] * k

  dataset = tf.data.Dataset.from_generator(
    generate,
    (tf.int32, tf.float32),
    (tf.TensorShape([]), tf.TensorShape([None])),
  )
  numbers, rows = _all(dataset, 1)[0]
  slices = tf.data.Dataset.from_tensor_slices(
    {"a": np.arange(3), "b": np.ones(3)}
  )
  return {
    "numbers": numbers,
    "rows": rows,
    "slices": _stacked(slices, 3)["a"],
    "types": str(sorted(slices.output_types.items())),
    "csv": tf.stack(tf.decode_csv(["1,2", "3,4"], [[0], [0]])),
    "strings": tf.string_to_number(["1.5", "2"]),
  }


def records():
  folder = tempfile.mkdtemp()
  path = os.path.join(folder, "x.tfrecord")
  options = tf.python_io.TFRecordOptions(
    tf.python_io.TFRecordCompressionType.GZIP
  )
  for name, chosen in (("x.tfrecord", None), ("x.gz", options)):
    with tf.python_io.TFRecordWriter(os.path.join(folder, name), chosen) as to:
      for k in range(3):
        example = tf.train.Example(
          features=tf.train.Features(
            feature={
              "k": tf.train.Feature(int64_list=tf.train.Int64List(value=[k])),
              "v": tf.train.Feature(
                float_list=tf.train.FloatList(value=[k] * k)
              ),
            }
          )
        )
        to.write(example.SerializeToString())
  read = list(tf.python_io.tf_record_iterator(path))
  spec = {
    "k": tf.FixedLenFeature([], tf.int64),
    "v": tf.VarLenFeature(tf.float32),
  }
  dataset = tf.data.TFRecordDataset([path]).map(
    lambda x: tf.parse_single_example(x, spec)
  )
  batch = tf.data.TFRecordDataset(
    os.path.join(folder, "x.gz"), compression_type="GZIP"
  ).batch(3)
  serialized = batch.make_one_shot_iterator().get_next()
  parsed = tf.parse_example(serialized, spec)
  features = tf.data.experimental.make_batched_features_dataset(
    path, 2, spec, shuffle=False, num_epochs=1
  )
  with open(os.path.join(folder, "x.txt"), "w") as text:
    text.write("one\ntwo\n")
  lines = tf.data.TextLineDataset(os.path.join(folder, "x.txt"))
  return {
    "count": len(read),
    "first": _all(dataset, 1)[0]["k"],
    "k": parsed["k"],
    "v": tf.sparse_tensor_to_dense(parsed["v"]),
    "batched": features.make_one_shot_iterator().get_next()["k"],
    "line": lines.make_one_shot_iterator().get_next(),
    "exists": str(tf.gfile.Exists(path)),
    "glob": len(tf.gfile.Glob(os.path.join(folder, "x.*"))),
    "file": tf.read_file(os.path.join(folder, "x.txt")),
    "opened": tf.gfile.GFile(os.path.join(folder, "x.txt")).read(),
    "fast": tf.gfile.FastGFile(os.path.join(folder, "x.txt"), "rb").read(),
    "listed": len(tf.gfile.ListDirectory(folder)),
  }


def queues():
  queue = tf.FIFOQueue(5, [tf.float32, tf.int32], shapes=[[], [2]])
  filled = queue.enqueue_many([[1.0, 2.0, 3.0], [[1, 1], [2, 2], [3, 3]]])
  with tf.control_dependencies([filled]):
    taken = queue.dequeue_many(2)
  first = tf.PriorityQueue(5, [tf.string], [[]])
  push = first.enqueue_many([np.int64([3, 1, 2]), ["c", "a", "b"]])
  with tf.control_dependencies([push]):
    priority = first.dequeue()
  shuffled = tf.RandomShuffleQueue(5, 0, tf.int32, [[]], seed=3)
  with tf.control_dependencies([shuffled.enqueue_many([[1, 2, 3, 4]])]):
    many = shuffled.dequeue_many(4)
  padding = tf.PaddingFIFOQueue(4, [tf.int32], [[None]])
  with tf.control_dependencies(
    [tf.group(padding.enqueue([[1]]), padding.enqueue([[1, 2]]))]
  ):
    padded = tf.shape(padding.dequeue_many(2))
  return {
    "floats": taken[0],
    "rows": taken[1],
    "priority": priority[1],
    "many": tf.sort(many),
    "padded": padded,
    "size": str(queue.size().op.type),
    "names": queue.name,
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


def shuffled_batches():
  value = tf.train.range_input_producer(5, shuffle=True, seed=2).dequeue()
  batch = tf.train.shuffle_batch(
    [value], 5, capacity=20, min_after_dequeue=5, seed=4, num_threads=1
  )
  many = tf.train.batch_join([[tf.constant(1)]], 3)
  pads = tf.train.batch([tf.ones([2])], 2, dynamic_pad=True)
  buckets = tf.train.maybe_batch([tf.constant(1)], True, 2)
  return {
    "batch": tf.shape(batch),
    "many": many,
    "pads": pads,
    "maybe": buckets,
  }


def strings():
  x = tf.constant(["a b", "c", ""])
  split = tf.string_split(x)
  return {
    "split": split,
    "shape": split.dense_shape,
    "kept": tf.string_split(["a,,b"], delimiter=",", skip_empty=False).values,
    "strings_split": tf.strings.split(x).values,
    "ragged": tf.strings.split(x, result_type="RaggedTensor").row_lengths(),
    "join": tf.string_join([x, x], separator="-"),
    "reduce": tf.reduce_join([["a", "b"], ["c", "d"]], 1),
    "reduce_named": tf.reduce_join(
      [["a", "b"], ["c", "d"]], reduction_indices=0, keep_dims=True
    ),
    "length": tf.strings.length(x),
    "substr": tf.substr(x, 0, 1),
    "regex": tf.regex_replace(x, "a", "z"),
    "upper": tf.strings.upper(x),
    "number": tf.strings.to_number(["1"], tf.int32),
    "as_string": tf.as_string([1.5, 2.0], precision=2),
    "hash": tf.string_to_hash_bucket(x, 100),
    "fast": tf.string_to_hash_bucket_fast(x, 100),
    "strong": tf.string_to_hash_bucket_strong(x, 100, [1, 2]),
    "base64": tf.encode_base64(x),
    "raw": tf.decode_raw(["ab"], tf.uint8),
    "serialized": tf.parse_tensor(
      tf.serialize_tensor(tf.ones([2])), tf.float32
    ),
    "compat": tf.compat.as_text(b"x") + tf.compat.as_str("y"),
  }


def sparse():
  s = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.0, 2.0, 3.0], [2, 3])
  return {
    "dense": tf.sparse_tensor_to_dense(s, default_value=-1),
    "to": tf.sparse_to_dense([[0, 1]], [2, 2], [5], 1),
    "sum": tf.sparse_reduce_sum(s, 1),
    "sum_named": tf.sparse_reduce_sum(s, reduction_axes=[0], keep_dims=True),
    "matmul": tf.sparse_tensor_dense_matmul(s, tf.ones([3, 2])),
    "concat": tf.sparse_concat(1, [s, s]),
    "concat_dim": tf.sparse_concat(axis=None, concat_dim=0, sp_inputs=[s, s]),
    "add": tf.sparse_add(s, s, thresh=0.0),
    "add_dense": tf.sparse_add(s, tf.ones([2, 3])),
    "reorder": tf.sparse_reorder(s),
    "reshape": tf.sparse_reshape(s, [3, 2]),
    "retain": tf.sparse_retain(s, [True, False, True]),
    "slice": tf.sparse_slice(s, [0, 0], [1, 3]),
    "softmax": tf.sparse_softmax(s),
    "transpose": tf.sparse_transpose(s),
    "split": tf.sparse_split(sp_input=s, num_split=3, axis=1)[0],
    "fill": tf.sparse_fill_empty_rows(s, 0.0)[0],
    "reset": tf.sparse_reset_shape(s),
    "merge": tf.sparse_merge(
      tf.SparseTensor([[0, 0]], [1], [1, 1]),
      tf.SparseTensor([[0, 0]], [2.0], [1, 1]),
      3,
    ),
    "maximum": tf.sparse_maximum(s, s),
    "placeholder": str(tf.sparse_placeholder(tf.float32, [2, 3]).get_shape()),
    "static": str(s.get_shape()) + str(s.shape),
    "segment": tf.sparse_segment_sum(tf.ones([3, 2]), [0, 1], [0, 0]),
    "mask": tf.sparse_mask(
      tf.IndexedSlices(tf.ones([2, 1]), tf.constant([1, 2])), [1]
    ).values,
    "indicator": tf.sparse_to_indicator(
      tf.SparseTensor([[0, 0]], tf.constant([1], tf.int64), [1, 1]), 3
    ),
  }


def tables():
  keys, values = tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)
  table = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(keys, values), -1
  )
  buckets = tf.lookup.StaticVocabularyTable(
    tf.lookup.KeyValueTensorInitializer(keys, values - 1), 3
  )
  return {
    "found": table.lookup(tf.constant(["b", "z"])),
    "buckets": buckets.lookup(tf.constant(["b", "z"])),
    "size": table.size(),
  }
