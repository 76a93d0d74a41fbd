"""Ordinary model_fns by name, and the batches that they read.

A module of this folder enters its model_fns:

    @registry.model("x", labels="label")
    def plain_mean(features, labels, mode): ...

No model knows that it is sharded. Each is deterministic: what it draws follows
from the seed of the graph.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

BATCH_SIZE = 8
STATIC, OPEN = "static", "open"
INPUTS = (STATIC, OPEN)
VOCABULARY = 30
CLASSES = 4
# Four whole batches, and one that is short.
_OPEN_EXAMPLES = 4 * BATCH_SIZE + 5
_EXAMPLES = 5 * BATCH_SIZE


@dataclasses.dataclass(frozen=True)
class Model:
  """An ordinary model_fn.

  Attributes:
    model_fn: The model_fn.
    features: The names of the features that it is given.
    labels: The name of its labels, or the names of several in a dict.
    inputs: The inputs it trains on: "static" if the graph has to know the
      size of the batch, and "open".
    is_random: Whether it draws numbers in each step, so that only a run with
      the same draws is comparable.
  """

  model_fn: Callable[..., tf.estimator.EstimatorSpec]
  features: tuple[str, ...]
  labels: str | tuple[str, ...]
  inputs: tuple[str, ...] = INPUTS
  is_random: bool = False

  def input_fn(self, size: str) -> tf.data.Dataset:
    """Returns its batches.

    Args:
      size: "static": five batches of 8, as the graph knows. "open": batches
        of 8, 8, 8, 8 and 5, of a size that the graph does not know.
    """
    is_static = size == STATIC
    count = _EXAMPLES if is_static else _OPEN_EXAMPLES
    examples = {name: value[:count] for name, value in _examples().items()}
    data = tf.data.Dataset.from_tensor_slices(examples).map(_cut_words)
    data = data.padded_batch(BATCH_SIZE, drop_remainder=is_static)
    return data.map(self._choose)

  def _choose(self, batch):
    batch["tags"] = tf.sparse.from_dense(batch["tags"])
    ragged = tf.RaggedTensor.from_tensor(batch["words"][..., 0], padding=0)
    batch["ragged"] = ragged
    batch["pairs"] = tf.RaggedTensor.from_uniform_row_length(
      tf.concat([ragged, ragged], 0), 2
    )
    features = {name: batch[name] for name in self.features}
    if isinstance(self.labels, str):
      return features, batch[self.labels]
    return features, {name: batch[name] for name in self.labels}


MODELS: dict[str, Model] = {}


def model(*features: str, labels: str | tuple[str, ...] = "label", **fields):
  """Returns a decorator that enters a model_fn by its name.

  Args:
    *features: The names of its features.
    labels: The name or names of its labels.
    **fields: Further fields of `Model`.

  Raises:
    ValueError: If there is a model of this name.
  """

  def enter(model_fn):
    name = model_fn.__name__
    if name in MODELS:
      raise ValueError(f"there are two models with the name {name}; rename one")
    MODELS[name] = Model(model_fn, features, labels, **fields)
    return model_fn

  return enter


def _cut_words(example):
  """Makes the words of an example as many as it has."""
  words = example["words"][: example["length"]]
  return example | {"words": words[:, tf.newaxis]}


def _examples() -> dict[str, np.ndarray]:
  """Returns the examples: features, and labels of all kinds."""
  rng = np.random.default_rng(26)

  def real(*shape):
    return rng.standard_normal((_EXAMPLES, *shape)).astype(np.float32)

  def whole(low, high, *shape):
    return rng.integers(low, high, (_EXAMPLES, *shape)).astype(np.int32)

  x = real(12)
  score = x[:, :1] - x[:, 1:2] ** 2 + 0.1 * real(1)
  return {
    "x": x,
    "other": real(12),
    "ids": whole(0, VOCABULARY, 5),
    "seq": real(7, 4),
    "length": whole(1, 8),
    "words": whole(1, VOCABULARY, 7),
    "positions": whole(0, 7, 2),
    # 0 is no tag; the first one is always there.
    "tags": whole(0, VOCABULARY - 2, 5) * [1, 0, 1, 0, 1]
    + [1, 0, 0, 0, 0] * whole(1, 3, 1),
    "weight": 0.5 + rng.random(_EXAMPLES, np.float32),
    "user": whole(0, 6),
    "rank": whole(0, 100),
    "label": (score > np.median(score)).astype(np.float32),
    "score": score,
    "class": whole(0, CLASSES),
    "next": whole(0, VOCABULARY, 5),
    # Of every third example nobody knows the label.
    "partial": np.where(whole(0, 3) == 0, -1, whole(0, CLASSES)).astype(
      "int32"
    ),
    "time": rng.exponential(1.0, _EXAMPLES).astype(np.float32),
    "event": whole(0, 2).astype(np.float32),
  }
