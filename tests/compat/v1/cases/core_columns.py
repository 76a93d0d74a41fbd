"""tf.feature_column, the layers it feeds, and canned Estimators' parts."""

import numpy as np
import tensorflow as tf


def _features():
  return {
    "age": tf.constant([[20.0], [35.0], [50.0]]),
    "city": tf.constant([["a"], ["b"], ["z"]]),
    "id": tf.constant([[3], [7], [11]]),
    "tags": tf.SparseTensor(
      [[0, 0], [0, 1], [2, 0]], tf.constant(["x", "y", "x"]), [3, 2]
    ),
  }


def _columns():
  column = tf.feature_column
  city = column.categorical_column_with_vocabulary_list(
    "city", ["a", "b"], num_oov_buckets=1
  )
  tags = column.categorical_column_with_hash_bucket("tags", 5)
  ids = column.categorical_column_with_identity("id", 12)
  ages = column.bucketized_column(column.numeric_column("age"), [30, 40])
  return city, tags, ids, ages


def input_layer():
  column = tf.feature_column
  city, tags, ids, ages = _columns()
  crossed = column.crossed_column([ages, "city"], 10)
  columns = [
    column.numeric_column("age", normalizer_fn=lambda x: x / 10),
    column.indicator_column(city),
    column.embedding_column(tags, 2),
    column.embedding_column(ids, 3, combiner="sum", max_norm=1.0),
    column.indicator_column(crossed),
    ages,
  ]
  collected = []
  layer = column.input_layer(
    _features(), columns, cols_to_vars=None, weight_collections=["w"]
  )
  return {
    "layer": layer,
    "names": " ".join(v.name for v in tf.global_variables()),
    "collected": len(tf.get_collection("w")) + len(collected),
    "spec": str(sorted(column.make_parse_example_spec(columns))),
  }


def sequences():
  column = tf.feature_column
  tags = column.sequence_categorical_column_with_hash_bucket("tags", 5)
  embedded = column.embedding_column(tags, 2)
  layer = tf.keras.experimental.SequenceFeatures([embedded])
  inputs, lengths = layer(_features())
  return {"inputs": inputs, "lengths": lengths}


def sequences_in_older_layers():
  column = tf.feature_column
  contrib = tf.contrib.feature_column
  features = _features()
  features["weights"] = tf.SparseTensor(
    features["tags"].indices, [1.0, 3.0, 0.5], [3, 2]
  )
  tags = column.sequence_categorical_column_with_hash_bucket("tags", 5)
  older = contrib.sequence_categorical_column_with_hash_bucket("tags", 4)
  weighted = column.weighted_categorical_column(older, "weights")
  inputs, lengths = contrib.sequence_input_layer(
    features,
    [
      column.embedding_column(tags, 2),
      column.indicator_column(older),
      contrib.sequence_numeric_column("weights"),
    ],
  )
  shared, _ = contrib.sequence_input_layer(
    features, column.shared_embedding_columns([tags], 3)
  )
  return {
    "inputs": inputs,
    "lengths": lengths,
    "shared": shared,
    "sum": column.linear_model(features, [tags]),
    "layer": column.input_layer(
      features, [column.embedding_column(weighted, 2)]
    ),
  }


def weights_and_names_of_dense_features():
  column = tf.feature_column
  _, tags, _, ages = _columns()
  layer = tf.keras.layers.DenseFeatures(
    [column.embedding_column(tags, 2), ages]
  )
  return {"layer": layer(_features())}


def numeric_inputs():
  inputs = tf.estimator.inputs.numpy_input_fn(
    {"x": np.arange(4, dtype=np.float32)},
    np.arange(4),
    batch_size=2,
    shuffle=False,
    num_epochs=1,
  )
  features, labels = inputs()
  return {"x": features["x"], "labels": labels}


def _model(estimator, mode):
  features = {"age": tf.constant([[20.0], [35.0], [50.0]])}
  spec = estimator._call_model_fn(
    features, tf.constant([[0.0], [1.0], [1.0]]), mode, estimator.config
  )
  results = {"loss": spec.loss}
  results["collections"] = " ".join(
    v.name for v in tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
  )
  return results, spec.train_op


def dnn_regressor():
  tf.train.create_global_step()
  estimator = tf.estimator.DNNRegressor(
    [4, 3], [tf.feature_column.numeric_column("age")]
  )
  return _model(estimator, tf.estimator.ModeKeys.TRAIN)
