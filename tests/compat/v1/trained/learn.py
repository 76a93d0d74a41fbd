"""Models of tf.contrib.learn go on from 1.15: weights, biases, slots, steps."""

import tempfile

import numpy as np
import tensorflow as tf

learn = tf.contrib.learn
layers = tf.contrib.layers

_RANDOM = np.random.RandomState(2)
_X = _RANDOM.normal(size=(6, 3)).astype(np.float32)
_LABELS = np.array([[0], [2], [1], [1], [0], [2]])


def _columns():
  ids = layers.sparse_column_with_integerized_feature("id", 7)
  wide = [ids, layers.bucketized_column(_number(), [-0.5, 0.0, 0.5])]
  return wide, [_number(), layers.embedding_column(ids, dimension=2)]


def _number():
  return layers.real_valued_column("x", dimension=3)


def _trained(make, labels=_LABELS, **options):
  estimator = make(
    model_dir=tempfile.mkdtemp(), config=learn.RunConfig(), **options
  )
  tf.train.create_global_step()
  rows = np.stack([np.arange(6), np.zeros(6, np.int64)], 1)
  ids = tf.SparseTensor(rows, np.array([0, 3, 3, 1, 0, 5]), [6, 1])
  x = tf.placeholder_with_default(_X, [6, 3])
  ops = estimator.model_fn(
    {"x": x, "id": ids}, tf.constant(labels), "train", estimator.config
  )
  return {"loss": ops.loss}, ops.train_op


def dnn_classifier():
  return _trained(
    learn.DNNClassifier,
    hidden_units=[4, 3],
    feature_columns=_columns()[1],
    n_classes=3,
    optimizer="Adam",
  )


def linear_regressor():
  return _trained(
    learn.LinearRegressor,
    np.float32(_LABELS),
    feature_columns=_columns()[0],
    gradient_clip_norm=0.5,
  )


def combined_classifier():
  wide, deep = _columns()
  return _trained(
    learn.DNNLinearCombinedClassifier,
    _LABELS % 2,
    linear_feature_columns=wide,
    dnn_feature_columns=deep,
    dnn_hidden_units=[4],
    fix_global_step_increment_bug=True,
  )
