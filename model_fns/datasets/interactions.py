"""A generated log of interactions of users with items, of a known distribution.

No real log is small enough to come with a package. Users and items have latent
vectors, and items have a popularity that falls as Zipf's law says. A user draws
an item with the probability softmax(popularity + affinity), so that what could
be known at best is known.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping

from model_fns.datasets import dataset

import numpy as np
import tensorflow as tf

NAME = "generated_interactions"
_NUM_USERS = 2000
_NUM_ITEMS = 1000
_LATENT_SIZE = 6
_NUM_FIELDS = 4
_FIELD_NOISE = 0.5
_AFFINITY = 2.5
_ZIPF = 0.8
_NUM_TRAIN = 120_000
_NUM_TEST = 8000
_SEED = 20_240_607
_WIDTH = 1000


@dataclasses.dataclass(frozen=True)
class Interactions:
  """A log, split into what is trained on and what is held out.

  Attributes:
    name: The name of the data set.
    num_users: User ids are 0 to num_users - 1.
    num_items: Item ids are 0 to num_items - 1.
    users: The user of each interaction to train on, int64 [n].
    items: The item of each, int64 [n].
    test_users: The users of those held out, int64 [m].
    test_items: The items of those.
    fields: The features of each item besides its id, float32 [num_items, w].
    probabilities: How likely each user draws each item, float32
      [num_users, num_items].
  """

  name: str
  num_users: int
  num_items: int
  users: np.ndarray
  items: np.ndarray
  test_users: np.ndarray
  test_items: np.ndarray
  fields: np.ndarray
  probabilities: np.ndarray

  @property
  def catalogue(self) -> Mapping[str, np.ndarray]:
    """The features of all items; row i is of the item i."""
    ids = np.arange(self.num_items, dtype=np.int64)
    return {"item_id": ids, "item_fields": self.fields}

  def train_input_fn(
    self, batch_size: int, seed: int
  ) -> Callable[[], tf.data.Dataset]:
    """Returns the input function for training: endless, in a shuffled order.

    Args:
      batch_size: Interactions of a batch, at least 2; every batch is full.
      seed: Fixes the order.

    Returns:
      A function that returns batches of {"user_id": int64 [b], "item_id": int64
      [b], "item_fields": float32 [b, w]}.

    Raises:
      DatasetError: If the batch size is out of its range.
    """
    if not 2 <= batch_size <= len(self.users):
      raise dataset.DatasetError(
        f"batch_size={batch_size} does not fit the {len(self.users):,} "
        f"interactions of {self.name}; use 2 to {len(self.users)}"
      )

    def input_fn() -> tf.data.Dataset:
      pairs = tf.data.Dataset.from_tensor_slices((self.users, self.items))
      pairs = pairs.shuffle(len(self.users), seed=seed).repeat()
      return self._batches(pairs, batch_size, drop_remainder=True)

    return input_fn

  def test_input_fn(self, batch_size: int) -> Callable[[], tf.data.Dataset]:
    """Returns the input function for evaluation: each held-out one, once.

    Args:
      batch_size: Interactions of a batch, at least 1; the last one may be
        smaller.

    Returns:
      A function that returns batches as `train_input_fn` does.

    Raises:
      DatasetError: If the batch size is less than 1.
    """
    if batch_size < 1:
      raise dataset.DatasetError(
        f"batch_size={batch_size} is too small; use at least 1"
      )

    def input_fn() -> tf.data.Dataset:
      pairs = tf.data.Dataset.from_tensor_slices(
        (self.test_users, self.test_items)
      )
      return self._batches(pairs, batch_size, drop_remainder=False)

    return input_fn

  def recall_of_popularity(self, k: int) -> float:
    """Returns the held-out recall@k of the items that are drawn most often.

    Args:
      k: How many items each user is shown: the same for all.
    """
    counts = np.bincount(self.items, minlength=self.num_items)
    shown = np.argsort(-counts, kind="stable")[:k]
    return float(np.isin(self.test_items, shown).mean())

  def best_recall(self, k: int) -> float:
    """Returns the recall@k that nothing exceeds but by luck.

    Args:
      k: How many items each user is shown: those likeliest for this user.
    """
    best = np.sort(self.probabilities, axis=1)[:, -k:].sum(axis=1)
    return float(best[self.test_users].mean())

  def _batches(
    self, pairs: tf.data.Dataset, batch_size: int, drop_remainder: bool
  ) -> tf.data.Dataset:
    def as_features(users: tf.Tensor, items: tf.Tensor) -> dict[str, tf.Tensor]:
      return {
        "user_id": users,
        "item_id": items,
        "item_fields": tf.gather(self.fields, items),
      }

    batches = pairs.batch(batch_size, drop_remainder=drop_remainder)
    return batches.map(as_features).prefetch(tf.data.AUTOTUNE)


@functools.cache
def load() -> Interactions:
  """Returns the log; it is the same in every run."""
  # RandomState's streams are frozen: every NumPy release gives this log.
  random = np.random.RandomState(_SEED)
  users = random.randn(_NUM_USERS, _LATENT_SIZE)
  items = random.randn(_NUM_ITEMS, _LATENT_SIZE)
  popularity = -_ZIPF * np.log(1.0 + random.permutation(_NUM_ITEMS))
  logits = popularity + _AFFINITY * users @ items.T / np.sqrt(_LATENT_SIZE)
  logits -= logits.max(axis=1, keepdims=True)
  probabilities = np.exp(logits)
  probabilities /= probabilities.sum(axis=1, keepdims=True)
  fields = items[:, :_NUM_FIELDS]
  fields = fields + _FIELD_NOISE * random.randn(_NUM_ITEMS, _NUM_FIELDS)
  drawn_by = random.randint(_NUM_USERS, size=_NUM_TRAIN + _NUM_TEST)
  drawn = _draw(probabilities, drawn_by, random)
  return Interactions(
    name=NAME,
    num_users=_NUM_USERS,
    num_items=_NUM_ITEMS,
    users=drawn_by[:_NUM_TRAIN],
    items=drawn[:_NUM_TRAIN],
    test_users=drawn_by[_NUM_TRAIN:],
    test_items=drawn[_NUM_TRAIN:],
    fields=fields.astype(np.float32),
    probabilities=probabilities.astype(np.float32),
  )


def _draw(
  probabilities: np.ndarray, users: np.ndarray, random: np.random.RandomState
) -> np.ndarray:
  """Returns an item for each of some users, int64 [n]."""
  sums = np.cumsum(probabilities, axis=1)
  thresholds = random.rand(len(users)) * sums[users, -1]
  drawn = np.empty(len(users), np.int64)
  for begin in range(0, len(users), _WIDTH):
    some = slice(begin, begin + _WIDTH)
    below = sums[users[some]] < thresholds[some, np.newaxis]
    drawn[some] = below.sum(axis=1)
  return drawn
