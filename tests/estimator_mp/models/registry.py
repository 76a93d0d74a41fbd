"""The models of tests by name, and the batches that they read.

A module of this folder enters its model_fns:

    @registry.model("x", labels="label")
    def plain_mean(features, labels, mode): ...

No model knows that it is sharded. Each is deterministic: what it draws follows
from the seed of the graph.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tests.estimator_mp.models import data

import numpy as np
import tensorflow as tf

BATCH_SIZE = 8
STATIC, OPEN = "static", "open"
INPUTS = (STATIC, OPEN)
VOCABULARY, CLASSES = data.VOCABULARY, data.CLASSES
# Four whole batches, and one that is short.
_OPEN_EXAMPLES = 4 * BATCH_SIZE + 5


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
  """A model_fn, and what it is trained on.

  Attributes:
    model_fn: The model_fn.
    rules: Rules that put it on three stages, if it has some.
    params: Its params; None if it takes none.
    examples: All features and labels, by name.
    features: The names of the features that it is given.
    labels: The name of its labels, or the names of several in a dict.
    tags: What tests choose it by, beside its name.
    inputs: The inputs it trains on: "static" if the graph has to know the
      size of the batch, and "open".
    is_random: Whether it draws numbers in each step, so that only a run with
      the same draws is comparable.
  """

  model_fn: Callable[..., tf.estimator.EstimatorSpec]
  rules: tuple[tuple[str, int], ...] = ()
  params: Mapping[str, Any] | None = None
  examples: Mapping[str, np.ndarray] = dataclasses.field(
    default_factory=lambda: data.ROWS
  )
  features: tuple[str, ...] = tuple(data.FEATURES)
  labels: str | tuple[str, ...] = "label"
  tags: frozenset[str] = frozenset()
  inputs: tuple[str, ...] = INPUTS
  is_random: bool = False

  @classmethod
  def of_batch(
    cls,
    model_fn: Callable[..., tf.estimator.EstimatorSpec],
    features: Mapping[str, np.ndarray],
    labels: np.ndarray,
  ) -> "Model":
    """Returns a model of a test's own that reads a batch."""
    examples = {**features, "label": labels}
    return cls(model_fn, examples=examples, features=(*features,))

  @property
  def batch(self) -> tuple[dict[str, np.ndarray], Any]:
    """All examples as one batch: features and labels."""
    features, labels = self._chosen(self.examples)
    return features, labels

  def input_fn(self, size: str) -> tf.data.Dataset:
    """Returns its batches.

    Args:
      size: "static": five batches of 8, as the graph knows. "open": batches
        of 8, 8, 8, 8 and 5, of a size that the graph does not know.
    """
    is_static = size == STATIC
    count = 5 * BATCH_SIZE if is_static else _OPEN_EXAMPLES
    examples = {name: value[:count] for name, value in self.examples.items()}
    batches = tf.data.Dataset.from_tensor_slices(examples)
    if "words" not in examples:
      batches = batches.batch(BATCH_SIZE, drop_remainder=is_static)
      return batches.map(self._chosen)
    batches = batches.map(_cut_words)
    batches = batches.padded_batch(BATCH_SIZE, drop_remainder=is_static)
    return batches.map(lambda batch: self._chosen(_with_sparse(batch)))

  def _chosen(self, batch):
    features = {name: batch[name] for name in self.features}
    if isinstance(self.labels, str):
      return features, batch[self.labels]
    return features, {name: batch[name] for name in self.labels}


MODELS: dict[str, Model] = {}


def model(
  *features: str,
  labels: str | tuple[str, ...] = "label",
  tags: str = "ordinary",
  examples: Mapping[str, np.ndarray] = data.RECORDS,
  **fields: Any,
):
  """Returns a decorator that enters a model_fn by its name.

  Args:
    *features: The names of its features.
    labels: The name or names of its labels.
    tags: Its tags, with blanks between them.
    examples: All features and labels.
    **fields: Further fields of `Model`.

  Raises:
    ValueError: If there is a model of this name.
  """

  def decorate(model_fn):
    made = Model(
      model_fn, examples=examples, features=features, labels=labels, **fields
    )
    enter(model_fn.__name__, made, tags)
    return model_fn

  return decorate


def of_rows(*features: str, tags: str):
  """Returns a decorator as `model`, of `data.ROWS` with real labels."""
  return model(*features, labels="real_label", tags=tags, examples=data.ROWS)


def enter(name: str, made: Model, tags: str) -> None:
  """Enters a model by a name, with tags that have blanks between them."""
  if name in MODELS:
    raise ValueError(f"there are two models with the name {name}; rename one")
  MODELS[name] = dataclasses.replace(made, tags=frozenset(tags.split()))


def tagged(tag: str) -> dict[str, Model]:
  """Returns the models with a tag, by name."""
  return {name: made for name, made in MODELS.items() if tag in made.tags}


def _with_sparse(batch):
  """Adds features that have no arrays, and makes tags one of them."""
  tags = tf.sparse.from_dense(batch["tags"])
  ragged = tf.RaggedTensor.from_tensor(batch["words"][..., 0], padding=0)
  pairs = tf.RaggedTensor.from_uniform_row_length(
    tf.concat([ragged, ragged], 0), 2
  )
  return batch | {"tags": tags, "ragged": ragged, "pairs": pairs}


def _cut_words(example):
  """Makes the words of an example as many as it has."""
  words = example["words"][: example["length"]]
  return example | {"words": words[:, tf.newaxis]}
