"""Export: the signatures that serve a two-tower model.

Queries come one by one and items change seldom. So the towers are served apart:
the query encoder where queries come in, the item encoder where items are
added, and the vectors of all items in an index.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping

import estimator_mp
from model_fns.retrieval import index

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Exported:
  """The paths of what was exported.

  Attributes:
    query: The SavedModel of the query encoder, whose output is "query".
    item: That of the item encoder, whose output is "item".
    index: The folder of an `index.Index` of all items.
  """

  query: str
  item: str
  index: str


def export_towers(
  estimator: tf.estimator.Estimator,
  export_dir: str,
  query_features: Mapping[str, tf.TensorSpec],
  catalogue: Mapping[str, np.ndarray],
  *,
  batch_size: int = 8192,
) -> Exported:
  """Exports the towers of a `two_tower`, and an index of its items.

  Variables that are split over devices are whole in the SavedModels, which name
  no device.

  Args:
    estimator: An Estimator of a model_fn of `two_tower`, trained.
    export_dir: The folder that gets the folders query, item and index.
    query_features: The features that the query tower reads, with the shapes of
      a batch, such as {"user_id": tf.TensorSpec([None], tf.int64)}.
    catalogue: The features of all items, arrays with a row for each item.
    batch_size: Of how many items vectors are computed at a time.
  """
  item_features = {
    name: tf.TensorSpec([None, *values.shape[1:]], values.dtype)
    for name, values in catalogue.items()
  }
  query, item = (
    estimator_mp.export_saved_model(
      estimator, os.path.join(export_dir, name), _receiver_fn(specs)
    )
    for name, specs in (("query", query_features), ("item", item_features))
  )
  vectors = item_vectors(estimator, catalogue, batch_size=batch_size)
  directory = os.path.join(export_dir, "index")
  index.Index(vectors).save(directory)
  return Exported(query, item, directory)


def item_vectors(
  estimator: tf.estimator.Estimator,
  catalogue: Mapping[str, np.ndarray],
  *,
  batch_size: int = 8192,
) -> np.ndarray:
  """Returns the vectors of all items, float32 [items, size].

  Args:
    estimator: An Estimator of a model_fn of `two_tower`, trained.
    catalogue: The features of all items, arrays with a row for each item.
    batch_size: Of how many items they are computed at a time.
  """

  def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(dict(catalogue)).batch(batch_size)

  batches = estimator.predict(
    input_fn, predict_keys="item", yield_single_examples=False
  )
  return np.concatenate([batch["item"] for batch in batches])


def _receiver_fn(
  specs: Mapping[str, tf.TensorSpec],
) -> Callable[[], tf.estimator.export.ServingInputReceiver]:
  """Returns what makes the inputs of an exported model."""

  def receiver_fn() -> tf.estimator.export.ServingInputReceiver:
    inputs = {
      name: tf.compat.v1.placeholder(spec.dtype, spec.shape, name)
      for name, spec in specs.items()
    }
    return tf.estimator.export.ServingInputReceiver(inputs, inputs)

  return receiver_fn
