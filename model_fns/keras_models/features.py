"""The features of an input_fn, in the form that a Keras model takes."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

# The keys of features with weights, of `tf.keras.estimator.model_to_estimator`.
_WITH_WEIGHTS = {"features", "sample_weights"}


def split_sample_weights(features: Any, sample_weight: Any) -> tuple[Any, Any]:
  """Returns the inputs of the model, and the sample weights.

  Args:
    features: The features that the input_fn gives. A dict of "features" and
      "sample_weights" is taken apart, as by `model_to_estimator`.
    sample_weight: The name of the feature that has the weights; for several
      outputs a list or a dict of names. None for no such feature.

  Returns:
    The features without the weights, and the weights, None if there are none.

  Raises:
    ValueError: If the features have no names.
  """
  if isinstance(features, Mapping) and set(features) == _WITH_WEIGHTS:
    return features["features"], features["sample_weights"]
  if sample_weight is None:
    return features, None
  if not isinstance(features, Mapping):
    raise ValueError(
      f"sample_weight={sample_weight!r} names a feature, but the features are "
      f"a {type(features).__name__}; let input_fn give a dict"
    )
  names = set(tf.nest.flatten(sample_weight)) - {None}
  inputs = {name: x for name, x in features.items() if name not in names}
  if not names & set(features):  # As in prediction.
    return inputs, None
  missing = sorted(names - set(features))
  if missing:
    raise ValueError(
      f"sample_weight names {', '.join(missing)}, but the features are "
      f"{', '.join(map(str, features))}"
    )
  weights = tf.nest.map_structure(
    lambda name: None if name is None else features[name], sample_weight
  )
  return inputs, weights


def ordered_inputs(
  features: Any, inputs: Sequence[Any], names: Sequence[str]
) -> list[tf.Tensor]:
  """Returns features in the order of a model's inputs, in their form.

  Args:
    features: A tensor, a list, or a dict by the names of the inputs; a dict may
      have more, which are not used. A single input takes a single feature of
      any name.
    inputs: The model's inputs.
    names: Their names.

  Returns:
    A tensor for each input, of its type and rank: as in `Model.fit`, a last
    dimension of 1 may be missing or too many.

  Raises:
    ValueError: If a feature is missing, or there are too many.
  """
  return [
    _conform(tensor, wanted)
    for tensor, wanted in zip(_ordered(features, names), inputs, strict=True)
  ]


def _ordered(features: Any, names: Sequence[str]) -> list[tf.Tensor]:
  if isinstance(features, Mapping):
    missing = [name for name in names if name not in features]
    if not missing:
      return [features[name] for name in names]
    if len(names) == len(features) == 1:
      return list(features.values())
    raise ValueError(
      f"the model's input {missing[0]!r} is not among the features "
      f"({', '.join(map(str, features))}); name the features of input_fn as "
      f"the model's inputs: {', '.join(names)}"
    )
  listed = list(features) if isinstance(features, list | tuple) else [features]
  if len(listed) != len(names):
    raise ValueError(
      f"the features are {len(listed)} tensors, but the model has "
      f"{len(names)} inputs: {', '.join(names)}"
    )
  return listed


def _conform(tensor: Any, wanted: Any) -> Any:
  """Returns a feature with the type and rank of an input."""
  if not isinstance(tensor, tf.Tensor):
    return tensor
  if tensor.dtype != wanted.dtype:
    tensor = tf.cast(tensor, wanted.dtype)
  have, want = tensor.shape.rank, wanted.shape.rank
  if have is None or want is None or have == want:
    return tensor
  if have == want + 1 and tensor.shape[-1] == 1:
    return tf.squeeze(tensor, axis=-1)
  if have == want - 1 and wanted.shape[-1] == 1:
    return tf.expand_dims(tensor, axis=-1)
  raise ValueError(
    f"a feature has the shape {tensor.shape}, but the model's input has "
    f"{wanted.shape}"
  )
