"""The layers that transformers are made of, in `tf.compat.v1` variables."""

from collections.abc import Callable

import tensorflow as tf

v1 = tf.compat.v1

# As GPT-2 starts (Radford et al., 2019).
INITIAL_STDDEV = 0.02


def dense(
  inputs: tf.Tensor,
  units: int,
  name: str,
  activation: Callable[[tf.Tensor], tf.Tensor] | None = None,
  stddev: float = INITIAL_STDDEV,
) -> tf.Tensor:
  """Returns what a dense layer makes of rows.

  Args:
    inputs: float32 [rows, width].
    units: The width of the result.
    name: The scope of the variables `kernel` and `bias`.
    activation: The function of each entry; None for the identity.
    stddev: That of the kernel's initial values.

  Returns:
    float32 [rows, units].
  """
  with v1.variable_scope(name):
    kernel = v1.get_variable(
      "kernel",
      [inputs.shape[-1], units],
      initializer=v1.truncated_normal_initializer(stddev=stddev),
    )
    bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
    outputs = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
    return outputs if activation is None else activation(outputs)


def layer_norm(inputs: tf.Tensor, name: str) -> tf.Tensor:
  """Returns rows with mean 0 and variance 1, scaled and moved as learned.

  Ba et al., 2016, arXiv:1607.06450.

  Args:
    inputs: float32 [..., width].
    name: The scope of the variables `gamma` and `beta`.
  """
  with v1.variable_scope(name):
    width = inputs.shape[-1]
    gamma = v1.get_variable("gamma", [width], initializer=v1.ones_initializer())
    beta = v1.get_variable("beta", [width], initializer=v1.zeros_initializer())
    mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
    return tf.nn.batch_normalization(
      inputs, mean, variance, beta, gamma, variance_epsilon=1e-5
    )


def gelu(inputs: tf.Tensor) -> tf.Tensor:
  """Returns GELUs (Hendrycks and Gimpel, 2016, arXiv:1606.08415)."""
  return tf.nn.gelu(inputs, approximate=True)


def length_of(tokens: tf.Tensor) -> int | tf.Tensor:
  """Returns the size of a tensor's second dimension, a number if it is known.

  Args:
    tokens: A tensor of the shape [batch, length, ...].
  """
  known = tokens.shape[1]
  return tf.shape(tokens)[1] if known is None else int(known)
