"""A log of clicks for a training job: features, and batches of them."""

import dataclasses
from collections.abc import Callable, Mapping

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class ClickLog:
  """A log of what was shown and clicked, ready for `tf.estimator`.

  The batches of the input pipelines depend on the seed and the batch size only,
  never on the mesh.

  Attributes:
    name: The name of the log, for people.
    features: The specs of an example's features, by name, with the batch as the
      first dimension, which is None. "dense" are the dense features, float32
      [None, num_dense]; the others are categorical, of the forms that
      `model_fns.ranking.categories` names.
    tables: How many rows would do for the table of each categorical feature.
    train_batches: (batch size, seed) -> endless `tf.data.Dataset` of full,
      shuffled batches: features by name, and float32 labels [batch, 1].
    train_pass: batch size -> one pass over the training examples as they are
      in the log; the last batch may be short.
    test_batches: batch size -> one pass over the held-out examples.
    best_auc: The AUC that the true probabilities have on the held-out examples,
      which no model can be expected to exceed; None if they are not known.
    best_logloss: Their logloss.
  """

  name: str
  features: Mapping[str, tf.TensorSpec]
  tables: Mapping[str, int]
  train_batches: Callable[[int, int], tf.data.Dataset]
  train_pass: Callable[[int], tf.data.Dataset]
  test_batches: Callable[[int], tf.data.Dataset]
  best_auc: float | None = None
  best_logloss: float | None = None

  @property
  def num_dense(self) -> int:
    """How many dense features an example has."""
    return int(self.features["dense"].shape[1])

  def train_input_fn(
    self, batch_size: int, seed: int
  ) -> Callable[[], tf.data.Dataset]:
    """Returns the input function for training.

    Args:
      batch_size: Examples per batch, at least 1.
      seed: Fixes the order of the examples.

    Raises:
      ValueError: batch_size is less than 1.
    """
    _check_batch_size(batch_size)
    return lambda: self.train_batches(batch_size, seed).prefetch(4)

  def test_input_fn(self, batch_size: int) -> Callable[[], tf.data.Dataset]:
    """Returns the input function for evaluation: each example once.

    Args:
      batch_size: Examples per batch, at least 1; the last batch may be short.

    Raises:
      ValueError: batch_size is less than 1.
    """
    _check_batch_size(batch_size)
    return lambda: self.test_batches(batch_size).prefetch(4)

  def serving_input_receiver_fn(
    self,
  ) -> tf.estimator.export.ServingInputReceiver:
    """Makes the serving input of an exported model; pass it, uncalled.

    Returns:
      A `tf.estimator.export.ServingInputReceiver` that receives the features as
      the input functions deliver them.
    """
    receivers = {
      name: tf.compat.v1.placeholder(spec.dtype, spec.shape, name=name)
      for name, spec in self.features.items()
    }
    return tf.estimator.export.ServingInputReceiver(receivers, receivers)


def _check_batch_size(batch_size: int) -> None:
  if batch_size < 1:
    raise ValueError(f"batch_size={batch_size} is too small; use at least 1")
