"""tf.contrib.bayesflow.monte_carlo: expectations by samples."""

from collections.abc import Callable
from typing import Any

from compat.contrib import absent

import tensorflow as tf

__path__: list[str] = []
__getattr__ = absent.getter(__name__)

Function = Callable[[Any], Any]


def expectation(
  f: Function,
  samples: Any,
  log_prob: Function | None = None,
  use_reparametrization: bool = True,
  axis: Any = 0,
  keep_dims: bool = False,
  name: str | None = None,
) -> Any:
  """Returns the mean of a function of samples, with the right gradient.

  Args:
    f: the function.
    samples: of the distribution.
    log_prob: of a sample; needed if samples are not reparametrized.
    use_reparametrization: whether gradients pass through the samples. If not,
      they are those of the score function: Williams, "Simple statistical
      gradient-following algorithms", 1992.
    axis: that of the samples.
    keep_dims: whether the axis stays, with one value.
    name: of the ops.

  Raises:
    ValueError: if log_prob is needed and none.
  """
  with tf.compat.v1.name_scope(name, "expectation", [samples]):
    if not callable(f):
      raise ValueError(f"f={f!r} must be a function.")
    if use_reparametrization:
      return tf.reduce_mean(f(samples), axis=axis, keepdims=keep_dims)
    if not callable(log_prob):
      raise ValueError(
        f"log_prob={log_prob!r} must be a function with "
        "use_reparametrization=False."
      )
    fixed = tf.stop_gradient(samples)
    density = log_prob(fixed)
    values = f(fixed)
    # The value of f, and the gradient of f + f * density.
    values += tf.stop_gradient(values) * (density - tf.stop_gradient(density))
    return tf.reduce_mean(values, axis=axis, keepdims=keep_dims)


def _samples(distribution: Any, z: Any, n: Any, seed: Any) -> Any:
  if (n is None) == (z is None):
    raise ValueError("Give one of the samples z and their number n.")
  return distribution.sample(n, seed=seed) if z is None else z


def expectation_importance_sampler(
  f: Function,
  log_p: Function,
  sampling_dist_q: Any,
  z: Any = None,
  n: Any = None,
  seed: Any = None,
  name: str = "expectation_importance_sampler",
) -> Any:
  """Returns the mean of a function under p, by samples of q.

  Args:
    f: the function.
    log_p: the logarithm of p's density.
    sampling_dist_q: the distribution that is sampled.
    z: its samples, or
    n: how many to draw.
    seed: for that.
    name: of the ops.
  """
  with tf.compat.v1.name_scope(name):
    z = _samples(sampling_dist_q, z, n, seed)
    log_weights = log_p(z) - sampling_dist_q.log_prob(z)
    values = f(z)
    # Of positive and negative values apart, so that the greatest may be taken
    # out of the exponential.
    size = tf.math.log(tf.cast(tf.shape(values)[0], values.dtype))

    def mean_of(chosen: Any) -> Any:
      logs = tf.math.log(
        tf.where(chosen, tf.abs(values), tf.zeros_like(values))
      )
      logs += log_weights
      return tf.exp(tf.reduce_logsumexp(logs, axis=0) - size)

    return mean_of(values >= 0) - mean_of(values < 0)


def expectation_importance_sampler_logspace(
  log_f: Function,
  log_p: Function,
  sampling_dist_q: Any,
  z: Any = None,
  n: Any = None,
  seed: Any = None,
  name: str = "expectation_importance_sampler_logspace",
) -> Any:
  """Returns the logarithm of such a mean, of a function's logarithm.

  Args:
    log_f: the logarithm of the function, which is positive.
    log_p: the logarithm of p's density.
    sampling_dist_q: the distribution that is sampled.
    z: its samples, or
    n: how many to draw.
    seed: for that.
    name: of the ops.
  """
  with tf.compat.v1.name_scope(name):
    z = _samples(sampling_dist_q, z, n, seed)
    logs = log_f(z) + log_p(z) - sampling_dist_q.log_prob(z)
    size = tf.math.log(tf.cast(tf.shape(logs)[0], logs.dtype))
    return tf.reduce_logsumexp(logs, axis=0) - size
