"""Fully connected layers and dropout of tf.contrib.layers."""

import functools
from collections.abc import Callable
from typing import Any

from compat.contrib.layer_functions import variables
from compat.contrib.layer_functions.initializers import xavier_initializer

import tensorflow as tf


def fully_connected(
  inputs: Any,
  num_outputs: int,
  activation_fn: Callable[[Any], Any] | None = tf.nn.relu,
  normalizer_fn: Callable[..., Any] | None = None,
  normalizer_params: dict[str, Any] | None = None,
  weights_initializer: Any = None,
  weights_regularizer: Any = None,
  biases_initializer: Any = "zeros",
  biases_regularizer: Any = None,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
) -> Any:
  """Multiplies the last dimension with "weights" and adds "biases".

  Args:
    inputs: [..., size], float, with a known size.
    num_outputs: the size of the result's last dimension.
    activation_fn: applied last; None for none.
    normalizer_fn: applied instead of adding biases, such as batch_norm.
    normalizer_params: arguments of the normalizer.
    weights_initializer: xavier_initializer() by default.
    weights_regularizer: its penalty goes to the regularization losses.
    biases_initializer: zeros by default; None for no biases.
    biases_regularizer: its penalty goes to the regularization losses.
    reuse: whether the variables exist already.
    variables_collections: collections to add the variables to, as a list or
      by variable name.
    outputs_collections: collections to add the result to.
    trainable: whether an optimizer may change the variables.
    scope: the variable scope; "fully_connected" by default.

  Returns:
    [..., num_outputs], of the inputs' type.

  Raises:
    ValueError: if the number of outputs is not an integer, or the size of the
      inputs is unknown.
  """
  if isinstance(num_outputs, bool) or not hasattr(num_outputs, "__index__"):
    raise ValueError(f"num_outputs={num_outputs!r} must be an integer.")
  inputs = tf.convert_to_tensor(inputs)
  size = inputs.shape[-1] if inputs.shape.rank else None
  if size is None:
    raise ValueError(
      f"inputs have the shape {inputs.shape}; fully_connected needs a known "
      "last dimension."
    )
  if biases_initializer == "zeros":
    biases_initializer = tf.compat.v1.zeros_initializer()
  with tf.compat.v1.variable_scope(
    scope, "fully_connected", [inputs], reuse=reuse
  ):
    make = functools.partial(
      variables.make,
      dtype=inputs.dtype,
      collections=variables_collections,
      trainable=trainable,
    )
    weights = make(
      "weights",
      [size, num_outputs],
      weights_initializer or xavier_initializer(),
      regularizer=weights_regularizer,
    )
    outputs = tf.tensordot(inputs, weights, [[-1], [0]])
    outputs.set_shape([*inputs.shape[:-1], num_outputs])
    if normalizer_fn is not None:
      outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    elif biases_initializer is not None:
      outputs += make(
        "biases",
        [num_outputs],
        biases_initializer,
        regularizer=biases_regularizer,
      )
    if activation_fn is not None:
      outputs = activation_fn(outputs)
    return variables.collect(outputs, outputs_collections)


relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
linear = functools.partial(fully_connected, activation_fn=None)


def dropout(
  inputs: Any,
  keep_prob: Any = 0.5,
  noise_shape: Any = None,
  is_training: Any = True,
  outputs_collections: Any = None,
  scope: Any = None,
  seed: int | None = None,
) -> Any:
  """Sets a random part of the inputs to 0, in training.

  Srivastava et al., "Dropout", 2014. What is kept is divided by keep_prob.

  Args:
    inputs: float, of any shape.
    keep_prob: the probability that an element is kept.
    noise_shape: the shape of the random choice, broadcast to the inputs'.
    is_training: a bool or a bool tensor; False leaves the inputs as they are.
    outputs_collections: collections to add the result to.
    scope: the variable scope; "Dropout" by default.
    seed: of the random numbers.
  """
  with tf.compat.v1.variable_scope(scope, "Dropout", [inputs]):
    inputs = tf.convert_to_tensor(inputs)

    def drop() -> Any:
      return tf.nn.dropout(inputs, 1 - keep_prob, noise_shape, seed)

    if tf.is_tensor(is_training):
      outputs = tf.cond(is_training, drop, lambda: tf.identity(inputs))
    else:
      outputs = drop() if is_training else tf.identity(inputs)
    return variables.collect(outputs, outputs_collections)
