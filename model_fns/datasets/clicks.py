"""A generated log of clicks whose distribution is known.

Nobody clicked: users, items and clicks are drawn by this program. So the true
probability of each click is known, and with it the best AUC that a model can be
expected to reach.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from model_fns.datasets import click_log, dataset

import numpy as np
import tensorflow as tf

_FIELDS: Mapping[str, int] = {"user": 500, "item": 200, "country": 30}
_NUM_TAGS = 100
_MOST_TAGS = 5
_NUM_DENSE = 4
_WIDTH = 3
_BIAS = -1.3
_STDDEV_OF_WEIGHTS = 0.5
_STDDEV_OF_PRODUCTS = 0.6
_ID_FACTOR = 7919  # Ids are not consecutive, as in a log.


@dataclasses.dataclass(frozen=True)
class _Drawn:
  """Examples, with what is known of them.

  Attributes:
    features: Arrays by the names of features.
    labels: float32 [n, 1].
    probabilities: Of a click, float64 [n].
  """

  features: Mapping[str, np.ndarray]
  labels: np.ndarray
  probabilities: np.ndarray


def load(
  num_train: int = 200_000, num_test: int = 20_000, seed: int = 0
) -> click_log.ClickLog:
  """Draws a log of clicks.

  An example has four dense features, a user, an item and a country, each of
  which is frequent or rare by Zipf's law, and none to five tags, as a list
  [5] that -1 fills up. The log-odds of a click are a bias, a weight for each
  dense feature and each value, the absolute value of the first dense feature,
  and the dot products of the values' hidden vectors, of each feature with each
  other one. So a linear model misses the most of it.

  Args:
    num_train: How many training examples to draw, at least 1.
    num_test: How many held-out examples to draw, at least 2.
    seed: Fixes all of it: the true model, too.

  Raises:
    DatasetError: If scikit-learn is not installed, or there are too few
      examples for a held-out AUC.
  """
  try:
    from sklearn import metrics
  except ModuleNotFoundError as error:
    raise dataset.DatasetError(
      "the AUC of the generated clicks needs scikit-learn; pip install "
      "'estimator-mp[train]'"
    ) from error
  # RandomState's streams are frozen: every NumPy release draws this log.
  random = np.random.RandomState(seed)
  drawn = _draw(random, num_train + num_test)
  train = _part(drawn, slice(None, num_train))
  test = _part(drawn, slice(num_train, None))
  if num_train < 1 or len(np.unique(test.labels)) < 2:
    raise dataset.DatasetError(
      f"num_train={num_train} and num_test={num_test} are too few: the "
      "held-out examples need a click and an example without one; use more"
    )
  return click_log.ClickLog(
    name=f"generated clicks (known distribution, seed {seed})",
    features={
      name: tf.TensorSpec([None, *values.shape[1:]], values.dtype)
      for name, values in drawn.features.items()
    },
    tables={**_FIELDS, "tags": _NUM_TAGS},
    train_batches=functools.partial(_shuffled, train),
    train_pass=functools.partial(_once, train),
    test_batches=functools.partial(_once, test),
    best_auc=float(
      metrics.roc_auc_score(test.labels[:, 0], test.probabilities)
    ),
    best_logloss=float(metrics.log_loss(test.labels[:, 0], test.probabilities)),
  )


def _draw(random: np.random.RandomState, count: int) -> _Drawn:
  """Draws a true model, and examples of it."""
  numbers = random.randn(count, _NUM_DENSE)
  log_odds = _BIAS + numbers @ random.randn(_NUM_DENSE) * _STDDEV_OF_WEIGHTS
  log_odds += 0.5 * (np.abs(numbers[:, 0]) - (2 / np.pi) ** 0.5)
  features = {"dense": numbers.astype(np.float32)}
  vectors = []
  for name, size in _FIELDS.items():
    values = _zipf(random, size, [count])
    weights, hidden = _hidden(random, size)
    log_odds += weights[values]
    vectors.append(hidden[values])
    features[name] = values * _ID_FACTOR
  tags = _zipf(random, _NUM_TAGS, [count, _MOST_TAGS])
  is_tag = (
    np.arange(_MOST_TAGS)
    < random.randint(_MOST_TAGS + 1, size=count)[:, np.newaxis]
  )
  weights, hidden = _hidden(random, _NUM_TAGS)
  share = is_tag / np.sqrt(np.maximum(is_tag.sum(1, keepdims=True), 1))
  log_odds += (weights[tags] * share).sum(1)
  vectors.append((hidden[tags] * share[:, :, np.newaxis]).sum(1))
  features["tags"] = np.where(is_tag, tags * _ID_FACTOR, -1)
  square_of_sum = np.square(sum(vectors)).sum(1)
  log_odds += (square_of_sum - sum(np.square(x).sum(1) for x in vectors)) / 2
  probabilities = 1 / (1 + np.exp(-log_odds))
  clicks = random.uniform(size=count) < probabilities
  labels = clicks.astype(np.float32)[:, np.newaxis]
  return _Drawn(features, labels, probabilities)


def _zipf(
  random: np.random.RandomState, size: int, shape: list[int]
) -> np.ndarray:
  """Draws numbers below `size`, of which number i is as rare as 1 / (i + 5)."""
  share = np.cumsum(1 / (np.arange(size) + 5.0))
  found = np.searchsorted(share / share[-1], random.uniform(size=shape))
  return found.astype(np.int64)


def _hidden(
  random: np.random.RandomState, size: int
) -> tuple[np.ndarray, np.ndarray]:
  """Draws the weights and the hidden vectors of a feature's values."""
  weights = random.randn(size) * _STDDEV_OF_WEIGHTS
  stddev = (_STDDEV_OF_PRODUCTS / _WIDTH**0.5) ** 0.5
  return weights, random.randn(size, _WIDTH) * stddev


def _part(drawn: _Drawn, which: slice) -> _Drawn:
  features = {name: values[which] for name, values in drawn.features.items()}
  return _Drawn(features, drawn.labels[which], drawn.probabilities[which])


def _shuffled(drawn: _Drawn, batch_size: int, seed: int) -> tf.data.Dataset:
  """Returns endless batches: numbers of examples are shuffled, not examples."""
  count = len(drawn.labels)
  numbers = tf.data.Dataset.range(count).shuffle(count, seed=seed).repeat()

  def take(rows: tf.Tensor) -> Any:
    return tf.nest.map_structure(lambda x: tf.gather(x, rows), _arrays(drawn))

  return numbers.batch(batch_size, drop_remainder=True).map(take)


def _once(drawn: _Drawn, batch_size: int) -> tf.data.Dataset:
  data = tf.data.Dataset.from_tensor_slices(_arrays(drawn))
  return data.batch(batch_size)


def _arrays(drawn: _Drawn) -> tuple[dict[str, np.ndarray], np.ndarray]:
  return dict(drawn.features), drawn.labels
