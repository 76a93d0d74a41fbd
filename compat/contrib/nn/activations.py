"""Activations and dropout for networks that normalize themselves."""

from typing import Any

import tensorflow as tf

# What an activation of selu tends to, far below 0.
_LOWEST = -1.6732632423543772 * 1.0507009873554805


def alpha_dropout(
  x: Any,
  keep_prob: Any,
  noise_shape: Any = None,
  seed: int | None = None,
  name: str | None = None,
) -> tf.Tensor:
  """Returns dropout that keeps the mean and the variance.

  Klambauer, Unterthiner, Mayr and Hochreiter, "Self-Normalizing Neural
  Networks", 2017.

  Args:
    x: of mean 0 and variance 1.
    keep_prob: how probable it is that an element is kept, above 0.
    noise_shape: of what is drawn; the shape of x by default.
    seed: of what is drawn.
    name: of the operations.

  Returns:
    A tensor of the shape of x.

  Raises:
    ValueError: if keep_prob is not in (0, 1].
  """
  if isinstance(keep_prob, (int, float)) and not 0 < keep_prob <= 1:
    raise ValueError(f"keep_prob={keep_prob!r} must be in (0, 1].")
  with tf.compat.v1.name_scope(name, "alpha_dropout", [x]):
    x = tf.convert_to_tensor(x, name="x")
    keep = tf.convert_to_tensor(keep_prob, x.dtype, name="keep_prob")
    if tf.get_static_value(keep) == 1:
      return x
    shape = tf.shape(x) if noise_shape is None else noise_shape
    drawn = tf.random.uniform(shape, dtype=x.dtype, seed=seed)
    kept = tf.cast(drawn >= 1 - keep, x.dtype)
    variance = keep + keep * (1 - keep) * _LOWEST**2
    scale = variance**-0.5
    shift = -scale * (1 - keep) * _LOWEST
    return scale * (x * kept + _LOWEST * (1 - kept)) + shift


def scaled_softplus(
  x: Any, alpha: Any, clip: Any = None, name: str | None = None
) -> tf.Tensor:
  """Returns alpha * softplus(x / alpha), at most `clip`.

  Args:
    x: the inputs.
    alpha: how smooth it is, above 0; near 0 it is relu.
    clip: the upper bound; none by default.
    name: of the operations.
  """
  with tf.compat.v1.name_scope(name, "scaled_softplus"):
    x = tf.convert_to_tensor(x, name="x")
    alpha = tf.convert_to_tensor(alpha, x.dtype, name="alpha")
    y = alpha * tf.math.softplus(x / alpha)
    return y if clip is None else tf.minimum(y, tf.cast(clip, x.dtype))
