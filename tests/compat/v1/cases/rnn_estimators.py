"""RNNClassifier and RNNEstimator of tf.contrib.estimator."""

import tempfile

import numpy as np
import tensorflow as tf
from tensorflow_estimator.python.estimator.head import sequential_head

contrib = tf.contrib.estimator
columns = tf.contrib.feature_column
_LABELS = [[b"no"], [b"yes"], [b"maybe"]]


def _words():
  words = columns.sequence_categorical_column_with_vocabulary_list(
    "words", ["a", "b", "c", "d"]
  )
  return tf.feature_column.embedding_column(words, 3)


def _numbers():
  return columns.sequence_numeric_column("numbers")


def _input_fn(labels):
  features = {
    "words": tf.SparseTensor(
      [[0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [2, 2]],
      ["a", "d", "c", "b", "b", "a"],
      [3, 3],
    ),
    "numbers": tf.SparseTensor(
      [[0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [2, 2]],
      [1.0, -2.0, 0.5, 0.25, -1.0, 3.0],
      [3, 3],
    ),
    "age": tf.constant([[3.0], [5.0], [-1.0]]),
    "kind": tf.constant([["x"], ["y"], ["x"]]),
    "w": tf.constant([[1.0], [0.5], [2.0]]),
  }
  dataset = tf.data.Dataset.from_tensors((features, labels)).repeat(3)
  return dataset


def _config():
  return tf.estimator.RunConfig(tf_random_seed=3)


def _trained(estimator, labels):
  """Variables, metrics and predictions after three steps."""
  estimator.train(lambda: _input_fn(labels), steps=3)
  found = {
    name: estimator.get_variable_value(name)
    for name in estimator.get_variable_names()
  }
  for name, value in estimator.evaluate(lambda: _input_fn(labels)).items():
    found["eval/" + name] = value
  predicted = list(estimator.predict(lambda: _input_fn(labels).take(1)))
  for name in predicted[0]:
    value = np.array([one[name] for one in predicted])
    found["predict/" + name] = (
      value.astype("S") if value.dtype == object else value
    )
  return found


def classifier():
  kind = tf.feature_column.categorical_column_with_vocabulary_list(
    "kind", ["x", "y"]
  )
  return _trained(
    contrib.RNNClassifier(
      [_words(), _numbers()],
      [
        tf.feature_column.numeric_column("age"),
        tf.feature_column.embedding_column(kind, 2),
      ],
      num_units=[4, 3],
      cell_type="lstm",
      model_dir=tempfile.mkdtemp(),
      n_classes=3,
      weight_column="w",
      label_vocabulary=["yes", "no", "maybe"],
      config=_config(),
    ),
    _LABELS,
  )


def classifier_of_two_classes():
  return _trained(
    contrib.RNNClassifier(
      [_words()],
      num_units=[4],
      model_dir=tempfile.mkdtemp(),
      optimizer=lambda: tf.train.GradientDescentOptimizer(3.0),
      loss_reduction=tf.losses.Reduction.SUM,
      input_layer_partitioner=tf.fixed_size_partitioner(2),
      config=_config(),
    ),
    [[1], [0], [1]],
  )


def estimator_of_a_cell():
  return _trained(
    contrib.RNNEstimator(
      contrib.regression_head(),
      [_numbers()],
      rnn_cell_fn=lambda mode: tf.nn.rnn_cell.GRUCell(3),
      model_dir=tempfile.mkdtemp(),
      optimizer=tf.train.AdamOptimizer(0.1),
      config=_config(),
    ),
    [[1.0], [2.0], [-1.0]],
  )


def estimator_of_each_step():
  head = sequential_head.SequentialHeadWrapper(
    tf.estimator.MultiClassHead(3),
    sequence_length_mask="mask",
  )
  return _trained(
    contrib.RNNEstimator(
      head,
      [_words()],
      num_units=[4],
      cell_type="gru",
      return_sequences=True,
      model_dir=tempfile.mkdtemp(),
      optimizer="SGD",
      config=_config(),
    ),
    [[0, 1, 0], [2, 0, 0], [1, 1, 2]],
  )
