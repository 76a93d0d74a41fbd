"""tf.contrib.factorization: k-means clustering."""

from compat.contrib import absent
from compat.contrib.factorization.kmeans import (
  COSINE_DISTANCE,
  KMEANS_PLUS_PLUS_INIT,
  RANDOM_INIT,
  SQUARED_EUCLIDEAN_DISTANCE,
  KMeansClustering,
)

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)

__all__ = [
  "COSINE_DISTANCE",
  "KMEANS_PLUS_PLUS_INIT",
  "RANDOM_INIT",
  "SQUARED_EUCLIDEAN_DISTANCE",
  "KMeansClustering",
]
