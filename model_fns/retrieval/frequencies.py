"""Frequencies of items in batches, to correct the bias of sampling there.

The other items of a batch stand for all items, and frequent items are among
them more often. The correction subtracts the logarithm of how likely an item is
in a batch from its logit (logQ; Bengio and Senecal, 2008). How likely that is
can be given, or estimated while the model trains, by the steps between two
batches with the item: algorithm 2 of Yi et al., "Sampling-bias-corrected neural
modeling for large corpus item recommendations", 2019.
"""

import dataclasses
from typing import Protocol

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Estimate:
  """Estimates for the items of some examples.

  Attributes:
    log_q: The logarithm of how likely each item is in a batch, float32 [batch].
    interval: The steps between two batches with it, float32 [batch].
  """

  log_q: tf.Tensor
  interval: tf.Tensor


class Frequencies(Protocol):
  """An estimator of how often items are in batches."""

  def of(self, ids: tf.Tensor, is_training: bool) -> Estimate:
    """Returns the estimate for the items of examples.

    Args:
      ids: The items, int64 [batch].
      is_training: Whether this batch counts, too.
    """

  def update(self, ids: tf.Tensor, intervals: tf.Tensor) -> list[tf.Operation]:
    """Returns the ops that keep the estimates of a whole batch.

    Args:
      ids: Its items, int64 [batch].
      intervals: The steps between batches that `of` returned for them, float32
        [batch].
    """


class Uncorrected:
  """All items count alike."""

  def of(self, ids: tf.Tensor, is_training: bool) -> Estimate:
    """Returns zeros."""
    del is_training
    zeros = tf.zeros_like(ids, tf.float32)
    return Estimate(zeros, zeros)

  def update(self, ids: tf.Tensor, intervals: tf.Tensor) -> list[tf.Operation]:
    """Returns nothing."""
    del ids, intervals
    return []


class Given:
  """Frequencies that are known, such as counts of a log."""

  def __init__(self, frequencies: np.ndarray):
    """Takes the frequencies.

    Args:
      frequencies: A number above 0 for each item, in any unit.

    Raises:
      ValueError: If one is not above 0, or there is none.
    """
    values = np.asarray(frequencies, np.float64)
    if values.ndim != 1 or not values.size or not np.all(values > 0):
      raise ValueError(
        f"frequencies of shape {values.shape} have to be a number above 0 for "
        "each item; add 1 to counts that may be 0"
      )
    self.num_items = values.size
    self._log_q = np.log(values / values.sum()).astype(np.float32)

  def of(self, ids: tf.Tensor, is_training: bool) -> Estimate:
    """Returns what was given for items."""
    del is_training
    # No constant, so that an exported query encoder does without.
    log_q = v1.get_variable(
      "frequency/log_q", initializer=self._log_q, trainable=False
    )
    found = tf.gather(log_q, ids)
    return Estimate(found, tf.zeros_like(found))

  def update(self, ids: tf.Tensor, intervals: tf.Tensor) -> list[tf.Operation]:
    """Returns nothing."""
    del ids, intervals
    return []


class Streaming:
  """Frequencies that are estimated while the model trains.

  Each item has a place of its own, so that no two of them collide as in the
  paper's hashed arrays. An item that was never seen counts as if it had been
  in one batch of all so far.
  """

  def __init__(self, num_items: int, rate: float):
    """Starts with nothing seen.

    Args:
      num_items: How many items there are.
      rate: How fast an estimate follows the last interval, in (0, 1].

    Raises:
      ValueError: If the rate is out of its range.
    """
    if not 0.0 < rate <= 1.0:
      raise ValueError(
        f"frequency_rate={rate} is not in (0, 1]; use one such as 0.05"
      )
    self._num_items = num_items
    self._rate = rate

  def of(self, ids: tf.Tensor, is_training: bool) -> Estimate:
    """Returns what was estimated for items, this batch included."""
    step = v1.train.get_or_create_global_step() + int(is_training)
    step = tf.maximum(tf.cast(step, tf.int64), 1)
    kept = tf.gather(self._variable("interval", tf.float32), ids)
    last = tf.gather(self._variable("last_step", tf.int64), ids)
    since = tf.cast(step - last, tf.float32)
    new = kept + self._rate * (since - kept) if is_training else kept
    # At first it is the time without the item.
    interval = tf.maximum(tf.where(last > 0, new, since), 1.0)
    return Estimate(-tf.math.log(interval), interval)

  def update(self, ids: tf.Tensor, intervals: tf.Tensor) -> list[tf.Operation]:
    """Returns the ops that keep estimates, and that items were seen now."""
    step = v1.train.get_or_create_global_step() + 1
    steps = tf.fill(tf.shape(ids), tf.cast(step, tf.int64))
    values = {"interval": intervals, "last_step": steps}
    with tf.control_dependencies([intervals]):  # All has been read.
      return [
        v1.scatter_update(self._variable(name, x.dtype), ids, x)
        for name, x in values.items()
      ]

  def _variable(self, name: str, dtype: tf.DType) -> tf.Variable:
    with v1.variable_scope("frequency", reuse=v1.AUTO_REUSE):
      return v1.get_variable(
        name,
        [self._num_items],
        dtype,
        v1.zeros_initializer(),
        trainable=False,
        use_resource=True,
      )
