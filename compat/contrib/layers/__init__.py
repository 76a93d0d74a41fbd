"""Names of tf.contrib.layers; most are tf-slim's, which lives on by itself."""

from compat.contrib import packages
from compat.contrib.layers import feature_column
from compat.contrib.layers.crosses import SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY
from compat.contrib.layers.embedding_lookups import (
  embedding_lookup_unique,
  safe_embedding_lookup_sparse,
)
from compat.contrib.layers.encoders import bow_encoder, embed_sequence

_OF_SLIM = (
  "OPTIMIZER_CLS_NAMES",
  "OPTIMIZER_SUMMARIES",
  "RevBlock",
  "apply_regularization",
  "avg_pool2d",
  "avg_pool3d",
  "batch_norm",
  "bias_add",
  "conv1d",
  "conv2d",
  "conv2d_in_plane",
  "conv2d_transpose",
  "conv3d",
  "conv3d_transpose",
  "convolution",
  "convolution1d",
  "convolution2d",
  "convolution2d_in_plane",
  "convolution2d_transpose",
  "convolution3d",
  "convolution3d_transpose",
  "dense_to_sparse",
  "dropout",
  "elu",
  "flatten",
  "fully_connected",
  "group_norm",
  "images_to_sequence",
  "instance_norm",
  "l1_l2_regularizer",
  "l1_regularizer",
  "l2_regularizer",
  "layer_norm",
  "legacy_fully_connected",
  "legacy_linear",
  "legacy_relu",
  "linear",
  "max_pool2d",
  "max_pool3d",
  "maxout",
  "one_hot_encoding",
  "optimize_loss",
  "recompute_grad",
  "relu",
  "relu6",
  "repeat",
  "rev_block",
  "scale_gradient",
  "separable_conv2d",
  "separable_convolution2d",
  "sequence_to_images",
  "softmax",
  "spatial_softmax",
  "stack",
  "sum_regularizer",
  "summarize_activation",
  "summarize_activations",
  "summarize_collection",
  "summarize_tensor",
  "summarize_tensors",
  "unit_norm",
  "variance_scaling_initializer",
  "xavier_initializer",
  "xavier_initializer_conv2d",
)

# Files of 1.15 that programs import names from, "layers.python.layers.utils".
_FILES_OF_SLIM = {
  "initializers": "tf_slim.layers.initializers",
  "layers": "tf_slim.layers.layers",
  "normalization": "tf_slim.layers.normalization",
  "optimizers": "tf_slim.layers.optimizers",
  "regularizers": "tf_slim.layers.regularizers",
  "rev_block_lib": "tf_slim.layers.rev_block_lib",
  "summaries": "tf_slim.layers.summaries",
  "utils": "tf_slim.layers.utils",
}

_COLUMNS = {
  name: f"{feature_column.__name__}:{name}" for name in feature_column.__all__
}
# Programs ask for it here; 1.15 lists it in tf.contrib.slim.
_UNLISTED = {"adaptive_clipping_fn": "tf_slim:adaptive_clipping_fn"}
_GDN = {name: f"compat.private.contrib.gdn:{name}" for name in ("GDN", "gdn")}

__getattr__ = packages.getter(
  __name__,
  {name: f"tf_slim:{name}" for name in _OF_SLIM}
  | _UNLISTED
  | _COLUMNS
  | _GDN
  | _FILES_OF_SLIM,
)

__all__ = [
  *_OF_SLIM,
  *_GDN,
  *_COLUMNS,
  "SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY",
  "bow_encoder",
  "embed_sequence",
  "embedding_lookup_unique",
  "safe_embedding_lookup_sparse",
]


def __dir__() -> list[str]:
  return sorted(__all__)
