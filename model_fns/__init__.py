"""Factories of model_fns that span devices: the table of contents.

Each is imported when it is first used, and TensorFlow with it.
"""

import importlib
import typing

import estimator_mp  # noqa: F401 It sees to it that TensorFlow has tf.estimator.

if typing.TYPE_CHECKING:  # What `_HOMES` says, for type checkers.
  from model_fns.images.resnet import resnet as resnet
  from model_fns.keras_models.factory import keras as keras
  from model_fns.keras_models.weights import (
    load_keras_weights as load_keras_weights,
  )
  from model_fns.ranking.deepfm import deepfm as deepfm
  from model_fns.ranking.dlrm import dlrm as dlrm
  from model_fns.ranking.wide_deep import wide_deep as wide_deep
  from model_fns.retrieval.two_tower import two_tower as two_tower
  from model_fns.splits.batch_split import batch_split as batch_split
  from model_fns.splits.layer_split import layer_split as layer_split
  from model_fns.transformers.moe import moe as moe
  from model_fns.transformers.transformer import transformer as transformer

_HOMES = {
  "batch_split": "splits.batch_split",
  "deepfm": "ranking.deepfm",
  "dlrm": "ranking.dlrm",
  "keras": "keras_models.factory",
  "layer_split": "splits.layer_split",
  "load_keras_weights": "keras_models.weights",
  "moe": "transformers.moe",
  "resnet": "images.resnet",
  "transformer": "transformers.transformer",
  "two_tower": "retrieval.two_tower",
  "wide_deep": "ranking.wide_deep",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> typing.Any:
  if name not in _HOMES:
    raise AttributeError(
      f"module {__name__!r} has no attribute {name!r}; it has "
      f"{', '.join(__all__)}"
    )
  home = importlib.import_module(f"{__name__}.{_HOMES[name]}")
  globals()[name] = getattr(home, name)
  return globals()[name]


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
