"""tf.contrib.factorization.KMeansClustering, on TensorFlow 2's KMeans."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

_KMeans = tf.compat.v1.estimator.experimental.KMeans

COSINE_DISTANCE = _KMeans.COSINE_DISTANCE
KMEANS_PLUS_PLUS_INIT = _KMeans.KMEANS_PLUS_PLUS_INIT
RANDOM_INIT = _KMeans.RANDOM_INIT
SQUARED_EUCLIDEAN_DISTANCE = _KMeans.SQUARED_EUCLIDEAN_DISTANCE


class KMeansClustering(tf.compat.v1.estimator.experimental.KMeans):
  """tf.compat.v1.estimator.experimental.KMeans, with 1.15's arguments."""

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
    feature_columns: Sequence[Any] | None = None,
  ):
    """Makes the model; all arguments but random_seed are those of KMeans.

    Args:
      num_clusters: how many clusters.
      model_dir: where its checkpoints are.
      initial_clusters: centers, a function that chooses them, RANDOM_INIT or
        KMEANS_PLUS_PLUS_INIT.
      distance_metric: SQUARED_EUCLIDEAN_DISTANCE or COSINE_DISTANCE.
      random_seed: of the choice of centers; KMeans calls it seed.
      use_mini_batch: whether a batch is a part of all points.
      mini_batch_steps_per_iteration: steps between updates of the centers.
      kmeans_plus_plus_num_retries: points tried besides, for each center.
      relative_tolerance: of the loss, below which training stops.
      config: a RunConfig.
      feature_columns: what points are made of.
    """
    super().__init__(
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
      feature_columns,
    )

  def transform(self, input_fn: Callable[..., Any]) -> Iterator[Any]:
    """Yields the distances of each point to all centers.

    Squared Euclidean distances are not those of KMeans, which takes the root.

    Args:
      input_fn: returns the points.
    """
    for found in self.predict(input_fn, [self.ALL_DISTANCES]):
      yield found[self.ALL_DISTANCES]
