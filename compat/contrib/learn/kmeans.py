"""tf.contrib.learn.KMeansClustering, on that of tf.contrib.factorization."""

from collections.abc import Callable, Iterator
from typing import Any

from compat.contrib import factorization
from compat.contrib.learn.estimator import Estimator
from compat.contrib.learn.model_fn import ModelFnOps

import numpy as np
import tensorflow as tf

_Core = factorization.KMeansClustering


class KMeansClustering(Estimator):
  """Clusters points by k-means."""

  SQUARED_EUCLIDEAN_DISTANCE = factorization.SQUARED_EUCLIDEAN_DISTANCE
  COSINE_DISTANCE = factorization.COSINE_DISTANCE
  RANDOM_INIT = factorization.RANDOM_INIT
  KMEANS_PLUS_PLUS_INIT = factorization.KMEANS_PLUS_PLUS_INIT
  SCORES = "scores"
  CLUSTER_IDX = "cluster_idx"
  CLUSTERS = "clusters"
  ALL_SCORES = "all_scores"
  LOSS_OP_NAME = "kmeans_loss"

  def __init__(
    self,
    num_clusters: int,
    model_dir: str | None = None,
    initial_clusters: Any = RANDOM_INIT,
    distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE,
    random_seed: int = 0,
    use_mini_batch: bool = True,
    mini_batch_steps_per_iteration: int = 1,
    kmeans_plus_plus_num_retries: int = 2,
    relative_tolerance: float | None = None,
    config: Any = None,
  ):
    """Makes the model; for its arguments see factorization.KMeansClustering."""
    core = _Core(
      num_clusters,
      model_dir,
      initial_clusters,
      distance_metric,
      random_seed,
      use_mini_batch,
      mini_batch_steps_per_iteration,
      kmeans_plus_plus_num_retries,
      relative_tolerance,
      config,
    )

    def model_fn(
      features: Any, labels: Any, mode: str, config: Any
    ) -> ModelFnOps:
      spec = core.model_fn(features, labels, mode, config)
      loss = tf.identity(spec.loss, self.LOSS_OP_NAME)
      return ModelFnOps(
        mode,
        {
          self.ALL_SCORES: spec.predictions[_Core.ALL_DISTANCES],
          self.CLUSTER_IDX: spec.predictions[_Core.CLUSTER_INDEX],
        },
        loss,
        spec.train_op,
        {self.SCORES: (loss, tf.identity(loss))},
        training_hooks=spec.training_hooks,
      )

    super().__init__(model_fn, core.model_dir, config)

  def predict_cluster_idx(
    self, input_fn: Callable[[], Any] | None = None
  ) -> Iterator[Any]:
    """Predicts the index of each point's cluster; see Estimator.predict."""
    for found in self.predict(input_fn=input_fn, outputs=[self.CLUSTER_IDX]):
      yield found[self.CLUSTER_IDX]

  def score(
    self, input_fn: Callable[[], Any] | None = None, steps: int | None = None
  ) -> Any:
    """Returns the sum of the distances to the next centers, of one batch."""
    found = self.evaluate(input_fn=input_fn, steps=steps)
    return np.sum(found[self.SCORES])

  def transform(
    self, input_fn: Callable[[], Any] | None = None, as_iterable: bool = False
  ) -> Any:
    """Returns the distances of points to all centers."""
    found = self.predict(
      input_fn=input_fn, outputs=[self.ALL_SCORES], as_iterable=as_iterable
    )
    return found if as_iterable else found[self.ALL_SCORES]

  def clusters(self) -> Any:
    """Returns the centers in the latest checkpoint."""
    return self.get_variable_value(self.CLUSTERS)
