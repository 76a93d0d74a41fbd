"""DeepFM and xDeepFM of deepctr, as Estimators."""

from tests.compat.packages import harness

import numpy as np
import tensorflow as tf
from deepctr.estimator import DeepFMEstimator, xDeepFMEstimator


def deep_fm(directory):
  """Factorization machines beside a deep network."""
  return _model(directory, DeepFMEstimator)


def x_deep_fm(directory):
  """With compressed interactions."""
  return _model(directory, xDeepFMEstimator)


def _model(directory, kind):
  items = tf.feature_column.categorical_column_with_identity("item", 20)
  prices = tf.feature_column.numeric_column("price")
  estimator = kind(
    [items, prices],
    [tf.feature_column.embedding_column(items, 4), prices],
    dnn_hidden_units=(8, 4),
    config=harness.run_config(directory),
  )
  return harness.Model(
    estimator, lambda: _data().repeat(), _data, ("pred", "logits")
  )


def _data():
  random = np.random.RandomState(3)
  item = random.randint(0, 20, 256)
  price = random.uniform(size=256).astype(np.float32)
  labels = ((item % 3 == 0) | (price > 0.8)).astype(np.float32)
  features = {"item": item, "price": price}
  data = tf.data.Dataset.from_tensor_slices((features, labels))
  return data.batch(64)
