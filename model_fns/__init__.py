"""Factories of model_fns that span devices: the table of contents.

Each is imported when it is first used, and TensorFlow with it.
"""

import typing

import estimator_mp  # noqa: F401 It sees to it that TensorFlow has tf.estimator.
from compat.lazy_names import lazy_names

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
  "batch_split": "model_fns.splits.batch_split",
  "deepfm": "model_fns.ranking.deepfm",
  "dlrm": "model_fns.ranking.dlrm",
  "keras": "model_fns.keras_models.factory",
  "layer_split": "model_fns.splits.layer_split",
  "load_keras_weights": "model_fns.keras_models.weights",
  "moe": "model_fns.transformers.moe",
  "resnet": "model_fns.images.resnet",
  "transformer": "model_fns.transformers.transformer",
  "two_tower": "model_fns.retrieval.two_tower",
  "wide_deep": "model_fns.ranking.wide_deep",
}
__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(
  __name__, _HOMES, f"it has {', '.join(__all__)}"
)
