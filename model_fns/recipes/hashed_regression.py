"""Logistic regression on hashed features: the baseline of models of clicks."""

import zlib
from collections.abc import Iterable, Mapping

from model_fns.recipes import recipe

import numpy as np
import tensorflow as tf
from scipy import sparse
from sklearn import linear_model, metrics

_NUM_COLUMNS = 2**16


def held_out_auc(
  train: recipe.InputFn, test: recipe.InputFn, num_columns: int = _NUM_COLUMNS
) -> float:
  """Trains scikit-learn's LogisticRegression; returns its AUC.

  A dense feature is a column. A value of a categorical feature is 1 in the
  column of its hash (Weinberger et al., 2009, arXiv:0902.2206). All examples
  are in memory, with about 12 bytes for each value.

  Args:
    train: One pass over the training examples, in batches of (features,
      labels). Features are by name: "dense" [batch, n], and categorical ones of
      integers or text; [batch, k] is padded by what is negative or empty.
    test: The held-out examples in such batches, some with a click and some
      without.
    num_columns: How many columns hashes go to.
  """
  # With so few values in an example it takes a second, others ten.
  model = linear_model.LogisticRegression(solver="newton-cg")
  model.fit(*_matrix(train, num_columns))
  examples, clicks = _matrix(test, num_columns)
  probabilities = model.predict_proba(examples)[:, 1]
  return float(metrics.roc_auc_score(clicks, probabilities))


def _matrix(
  input_fn: recipe.InputFn, num_columns: int
) -> tuple[sparse.csr_matrix, np.ndarray]:
  """Returns examples [n, columns], and their labels [n]."""
  parts, labels = [], []
  for features, clicks in _arrays(input_fn):
    hashed = [
      _one_hot(name, values, num_columns)
      for name, values in features.items()
      if name != "dense"
    ]
    parts.append(sparse.hstack([features["dense"], sum(hashed)], "csr"))
    labels.append(np.ravel(clicks))
  return sparse.vstack(parts, "csr"), np.concatenate(labels)


def _arrays(
  input_fn: recipe.InputFn,
) -> Iterable[tuple[Mapping[str, np.ndarray], np.ndarray]]:
  """Yields batches as arrays."""
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    batch = tf.compat.v1.data.make_one_shot_iterator(input_fn()).get_next()
    while True:
      try:
        yield session.run(batch)
      except tf.errors.OutOfRangeError:
        return


def _one_hot(
  name: str, values: np.ndarray, num_columns: int
) -> sparse.csr_matrix:
  """Returns a matrix [batch, columns] with 1 where the values are hashed to."""
  distinct, places = np.unique(values, return_inverse=True)
  texts = [x if isinstance(x, bytes) else b"%d" % x for x in distinct]
  hashes = np.array(
    [zlib.crc32(b"%s=%s" % (name.encode(), x)) % num_columns for x in texts]
  )
  columns = hashes[places].reshape(len(values), -1)
  ones = np.ones(columns.shape, np.float32)
  if values.ndim > 1:
    is_padding = np.array([x.startswith(b"-") or not x for x in texts])
    ones[is_padding[places].reshape(columns.shape)] = 0.0
  rows = np.arange(len(values)).repeat(columns.shape[1])
  return sparse.csr_matrix(
    (ones.ravel(), (rows, columns.ravel())), (len(values), num_columns)
  )
