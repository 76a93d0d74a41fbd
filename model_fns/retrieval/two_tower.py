"""two_tower: a query tower and an item tower that meet in an inner product.

Yi et al., "Sampling-bias-corrected neural modeling for large corpus item
recommendations", 2019; Huang et al., "Learning deep structured semantic models
for web search using clickthrough data", 2013.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from model_fns import sharded, training
from model_fns.retrieval import frequencies, recall, sampled_softmax
from model_fns.retrieval.towers import AnyTower, Encoder, Features

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
Frequencies: TypeAlias = np.ndarray | Sequence[float] | str | None
STREAMING = "streaming"


def default_optimizer() -> tf.compat.v1.train.Optimizer:
  """Returns Adam (Kingma and Ba, 2014, arXiv:1412.6980) at 0.003."""
  return v1.train.AdamOptimizer(0.003)


@dataclasses.dataclass(frozen=True)
class _Model:
  """The checked arguments of `two_tower`; see there."""

  query: Encoder
  item: Encoder
  num_items: int
  item_id: str
  temperature: float
  frequencies: frequencies.Frequencies
  catalogue: Mapping[str, np.ndarray] | None
  recall_at: tuple[int, ...]
  chunk_size: int
  optimizer: training.OptimizerOrFn

  def ids(self, features: Features) -> tf.Tensor:
    """Returns the items of examples, int64 [batch]."""
    if self.item_id not in features:
      raise ValueError(
        f"item_id={self.item_id!r} is not among the features "
        f"{sorted(features)}; let input_fn return the id of each item"
      )
    return tf.reshape(tf.cast(features[self.item_id], tf.int64), [-1])

  def predict(self, features: Features) -> tf.estimator.EstimatorSpec:
    """Returns the vectors that the features suffice for."""
    encoders = [x for x in (self.query, self.item) if x.can_encode(features)]
    if not encoders:
      raise ValueError(
        f"to predict, the features {sorted(features)} suffice neither for the "
        f"query tower, which reads {sorted(self.query.tower.features)}, nor "
        f"for the item tower, which reads {sorted(self.item.tower.features)}"
      )
    predictions = {x.name: x.encode(features, False) for x in encoders}
    return tf.estimator.EstimatorSpec(
      tf.estimator.ModeKeys.PREDICT,
      predictions,
      export_outputs={
        v1.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: (
          tf.estimator.export.PredictOutput(predictions)
        )
      },
    )

  def train(
    self, features: Features, rewards: tf.Tensor | None
  ) -> tf.estimator.EstimatorSpec:
    """Returns a training step."""
    queries = self.query.encode(features, True)
    own = self._own(features, self.item.encode(features, True), True)
    loss = _mean(self._losses(queries, own, own), rewards)
    updates = self.frequencies.update(own.ids, own.intervals)
    updates += v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    train_op = training.make_train_op(loss, self.optimizer, updates)
    return tf.estimator.EstimatorSpec(
      tf.estimator.ModeKeys.TRAIN, loss=loss, train_op=train_op
    )

  def evaluate(
    self, features: Features, rewards: tf.Tensor | None
  ) -> tf.estimator.EstimatorSpec:
    """Returns the loss among the batch's items, and recall among all."""
    queries = self.query.encode(features, False)
    metrics: recall.Metrics = {}
    hooks: list[tf.estimator.SessionRunHook] = []
    if self.catalogue is None:
      vectors = self.item.encode(features, False)
    else:
      every = recall.CatalogueVectors(
        lambda inputs: self.item.encode(inputs, False),
        self.catalogue,
        self.num_items,
        self.chunk_size,
      )
      hooks.append(every.hook)
      ids = self.ids(features)
      vectors = tf.gather(every.vectors, ids)
      metrics |= recall.recall_metrics(
        queries, ids, every.vectors, self.recall_at, self.chunk_size
      )
    own = self._own(features, vectors, False)
    loss = _mean(self._losses(queries, own, own), rewards)
    return tf.estimator.EstimatorSpec(
      tf.estimator.ModeKeys.EVAL,
      loss=loss,
      eval_metric_ops=metrics,
      evaluation_hooks=hooks,
    )

  def _own(
    self, features: Features, vectors: tf.Tensor, is_training: bool
  ) -> sampled_softmax.Items:
    """Returns the items of examples."""
    ids = self.ids(features)
    estimate = self.frequencies.of(ids, is_training)
    return sampled_softmax.Items(
      vectors, ids, estimate.log_q, estimate.interval
    )

  def _losses(
    self,
    queries: tf.Tensor,
    own: sampled_softmax.Items,
    every: sampled_softmax.Items,
  ) -> tf.Tensor:
    return sampled_softmax.losses(queries, own, every, self.temperature)


def two_tower(
  query: AnyTower,
  item: AnyTower,
  num_items: int,
  *,
  item_id: str = "item_id",
  vector_size: int = 32,
  temperature: float = 0.1,
  normalize: bool = True,
  item_frequencies: Frequencies = STREAMING,
  frequency_rate: float = 0.05,
  catalogue: Mapping[str, Any] | None = None,
  recall_at: Sequence[int] = (10,),
  chunk_size: int = 65_536,
  config: sharded.Config = None,
  optimizer: training.OptimizerOrFn = default_optimizer,
) -> sharded.ModelFn:
  """Returns the model_fn of a two-tower model for retrieval.

  Each example is a query and an item that belongs to it. Features are those of
  both towers, in one dict, and the item's id. Labels are None, or the weight of
  each pair (its reward), float [batch] or [batch, 1].

  The loss is the softmax of a query's own item among all items of the batch,
  over all micro-batches and replicas, corrected for how often each item is
  there. An item that is in the batch twice is not a negative of itself.

  With a `catalogue`, an evaluation has "recall_at_K" among all items. It
  predicts the vectors "query" and "item", or that of the tower whose features
  are there.

  Args:
    query: The query tower: a `towers.Tower`, or a function of yours as a
      `towers.OwnTower`.
    item: The item tower.
    num_items: Number of items; their ids are 0 to num_items - 1.
    item_id: The feature with the item's id, an integer [batch] or [batch, 1].
    vector_size: The length of the vectors that both towers end in.
    temperature: Divisor of the inner products.
    normalize: Whether vectors have the length 1, so that logits are cosines.
    item_frequencies: How often items are in batches: "streaming" to estimate it
      while the model trains, an array [num_items] of numbers in any unit, or
      None for no correction.
    frequency_rate: How fast the estimate follows the last interval between two
      batches with an item.
    catalogue: The features of all items by name, arrays with num_items rows,
      the row i of the item i; None if evaluation is to do without recall.
    recall_at: Values of k.
    chunk_size: Number of items of the catalogue that are encoded, or scored, at
      once.
    config: The devices: a `ShardingConfig`, a mesh or its text; None for one
      device.
    optimizer: A `tf.compat.v1.train.Optimizer`, or a function that returns one.

  Returns:
    A model_fn with the arguments features, labels, mode and config.

  Raises:
    ValueError: If something does not fit together, or the mesh cannot be made.
    TypeError: If the optimizer or the config is of another type.
  """
  training.check_optimizer(optimizer)
  _check(num_items, vector_size, temperature, recall_at, chunk_size)
  model = _Model(
    query=Encoder("query", query, vector_size, normalize),
    item=Encoder("item", item, vector_size, normalize),
    num_items=num_items,
    item_id=item_id,
    temperature=temperature,
    frequencies=_frequencies(item_frequencies, num_items, frequency_rate),
    catalogue=_catalogue(catalogue, item, num_items),
    recall_at=tuple(recall_at),
    chunk_size=chunk_size,
    optimizer=optimizer,
  )

  def plain_model_fn(
    features: Features, labels: tf.Tensor | None, mode: str
  ) -> tf.estimator.EstimatorSpec:
    if mode == tf.estimator.ModeKeys.PREDICT:
      return model.predict(features)
    if mode == tf.estimator.ModeKeys.EVAL:
      return model.evaluate(features, labels)
    return model.train(features, labels)

  return sharded.model_fn(plain_model_fn, config)


def _mean(losses: tf.Tensor, rewards: tf.Tensor | None) -> tf.Tensor:
  """Returns the mean of losses, each as often as its reward says."""
  if rewards is None:
    return tf.reduce_mean(losses)
  weights = tf.reshape(tf.cast(rewards, tf.float32), [-1])
  return tf.reduce_mean(losses * weights)


def _check(
  num_items: int,
  vector_size: int,
  temperature: float,
  recall_at: Sequence[int],
  chunk_size: int,
) -> None:
  """Raises if a number is out of its range."""
  sizes = {
    "num_items": num_items,
    "vector_size": vector_size,
    "chunk_size": chunk_size,
  }
  for name, size in sizes.items():
    if size < 1:
      raise ValueError(f"{name}={size} is too small; use 1 or more")
  if not temperature > 0.0:
    raise ValueError(
      f"temperature={temperature} is not above 0; use one such as 0.1"
    )
  wrong = [k for k in recall_at if not 1 <= k <= num_items]
  if wrong or not recall_at:
    raise ValueError(
      f"recall_at={tuple(recall_at)} has to name numbers from 1 to "
      f"num_items={num_items}"
    )


def _frequencies(
  given: Frequencies, num_items: int, rate: float
) -> frequencies.Frequencies:
  """Returns what tells how often items are in batches."""
  if given is None:
    return frequencies.Uncorrected()
  if isinstance(given, str):
    if given != STREAMING:
      raise ValueError(
        f"item_frequencies={given!r} is not known; use {STREAMING!r}, an array "
        "of num_items numbers, or None"
      )
    return frequencies.Streaming(num_items, rate)
  made = frequencies.Given(np.asarray(given))
  if made.num_items != num_items:
    raise ValueError(
      f"item_frequencies has {made.num_items} numbers, and there are "
      f"num_items={num_items}; give one for each item"
    )
  return made


def _catalogue(
  given: Mapping[str, Any] | None, item: AnyTower, num_items: int
) -> Mapping[str, np.ndarray] | None:
  """Returns what the item tower reads of a catalogue."""
  if given is None:
    return None
  recall.check_catalogue(given, item.features, num_items)
  return {name: np.asarray(given[name]) for name in item.features}
