"""Functions of tf.contrib.distributions."""

from collections.abc import Callable
from typing import Any

from compat.contrib.distributions import adapted

import tensorflow as tf

_own = tf.compat.v1.distributions

# By the name: where tensorflow-probability has it, with 1.15's arguments.
FUNCTIONS = {
  "SeedStream": "util.SeedStream",
  "auto_correlation": "stats.auto_correlation",
  "fill_triangular": "math.fill_triangular",
  "fill_triangular_inverse": "math.fill_triangular_inverse",
  "quadrature_scheme_lognormal_gauss_hermite": (
    "distributions.quadrature_scheme_lognormal_gauss_hermite"
  ),
  "quadrature_scheme_lognormal_quantiles": (
    "distributions.quadrature_scheme_lognormal_quantiles"
  ),
  "softplus_inverse": "math.softplus_inverse",
}


def kl_divergence(
  distribution_a: Any,
  distribution_b: Any,
  allow_nan_stats: bool = True,
  name: str | None = None,
) -> Any:
  """Returns the Kullback-Leibler divergence KL(a || b).

  Args:
    distribution_a: a distribution.
    distribution_b: another.
    allow_nan_stats: whether what is undefined is NaN, and no error.
    name: of the ops.

  Raises:
    NotImplementedError: if nothing is known of the two.
  """
  both = distribution_a, distribution_b
  if all(isinstance(one, _own.Distribution) for one in both):
    return _own.kl_divergence(*both, allow_nan_stats=allow_nan_stats, name=name)
  function = adapted.probability("distributions.kl_divergence", "kl_divergence")
  return function(
    *map(adapted.own, both), allow_nan_stats=allow_nan_stats, name=name
  )


def _posterior_parts(prior: Any, scale: Any, n: Any) -> tuple[Any, Any, Any]:
  if not isinstance(prior, _own.Normal):
    raise TypeError(f"prior={prior!r} must be a Normal.")
  n = tf.cast(n, prior.dtype)
  precision = tf.math.reciprocal(tf.square(prior.scale))
  precision_of_data = n / tf.square(scale)
  variance = 1.0 / (precision + precision_of_data)
  return n, variance, prior.loc * precision


def normal_conjugates_known_scale_posterior(
  prior: Any, scale: Any, s: Any, n: Any
) -> Any:
  """Returns what is known of a mean after data.

  Args:
    prior: what was known before, a Normal.
    scale: the standard deviation of the data.
    s: their sum.
    n: how many they are.
  """
  _, variance, weighted = _posterior_parts(prior, scale, n)
  mean = (weighted + s / tf.square(scale)) * variance
  return _own.Normal(loc=mean, scale=tf.sqrt(variance))


def normal_conjugates_known_scale_predictive(
  prior: Any, scale: Any, s: Any, n: Any
) -> Any:
  """Returns the distribution of the next number; see the posterior's."""
  _, variance, weighted = _posterior_parts(prior, scale, n)
  mean = (weighted + s / tf.square(scale)) * variance
  return _own.Normal(loc=mean, scale=tf.sqrt(variance + tf.square(scale)))


def percentile(
  x: Any,
  q: Any,
  axis: Any = None,
  interpolation: str | None = None,
  keep_dims: bool = False,
  validate_args: bool = False,
  name: str | None = None,
) -> Any:
  """Returns the q-th percentiles of values.

  Args:
    x: the values.
    q: from 0 to 100.
    axis: along which axes; None is all.
    interpolation: "lower", "higher" or "nearest", which is the default.
    keep_dims: whether the axes stay, with one value each.
    validate_args: whether values are checked when they are computed.
    name: of the ops.
  """
  function = adapted.probability("stats.percentile", "percentile")
  return function(
    x,
    q,
    axis=axis,
    interpolation=interpolation,
    keepdims=keep_dims,
    validate_args=validate_args,
    name=name,
  )


def reduce_weighted_logsumexp(
  logx: Any,
  w: Any = None,
  axis: Any = None,
  keep_dims: bool = False,
  return_sign: bool = False,
  name: str | None = None,
) -> Any:
  """Returns log(abs(sum(w * exp(logx)))).

  Args:
    logx: the logarithms.
    w: weights, of any sign; None is 1.
    axis: along which axes; None is all.
    keep_dims: whether the axes stay, with one value each.
    return_sign: whether to return the sum's sign, too.
    name: of the ops.
  """
  function = adapted.probability(
    "math.reduce_weighted_logsumexp", "reduce_weighted_logsumexp"
  )
  return function(
    logx,
    w=w,
    axis=axis,
    keep_dims=keep_dims,
    return_sign=return_sign,
    name=name,
  )


def matrix_diag_transform(
  matrix: Any,
  transform: Callable[[Any], Any] | None = None,
  name: str | None = None,
) -> Any:
  """Returns a matrix with a function of its diagonal.

  Args:
    matrix: square matrices.
    transform: the function; None leaves them as they are.
    name: of the ops.
  """
  with tf.compat.v1.name_scope(name, "matrix_diag_transform", [matrix]):
    matrix = tf.convert_to_tensor(matrix)
    if transform is None:
      return matrix
    return tf.linalg.set_diag(matrix, transform(tf.linalg.diag_part(matrix)))


def tridiag(
  below: Any = None,
  diag: Any = None,
  above: Any = None,
  name: str | None = None,
) -> Any:
  """Returns matrices of three diagonals.

  Args:
    below: the one below the main diagonal; None is zeros.
    diag: the main diagonal; None is zeros.
    above: the one above it; None is zeros.
    name: of the ops.

  Raises:
    ValueError: if all three are None.
  """
  with tf.compat.v1.name_scope(name, "tridiag", [below, diag, above]):
    parts = [
      tf.linalg.diag(values, k=offset)
      for values, offset in ((below, -1), (diag, 0), (above, 1))
      if values is not None
    ]
    if not parts:
      raise ValueError("Give tridiag one of below, diag and above.")
    found = parts[0]
    for part in parts[1:]:
      found += part
    return found


def assign_moving_mean_variance(
  mean_var: Any,
  variance_var: Any,
  value: Any,
  decay: Any,
  name: str | None = None,
) -> tuple[Any, Any]:
  """Moves a mean and a variance towards a value.

  Args:
    mean_var: the variable with the mean.
    variance_var: the variable with the variance.
    value: the value.
    decay: how much stays, from 0 to 1.
    name: of the ops.

  Returns:
    Both, moved.
  """
  with tf.compat.v1.name_scope(name, "assign_moving_mean_variance"):
    value = tf.convert_to_tensor(value, mean_var.dtype.base_dtype)
    old = tf.convert_to_tensor(mean_var)
    delta = value - old
    with tf.control_dependencies([delta]):
      mean = mean_var.assign_add((1.0 - decay) * delta)
      variance = variance_var.assign_sub(
        (1.0 - decay) * (variance_var - decay * tf.square(delta))
      )
    return mean, variance


def moving_mean_variance(
  value: Any,
  decay: Any,
  collections: Any = None,
  name: str | None = None,
) -> tuple[Any, Any]:
  """Makes variables for a mean and a variance, and moves them.

  Args:
    value: what they move towards.
    decay: how much stays, from 0 to 1.
    collections: of the variables.
    name: of their scope.

  Returns:
    Both, moved.
  """
  if collections is None:
    collections = [tf.compat.v1.GraphKeys.GLOBAL_VARIABLES]
  with tf.compat.v1.variable_scope(
    name, "moving_mean_variance", [value, decay]
  ):
    value = tf.convert_to_tensor(value)
    zeros = tf.compat.v1.zeros_initializer()
    mean, variance = (
      tf.compat.v1.get_variable(
        one,
        value.shape,
        value.dtype.base_dtype,
        zeros,
        trainable=False,
        collections=collections,
      )
      for one in ("moving_mean", "moving_variance")
    )
    return assign_moving_mean_variance(mean, variance, value, decay)


def assign_log_moving_mean_exp(
  log_mean_exp_var: Any, log_value: Any, decay: Any, name: str | None = None
) -> Any:
  """Moves the logarithm of a mean towards that of a value.

  Args:
    log_mean_exp_var: the variable with the logarithm.
    log_value: the value's logarithm.
    decay: how much of the mean stays, from 0 to 1.
    name: of the ops.

  Returns:
    The variable, moved.
  """
  with tf.compat.v1.name_scope(name, "assign_log_moving_mean_exp"):
    old = tf.convert_to_tensor(log_mean_exp_var)
    decay = tf.cast(decay, old.dtype)
    terms = [
      tf.math.log(decay) + old,
      tf.math.log1p(-decay) + tf.cast(log_value, old.dtype),
    ]
    return log_mean_exp_var.assign(tf.reduce_logsumexp(terms, axis=0))
