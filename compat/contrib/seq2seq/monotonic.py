"""Attention that only moves forward.

Raffel, Luong, Liu, Weiss and Eck, "Online and Linear-Time Attention by
Enforcing Monotonic Alignments", 2017.
"""

from typing import Any

import numpy as np
import tensorflow as tf


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
  """Returns cumulative products, by sums of logarithms.

  Args:
    x: numbers in [0, 1]; the logarithm of 0 is that of the smallest number.
    *args: of tf.cumsum.
    **kwargs: of tf.cumsum.
  """
  with tf.name_scope("SafeCumprod"):
    x = tf.convert_to_tensor(x)
    tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
    logarithms = tf.math.log(tf.clip_by_value(x, tiny, 1))
    return tf.exp(tf.cumsum(logarithms, *args, **kwargs))


def monotonic_attention(
  p_choose_i: Any, previous_attention: Any, mode: str
) -> tf.Tensor:
  """Returns the distribution of where to attend at this step.

  Args:
    p_choose_i: how probable it is to stop at an element of the memory [batch,
      memory].
    previous_attention: the distribution at the step before [batch, memory].
    mode: "recursive" and "parallel" compute the distribution; the first one by
      one, exactly, the second at once, and inexactly where p_choose_i is near
      to 1. "hard" is for p_choose_i and previous_attention of 0 and 1.

  Returns:
    [batch, memory].

  Raises:
    ValueError: if the mode is none of these.
  """
  stop = tf.convert_to_tensor(p_choose_i, name="p_choose_i")
  previous = tf.convert_to_tensor(previous_attention, name="previous_attention")
  if mode == "recursive":
    return _recursive(stop, previous)
  if mode == "parallel":
    go_on = safe_cumprod(1 - stop, axis=1, exclusive=True)
    # Near 0 the quotient would be inexact, and its gradient without limit.
    started = tf.cumsum(previous / tf.clip_by_value(go_on, 1e-10, 1.0), axis=1)
    return stop * go_on * started
  if mode == "hard":
    stop *= tf.cumsum(previous, axis=1)
    return stop * tf.math.cumprod(1 - stop, axis=1, exclusive=True)
  raise ValueError(f"mode={mode!r} must be 'recursive', 'parallel' or 'hard'.")


def _recursive(stop: tf.Tensor, previous: tf.Tensor) -> tf.Tensor:
  """Goes over the memory, element by element."""
  batch = stop.shape[0] or tf.shape(stop)[0]
  passed = tf.concat([tf.ones([batch, 1], stop.dtype), 1 - stop[:, :-1]], 1)
  arrived = tf.compat.v1.scan(
    lambda before, now: tf.reshape(now[0] * before + now[1], [batch]),
    [tf.transpose(passed), tf.transpose(previous)],
    tf.zeros([batch], stop.dtype),
  )
  return stop * tf.transpose(arrived)


def monotonic_probability_fn(
  score: tf.Tensor,
  previous_alignments: tf.Tensor,
  sigmoid_noise: float,
  mode: str,
  seed: int | None = None,
) -> tf.Tensor:
  """Returns alignments from scores.

  Args:
    score: [batch, memory].
    previous_alignments: [batch, memory].
    sigmoid_noise: the standard deviation of the noise that is added to scores;
      it drives them away from 0.
    mode: of monotonic_attention; "hard" stops at each score above 0.
    seed: of the noise.

  Returns:
    [batch, memory].
  """
  if sigmoid_noise > 0:
    noise = tf.compat.v1.random_normal(
      tf.shape(score), dtype=score.dtype, seed=seed
    )
    score += sigmoid_noise * noise
  if mode == "hard":
    stop = tf.cast(score > 0, score.dtype)
  else:
    stop = tf.sigmoid(score)
  return monotonic_attention(stop, previous_alignments, mode)
