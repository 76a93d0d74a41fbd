"""The public names of TensorFlow 1.15 that tensorflow.compat.v1 has not.

`SUPPLIED` has those that compat brings back, and those that do today what they
did not do then; `arguments.ORDER` those that only take other arguments;
`replaced.REPLACED` says what to use in the place of all others.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from compat.v1.names.arguments import ORDER, with_order
from compat.v1.names.replaced import REPLACED

VERSION = "1.15.5"
GIT_VERSION = "v1.15.4-39-g3db52be"

_COSINE = f"{__name__}.keras_losses:cosine_similarity"

# By the path below `tf`: "module:name" of what stands there.
SUPPLIED: Mapping[str, str] = {
  "GIT_VERSION": f"{__name__}:GIT_VERSION",
  "VERSION": f"{__name__}:VERSION",
  "Variable": f"{__name__}.variables:Variable",
  "__git_version__": f"{__name__}:GIT_VERSION",
  "__version__": f"{__name__}:VERSION",
  "distribute.cluster_resolver.TPUClusterResolver": (
    "compat.contrib.cluster_resolver:TPUClusterResolver"
  ),
  "estimator.BestExporter": "compat.private.v1.exporters:BestExporter",
  "image.per_image_standardization": (
    f"{__name__}.images:per_image_standardization"
  ),
  "keras.layers.GRU": f"{__name__}.keras_layers:GRU",
  "keras.layers.LSTM": f"{__name__}.keras_layers:LSTM",
  "keras.layers.RNN": f"{__name__}.keras_layers:RNN",
  "keras.layers.SimpleRNN": f"{__name__}.keras_layers:SimpleRNN",
  "keras.losses.CosineSimilarity": f"{__name__}.keras_losses:CosineSimilarity",
  "keras.losses.cosine": _COSINE,
  "keras.losses.cosine_proximity": _COSINE,
  "keras.losses.cosine_similarity": _COSINE,
  "keras.metrics.cosine": _COSINE,
  "keras.metrics.cosine_proximity": _COSINE,
  "version.GIT_VERSION": f"{__name__}:GIT_VERSION",
  "version.VERSION": f"{__name__}:VERSION",
}


def supplied(path: str) -> Any:
  """Returns what compat supplies under a name.

  Args:
    path: the name below `tf`, "train.Supervisor".

  Raises:
    KeyError: if compat supplies no such name.
  """
  if path in ORDER:
    return with_order(_todays(path), ORDER[path])
  module, _, name = SUPPLIED[path].partition(":")
  return getattr(importlib.import_module(module), name)


def _todays(path: str) -> Any:
  found: Any = importlib.import_module("tensorflow").compat.v1
  for part in path.split("."):
    found = getattr(found, part)
  return found


def is_supplied(path: str) -> bool:
  """Returns whether compat supplies a name, or the class that it is in."""
  while path:
    if path in SUPPLIED or path in ORDER:
      return True
    path = path.rpartition(".")[0]
  return False


def below(path: str) -> list[str]:
  """Returns the names that compat supplies in a namespace, "" for `tf`."""
  start = f"{path}." if path else ""
  return [
    name.removeprefix(start)
    for name in SUPPLIED
    if name.startswith(start) and "." not in name.removeprefix(start)
  ]


def replacement_of(path: str) -> str | None:
  """Returns what to use for a name or, if that has none, for what it is in."""
  while path:
    if path in REPLACED:
      return REPLACED[path]
    path = path.rpartition(".")[0]
  return None


def _replacement_below(namespace: str) -> str | None:
  """Returns what to use for the names in a namespace that has gone."""
  below = [REPLACED[one] for one in REPLACED if one.startswith(f"{namespace}.")]
  return ", or ".join(dict.fromkeys(below)) or None


def advice(path: str) -> str:
  """Returns what to say to a program that uses a name that is not there."""
  replacement = replacement_of(path) or _replacement_below(path)
  if replacement is not None:
    return f"tf.{path} of TensorFlow {VERSION} is gone. Use {replacement}."
  return f"TensorFlow {VERSION} had no tf.{path}, or compat does not know it."
