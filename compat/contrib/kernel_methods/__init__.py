"""Names of tf.contrib.kernel_methods.

`KernelLinearClassifier` is refused: a linear classifier of what
`RandomFourierFeatureMapper` maps is the same.
"""

from compat.contrib import absent
from compat.contrib.kernel_methods.losses import sparse_multiclass_hinge_loss
from compat.contrib.kernel_methods.mappers import (
  DenseKernelMapper,
  InvalidShapeError,
  RandomFourierFeatureMapper,
)

__getattr__ = absent.getter(__name__)

__all__ = [
  "DenseKernelMapper",
  "InvalidShapeError",
  "RandomFourierFeatureMapper",
  "sparse_multiclass_hinge_loss",
]
