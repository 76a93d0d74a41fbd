"""An index of items: the nearest to a query, exactly, without TensorFlow."""

import os

import numpy as np

_VECTORS = "vectors.npy"


class Index:
  """The vectors of all items; the row i is the item i's."""

  def __init__(self, vectors: np.ndarray):
    """Takes the vectors.

    Args:
      vectors: float32 [items, size].

    Raises:
      ValueError: If they are of another shape.
    """
    if vectors.ndim != 2 or not len(vectors):
      raise ValueError(
        f"the vectors of an index have the shape {vectors.shape}; give it one "
        "row for each item"
      )
    self.vectors = vectors

  @classmethod
  def load(cls, directory: str) -> "Index":
    """Returns an index whose vectors stay in their file until they are read.

    Args:
      directory: Where `save` has put it.
    """
    return cls(np.load(os.path.join(directory, _VECTORS), mmap_mode="r"))

  def save(self, directory: str) -> None:
    """Writes the vectors as a NumPy file.

    Args:
      directory: It is made if it is not there.
    """
    os.makedirs(directory, exist_ok=True)
    np.save(os.path.join(directory, _VECTORS), self.vectors)

  def top_k(
    self, queries: np.ndarray, k: int, chunk_size: int = 65_536
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns the k items with the largest inner products.

    No more than [queries, chunk_size + k] scores are there at a time.

    Args:
      queries: float32 [queries, size].
      k: How many are wanted, at most as many as there are.
      chunk_size: How many items are scored at a time.

    Returns:
      The scores, float32 [queries, k], the largest first, and the items, int64
      [queries, k]. Of equal ones the item that comes first is nearer; where not
      all of them are among the k, any of them are.

    Raises:
      ValueError: If k is out of its range, or the queries have another size.
    """
    if not 1 <= k <= len(self.vectors):
      raise ValueError(
        f"k={k} does not fit an index of {len(self.vectors)} items; use 1 to "
        f"{len(self.vectors)}"
      )
    if queries.ndim != 2 or queries.shape[1] != self.vectors.shape[1]:
      raise ValueError(
        f"queries of shape {queries.shape} do not fit an index of vectors of "
        f"{self.vectors.shape[1]} numbers; give a row for each query"
      )
    if chunk_size < 1:
      raise ValueError(f"chunk_size={chunk_size} is too small; use 1 or more")
    scores = np.empty((len(queries), 0), np.float32)
    items = np.empty((len(queries), 0), np.int64)
    for start in range(0, len(self.vectors), chunk_size):
      chunk = self.vectors[start : start + chunk_size]
      rows = np.arange(start, start + len(chunk))
      scores = np.concatenate([scores, queries @ chunk.T], axis=1)
      items = np.concatenate(
        [items, np.broadcast_to(rows, (len(queries), len(chunk)))], axis=1
      )
      if items.shape[1] > k:
        places = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        scores = np.take_along_axis(scores, places, axis=1)
        items = np.take_along_axis(items, places, axis=1)
    order = np.lexsort((items, -scores), axis=1)
    return (
      np.take_along_axis(scores, order, axis=1),
      np.take_along_axis(items, order, axis=1),
    )
