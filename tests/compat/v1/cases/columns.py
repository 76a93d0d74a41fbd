"""Feature columns of tf.contrib.layers, and what models make of them."""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.contrib import layers

_WORDS = np.array([["a", "b"], ["c", ""], ["d", "d"]])
_NUMBERS = np.array([[0.5, -2.0], [1.5, 3.0], [7.0, 0.0]], np.float32)


def _sparse(values):
  places = [[0, 0], [0, 1], [2, 0], [2, 1]]
  return tf.SparseTensor(places, tf.constant(values), [3, 2])


def _features():
  return {
    "dense_words": tf.constant(_WORDS),
    "words": _sparse(["a", "x", "c", "a"]),
    "more": _sparse(["c", "c", "b", "y"]),
    "ids": _sparse(np.array([1, 7, 3, -2], np.int64)),
    "weights": _sparse([0.5, 2.0, -1.0, 3.0]),
    "numbers": tf.placeholder_with_default(_NUMBERS, [None, 2]),
    "age": tf.constant([[17], [33], [65]], tf.int64),
  }


def _columns():
  keys = layers.sparse_column_with_keys("words", ["a", "b", "c"])
  age = layers.bucketized_column(
    layers.real_valued_column("age", dtype=tf.int64), [18, 30, 30, 60]
  )
  numbers = layers.real_valued_column(
    "numbers", 2, normalizer=lambda x: x / 10.0
  )
  ids = layers.sparse_column_with_integerized_feature(
    "ids", 5, combiner="sqrtn"
  )
  hashed = layers.sparse_column_with_hash_bucket("more", 7)
  strong = layers.sparse_column_with_hash_bucket(
    "dense_words", 11, hash_keys=[[1, 2], [3, 4]]
  )
  return keys, age, numbers, ids, hashed, strong


def _ready(features, columns, **kwargs):
  found = layers.transform_features(features, columns)
  return [found[column] for column in columns]


def transformed():
  keys, age, numbers, ids, hashed, strong = _columns()
  buckets = layers.bucketized_column(
    layers.real_valued_column("numbers", 2), [0.0, 1.0]
  )
  columns = [
    keys,
    age,
    numbers,
    ids,
    hashed,
    strong,
    buckets,
    layers.crossed_column([keys, hashed], 1000),
    layers.crossed_column([keys, age, hashed], 10**6),
    layers.crossed_column([keys, ids, buckets], 10**6, hash_key=17),
    layers.crossed_column([layers.crossed_column([keys, age], 9), ids], 10**9),
    layers.sparse_column_with_hash_bucket("ids", 6, dtype=tf.int64),
  ]
  results = {}
  for column, value in zip(columns, _ready(_features(), columns)):
    results[column.name + str(len(results))] = value
  results["names"] = np.array([column.name for column in columns], "S")
  results["lengths"] = [
    column.length for column in columns if column != numbers
  ]
  return {
    name.replace("/", "_"): value
    for name, value in results.items()
    if name != "keys"
  }


def vocabulary_files():
  path = os.path.join(tempfile.mkdtemp(), "words")
  with open(path, "w") as words:
    words.write("a\nc\nd\n")
  column = layers.sparse_column_with_vocabulary_file(
    "words", path, num_oov_buckets=2, vocab_size=3
  )
  dense = layers.sparse_column_with_vocabulary_file(
    "dense_words", path, vocab_size=2, default_value=1
  )
  found = _ready(_features(), [column, dense])
  return {"sparse": found[0], "dense": found[1], "length": column.length}


def input_layer():
  keys, age, numbers, ids, hashed, _ = _columns()
  weighted = layers.weighted_sparse_column(hashed, "weights")
  columns = [
    numbers,
    age,
    layers.one_hot_column(keys),
    layers.one_hot_column(
      layers.weighted_sparse_column(
        layers.sparse_column_with_integerized_feature("ids", 9), "weights"
      )
    ),
    layers.embedding_column(hashed, 3),
    layers.embedding_column(ids, 2, combiner="sum", max_norm=0.4),
    layers.embedding_column(weighted, 2, combiner="sum"),
    layers.embedding_column(
      layers.crossed_column([keys, hashed], 20),
      2,
      initializer=tf.constant_initializer(0.5),
      trainable=False,
    ),
    layers.scattered_embedding_column("words", 30, 4, 5),
  ]
  parts = {}
  inputs = layers.input_from_feature_columns(
    _features(), columns, weight_collections=["mine"], cols_to_outs=parts
  )
  found = tf.get_collection("mine")
  return {
    "inputs": inputs,
    "first": parts[numbers],
    "mine": np.array([one.op.name for one in found], "S"),
    "model": np.array(
      [one.op.name for one in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)],
      "S",
    ),
    "trainable": np.array(
      [one.op.name for one in tf.trainable_variables()], "S"
    ),
  }


def shared_embeddings():
  words = layers.sparse_column_with_hash_bucket("words", 9)
  more = layers.sparse_column_with_hash_bucket("more", 9)
  columns = layers.shared_embedding_columns([words, more], 3, combiner="sum")
  (alone,) = layers.shared_embedding_columns(
    [words], 2, shared_embedding_name="alone"
  )
  return {
    "inputs": layers.input_from_feature_columns(
      _features(), [*columns, alone], scope="top"
    ),
    "names": np.array([column.name for column in columns], "S"),
    "shared": columns[0].shared_embedding_name,
  }


def linear_model():
  keys, age, numbers, ids, hashed, strong = _columns()
  columns = [
    keys,
    age,
    numbers,
    ids,
    strong,
    layers.weighted_sparse_column(hashed, "weights"),
    layers.crossed_column([keys, hashed], 20),
  ]
  predictions, variables, bias = layers.weighted_sum_from_feature_columns(
    _features(), columns, 2
  )
  weights = tf.concat([variables[column][0] for column in columns], 0)
  # Weights begin as zeros, which would hide mistakes.
  values = tf.cos(
    tf.reshape(tf.cast(tf.range(tf.size(weights)), tf.float32), [-1, 2])
  )
  assigned = []
  start = 0
  for column in columns:
    variable = variables[column][0]
    end = start + variable.shape[0].value
    assigned.append(tf.assign(variable, values[start:end]))
    start = end
  assigned.append(tf.assign(bias, [0.5, -1.0]))
  return {"predictions": predictions}, tf.group(*assigned)


def joint_linear_model():
  keys, _, _, _, hashed, _ = _columns()
  columns = [keys, hashed, layers.crossed_column([keys, hashed], 20)]
  predictions, variables, bias = layers.joint_weighted_sum_from_feature_columns(
    _features(), columns, 2
  )
  (weights,) = variables
  values = tf.cos(tf.cast(tf.range(tf.size(weights)), tf.float32))
  assigned = tf.assign(weights, tf.reshape(values, tf.shape(weights)))
  return {"predictions": predictions, "bias": bias}, assigned


def sequences():
  ids = layers.sparse_column_with_integerized_feature("ids", 5)
  features = {
    "ids": _sparse(np.array([1, 7, 3, 2], np.int64)),
    "values": tf.constant(np.arange(12).reshape(3, 2, 2).astype(np.float32)),
  }
  return {
    "inputs": layers.sequence_input_from_feature_columns(
      features,
      [
        layers.embedding_column(ids, 3),
        layers.one_hot_column(ids),
        layers.real_valued_column("values", 2),
      ],
    )
  }


def parsed():
  keys, age, numbers, ids, hashed, _ = _columns()
  examples = []
  for row in range(3):
    example = tf.train.Example()
    feature = example.features.feature
    feature["words"].bytes_list.value.append(b"abc"[row : row + 1])
    feature["age"].int64_list.value.append(17 * row)
    feature["numbers"].float_list.value.extend([row, -row])
    examples.append(example.SerializeToString())
  columns = [keys, age, numbers, layers.one_hot_column(keys)]
  tensors = layers.parse_feature_columns_from_examples(
    tf.constant(examples), columns
  )
  spec = layers.create_feature_spec_for_parsing([*columns, ids, hashed])
  placeholders = layers.make_place_holder_tensors_for_base_features(columns)
  (inferred,) = layers.infer_real_valued_columns({"n": tf.zeros([3, 2, 4])})
  return {
    "age": tensors[age],
    "numbers": tensors[numbers],
    "words": tensors[keys],
    "spec": np.array(
      ["%s %s" % (name, type(spec[name]).__name__) for name in sorted(spec)],
      "S",
    ),
    "placeholders": np.array(
      [
        "%s %s" % (name, placeholders[name].dtype.name)
        for name in sorted(placeholders)
      ],
      "S",
    ),
    "inferred": inferred.dimension,
  }


def parsed_sequences():
  example = tf.train.SequenceExample()
  example.context.feature["age"].int64_list.value.append(5)
  for word in (b"a", b"c"):
    feature = example.feature_lists.feature_list["words"].feature.add()
    feature.bytes_list.value.append(word)
  context, sequence = layers.parse_feature_columns_from_sequence_examples(
    tf.constant(example.SerializeToString()),
    [layers.real_valued_column("age", dtype=tf.int64)],
    [layers.sparse_column_with_hash_bucket("words", 5)],
  )
  return {"age": context["age"], "words": sequence["words"]}


def in_core_layers():
  keys, age, numbers, _, hashed, _ = _columns()
  features = _features()
  return {
    "inputs": tf.feature_column.input_layer(
      features, [numbers, age, layers.embedding_column(hashed, 2)]
    ),
    "linear": tf.feature_column.linear_model(features, [keys, age, numbers]),
  }


def scattered_lookups():
  from tensorflow.contrib.layers.python.layers import embedding_ops

  table = tf.get_variable(
    "table", [50], initializer=layers.xavier_initializer()
  )
  words = tf.constant(_WORDS)
  return {
    "dense": embedding_ops.scattered_embedding_lookup(table, words, 3),
    "keyed": embedding_ops.scattered_embedding_lookup(
      table, words, 3, hash_key=8
    ),
    "sparse": embedding_ops.scattered_embedding_lookup_sparse(
      table, _sparse(["a", "x", "c", "a"]), 4, combiner="mean"
    ),
  }


def crosses_of_many():
  from tensorflow.contrib.layers.python.ops import sparse_feature_cross_op

  random = np.random.RandomState(3)
  words = tf.constant(random.choice(list("abcdefghij"), [40, 2]))
  numbers = tf.constant(random.randint(-(2**62), 2**62, [40, 1]))
  more = tf.constant(random.randint(0, 99, [40, 2]).astype(np.int32))
  cross = sparse_feature_cross_op.sparse_feature_cross
  return {
    "hashed": cross([words, numbers, more], hashed_output=True),
    "small": cross([words, words], hashed_output=True, num_buckets=13),
    "joined": cross([words, more]),
    "keyed": cross([words, more], hashed_output=True, hash_key=3),
  }


def from_a_checkpoint():
  path = os.path.join(tempfile.mkdtemp(), "model")
  with tf.Graph().as_default(), tf.Session() as session:
    tf.get_variable("vectors", initializer=_NUMBERS)
    session.run(tf.global_variables_initializer())
    tf.train.Saver().save(session, path)
  keys = _columns()[0]
  embedded = layers.embedding_column(
    keys, 2, ckpt_to_load_from=path, tensor_name_in_ckpt="vectors"
  )
  return {"inputs": layers.input_from_feature_columns(_features(), [embedded])}
