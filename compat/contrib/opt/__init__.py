"""Names of tf.contrib.opt."""

from compat.contrib import absent
from compat.contrib.opt.adam import (
  AdaMaxOptimizer,
  AdamGSOptimizer,
  LazyAdamGSOptimizer,
  LazyAdamOptimizer,
  NadamOptimizer,
)
from compat.contrib.opt.external import (
  ExternalOptimizerInterface,
  ScipyOptimizerInterface,
)
from compat.contrib.opt.ggt import GGTOptimizer
from compat.contrib.opt.lars import LARSOptimizer
from compat.contrib.opt.moving_average import MovingAverageOptimizer
from compat.contrib.opt.multitask import (
  MultitaskOptimizerWrapper,
  clip_gradients_by_global_norm,
)
from compat.contrib.opt.reg_adagrad import RegAdagradOptimizer
from compat.contrib.opt.sign import AddSignOptimizer, PowerSignOptimizer
from compat.contrib.opt.weight_decay import (
  AdamWOptimizer,
  DecoupledWeightDecayExtension,
  MomentumWOptimizer,
  extend_with_decoupled_weight_decay,
)
from compat.contrib.opt.wrappers import (
  DropStaleGradientOptimizer,
  VariableClippingOptimizer,
)

__getattr__ = absent.getter(__name__)

__all__ = [
  "AdaMaxOptimizer",
  "AdamGSOptimizer",
  "AdamWOptimizer",
  "AddSignOptimizer",
  "DecoupledWeightDecayExtension",
  "DropStaleGradientOptimizer",
  "ExternalOptimizerInterface",
  "GGTOptimizer",
  "LARSOptimizer",
  "LazyAdamGSOptimizer",
  "LazyAdamOptimizer",
  "MomentumWOptimizer",
  "MovingAverageOptimizer",
  "MultitaskOptimizerWrapper",
  "NadamOptimizer",
  "PowerSignOptimizer",
  "RegAdagradOptimizer",
  "ScipyOptimizerInterface",
  "VariableClippingOptimizer",
  "clip_gradients_by_global_norm",
  "extend_with_decoupled_weight_decay",
]
