"""Names of tf.contrib.layers."""

from compat.contrib import absent
from compat.contrib.layer_functions.dense import (
  dropout,
  fully_connected,
  linear,
  relu,
)
from compat.contrib.layer_functions.initializers import (
  variance_scaling_initializer,
  xavier_initializer,
)
from compat.contrib.layer_functions.normalization import batch_norm, layer_norm
from compat.contrib.layer_functions.optimization import (
  OPTIMIZER_CLS_NAMES,
  optimize_loss,
)
from compat.contrib.layer_functions.regularizers import (
  l1_l2_regularizer,
  l1_regularizer,
  l2_regularizer,
)

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

xavier_initializer_conv2d = xavier_initializer

__all__ = [
  "OPTIMIZER_CLS_NAMES",
  "batch_norm",
  "dropout",
  "fully_connected",
  "l1_l2_regularizer",
  "l1_regularizer",
  "l2_regularizer",
  "layer_norm",
  "linear",
  "optimize_loss",
  "relu",
  "variance_scaling_initializer",
  "xavier_initializer",
  "xavier_initializer_conv2d",
]
