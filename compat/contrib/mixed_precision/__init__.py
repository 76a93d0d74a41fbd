"""tf.contrib.mixed_precision: scales losses, for gradients in half precision.

Micikevicius et al., "Mixed Precision Training", 2018.
"""

from compat.contrib import absent
from compat.contrib.mixed_precision.loss_scale import (
  ExponentialUpdateLossScaleManager,
  FixedLossScaleManager,
  LossScaleManager,
  LossScaleOptimizer,
)

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)

__all__ = [
  "ExponentialUpdateLossScaleManager",
  "FixedLossScaleManager",
  "LossScaleManager",
  "LossScaleOptimizer",
]
