"""Factories of model_fns that span devices: the table of contents.

Each is imported when it is first used, and TensorFlow with it.
"""

import typing

import estimator_mp  # noqa: F401 It sees to it that TensorFlow has tf.estimator.
from compat.lazy_names import lazy_names

if typing.TYPE_CHECKING:  # Each is imported when it is first used.
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

__getattr__, __dir__, __all__ = lazy_names(__name__)
