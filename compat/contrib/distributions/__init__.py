"""tf.contrib.distributions: TensorFlow's own, and tensorflow-probability's.

What tf.compat.v1.distributions has is that; all others come from the package
tensorflow-probability, with 1.15's arguments. Densities, moments and
divergences are 1.15's. Samples of the package are of the same distribution, but
a seed gives other numbers than it did; and the entropy of Kumaraswamy is right
now. Refused are `VectorDiffeomixture` and
the other Vector...Diag distributions, conditional distributions, and the head
for estimators.
"""

from typing import Any

from compat.contrib import absent
from compat.contrib.distributions import adapted, softplus
from compat.contrib.distributions.functions import (
  FUNCTIONS,
  assign_log_moving_mean_exp,
  assign_moving_mean_variance,
  kl_divergence,
  matrix_diag_transform,
  moving_mean_variance,
  normal_conjugates_known_scale_posterior,
  normal_conjugates_known_scale_predictive,
  percentile,
  reduce_weighted_logsumexp,
  tridiag,
)

import tensorflow as tf

__path__: list[str] = __path__
_absent = absent.getter(__name__, ("bijectors",))

_own = tf.compat.v1.distributions

Bernoulli = _own.Bernoulli
Beta = _own.Beta
Categorical = _own.Categorical
Dirichlet = _own.Dirichlet
DirichletMultinomial = _own.DirichletMultinomial
Distribution = _own.Distribution
Exponential = _own.Exponential
FULLY_REPARAMETERIZED = _own.FULLY_REPARAMETERIZED
Gamma = _own.Gamma
Laplace = _own.Laplace
Multinomial = _own.Multinomial
NOT_REPARAMETERIZED = _own.NOT_REPARAMETERIZED
Normal = _own.Normal
RegisterKL = _own.RegisterKL
ReparameterizationType = _own.ReparameterizationType
StudentT = _own.StudentT
Uniform = _own.Uniform

BetaWithSoftplusConcentration = softplus.BetaWithSoftplusConcentration
Chi2 = softplus.Chi2
Chi2WithAbsDf = softplus.Chi2WithAbsDf
ExponentialWithSoftplusRate = softplus.ExponentialWithSoftplusRate
GammaWithSoftplusConcentrationRate = softplus.GammaWithSoftplusConcentrationRate
LaplaceWithSoftplusScale = softplus.LaplaceWithSoftplusScale
NormalWithSoftplusScale = softplus.NormalWithSoftplusScale
StudentTWithAbsDfSoftplusScale = softplus.StudentTWithAbsDfSoftplusScale

__all__ = [
  "assign_log_moving_mean_exp",
  "assign_moving_mean_variance",
  "kl_divergence",
  "matrix_diag_transform",
  "moving_mean_variance",
  "normal_conjugates_known_scale_posterior",
  "normal_conjugates_known_scale_predictive",
  "percentile",
  "reduce_weighted_logsumexp",
  "tridiag",
]


def __getattr__(name: str) -> Any:
  if name in adapted.DISTRIBUTIONS:
    found = adapted.distribution(name)
  elif name in FUNCTIONS:
    found = adapted.probability(FUNCTIONS[name], name)
  else:
    return _absent(name)
  globals()[name] = found
  return found


def __dir__() -> list[str]:
  return sorted({*globals(), *adapted.DISTRIBUTIONS, *FUNCTIONS})
