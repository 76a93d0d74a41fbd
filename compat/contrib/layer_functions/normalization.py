"""Layer and batch normalization of tf.contrib.layers."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from compat.contrib.layer_functions import variables

import tensorflow as tf


def _prepared(inputs: Any, axes: Sequence[int], what: str) -> Any:
  """Returns the inputs as a tensor whose sizes along `axes` are known."""
  inputs = tf.convert_to_tensor(inputs)
  if inputs.shape.rank is None or any(
    inputs.shape[axis] is None for axis in axes if axis < inputs.shape.rank
  ):
    raise ValueError(
      f"inputs have the shape {inputs.shape}; {what} needs the dimensions "
      f"{list(axes)} to be known."
    )
  return inputs


def layer_norm(
  inputs: Any,
  center: bool = True,
  scale: bool = True,
  activation_fn: Callable[[Any], Any] | None = None,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  begin_norm_axis: int = 1,
  begin_params_axis: int = -1,
  scope: Any = None,
) -> Any:
  """Gives each example mean 0 and variance 1, then scales and shifts it.

  Ba et al., "Layer Normalization", 2016.

  Args:
    inputs: float, [batch, ...].
    center: whether "beta" is added.
    scale: whether it is multiplied with "gamma".
    activation_fn: applied last; None for none.
    reuse: whether the variables exist already.
    variables_collections: collections to add the variables to, as a list or
      by variable name.
    outputs_collections: collections to add the result to.
    trainable: whether an optimizer may change the variables.
    begin_norm_axis: mean and variance are over this axis and all after it.
    begin_params_axis: the variables have the shape of this axis and all after.
    scope: the variable scope; "LayerNorm" by default.

  Returns:
    The inputs' shape and type.

  Raises:
    ValueError: if a size is not known, or an axis does not exist.
  """
  inputs = tf.convert_to_tensor(inputs)
  rank = inputs.shape.rank
  if rank is None:
    raise ValueError("inputs have no known shape; layer_norm needs their rank.")
  for name, axis in (
    ("begin_norm_axis", begin_norm_axis),
    ("begin_params_axis", begin_params_axis),
  ):
    if not -rank <= axis < rank:
      raise ValueError(
        f"{name}={axis} is not an axis of inputs of shape {inputs.shape}."
      )
  norm_axes = list(range(begin_norm_axis % rank, rank))
  params_axes = list(range(begin_params_axis % rank, rank))
  inputs = _prepared(inputs, params_axes, "layer_norm")
  with tf.compat.v1.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse):
    make = functools.partial(
      variables.make,
      shape=[inputs.shape[axis] for axis in params_axes],
      dtype=inputs.dtype,
      collections=variables_collections,
      trainable=trainable,
    )
    beta = gamma = None
    if center:
      beta = make("beta", initializer=tf.compat.v1.zeros_initializer())
    if scale:
      gamma = make("gamma", initializer=tf.compat.v1.ones_initializer())
    mean, variance = tf.nn.moments(inputs, norm_axes, keepdims=True)
    epsilon = 1e-3 if inputs.dtype == tf.float16 else 1e-12
    outputs = tf.nn.batch_normalization(
      inputs, mean, variance, beta, gamma, epsilon
    )
    if activation_fn is not None:
      outputs = activation_fn(outputs)
    return variables.collect(outputs, outputs_collections)


def batch_norm(
  inputs: Any,
  decay: float = 0.999,
  center: bool = True,
  scale: bool = False,
  epsilon: float = 0.001,
  activation_fn: Callable[[Any], Any] | None = None,
  param_initializers: dict[str, Any] | None = None,
  param_regularizers: dict[str, Any] | None = None,
  updates_collections: str | None = tf.compat.v1.GraphKeys.UPDATE_OPS,
  is_training: Any = True,
  reuse: bool | None = None,
  variables_collections: Any = None,
  outputs_collections: Any = None,
  trainable: bool = True,
  batch_weights: Any = None,
  fused: bool | None = None,
  data_format: str = "NHWC",
  zero_debias_moving_mean: bool = False,
  scope: Any = None,
  renorm: bool = False,
) -> Any:
  """Gives each channel of the batch mean 0 and variance 1, and shifts it.

  Ioffe and Szegedy, "Batch Normalization", 2015. The moving averages,
  "moving_mean" and "moving_variance", are used when not training.

  Args:
    inputs: float, [batch, ..., channels], or [batch, channels, ...].
    decay: of the moving averages.
    center: whether "beta" is added.
    scale: whether it is multiplied with "gamma".
    epsilon: added to the variance.
    activation_fn: applied last; None for none.
    param_initializers: by name, for "beta", "gamma" and the moving averages.
    param_regularizers: by name, for "beta" and "gamma".
    updates_collections: where the updates of the moving averages go; None to
      make them part of the result.
    is_training: a bool or a bool tensor.
    reuse: whether the variables exist already.
    variables_collections: collections to add the variables to, as a list or
      by variable name.
    outputs_collections: collections to add the result to.
    trainable: whether an optimizer may change beta and gamma.
    batch_weights: not supported.
    fused: accepted, and left to TensorFlow: the result is the same.
    data_format: "NHWC", or "NCHW" if the channels come second.
    zero_debias_moving_mean: not supported.
    scope: the variable scope; "BatchNorm" by default.
    renorm: not supported.

  Returns:
    The inputs' shape and type.

  Raises:
    ValueError: if the number of channels is not known, the data format is
      neither, or an argument is not supported.
  """
  del fused
  for name, value in (
    ("batch_weights", batch_weights),
    ("zero_debias_moving_mean", zero_debias_moving_mean),
    ("renorm", renorm),
  ):
    if value is not None and value is not False:
      raise ValueError(
        f"{name} is not supported by compat's batch_norm; leave it out, or use "
        "tf.compat.v1.layers.batch_normalization."
      )
  if data_format not in ("NHWC", "NCHW"):
    raise ValueError(f"data_format={data_format!r} must be NHWC or NCHW.")
  axis = 1 if data_format == "NCHW" else -1
  inputs = _prepared(inputs, [axis], "batch_norm")
  with tf.compat.v1.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse):
    rank = inputs.shape.rank
    axes = [one for one in range(rank) if one != axis % rank]
    parameters = _batch_norm_variables(
      inputs.shape[axis],
      inputs.dtype,
      {"beta": center, "gamma": scale},
      param_initializers or {},
      param_regularizers or {},
      variables_collections,
      trainable,
    )
    shape = [1] * rank
    shape[axis] = -1
    mean, variance = _moments(
      inputs, axes, decay, is_training, updates_collections, parameters
    )
    beta, gamma = (
      None if parameters[name] is None else tf.reshape(parameters[name], shape)
      for name in ("beta", "gamma")
    )
    outputs = tf.nn.batch_normalization(
      inputs,
      tf.reshape(mean, shape),
      tf.reshape(variance, shape),
      beta,
      gamma,
      epsilon,
    )
    if activation_fn is not None:
      outputs = activation_fn(outputs)
    return variables.collect(outputs, outputs_collections)


def _batch_norm_variables(
  channels: int,
  dtype: tf.DType,
  wanted: dict[str, bool],
  initializers: dict[str, Any],
  regularizers: dict[str, Any],
  collections: Any,
  trainable: bool,
) -> dict[str, Any]:
  """Returns beta, gamma and the moving averages; None for one not wanted."""
  ones = tf.compat.v1.ones_initializer()
  zeros = tf.compat.v1.zeros_initializer()
  first = {
    "beta": zeros,
    "gamma": ones,
    "moving_mean": zeros,
    "moving_variance": ones,
  }
  return {
    name: variables.make(
      name,
      [channels],
      initializers.get(name, initializer),
      dtype=dtype,
      collections=collections,
      trainable=trainable and name in wanted,
      regularizer=regularizers.get(name),
    )
    if wanted.get(name, True)
    else None
    for name, initializer in first.items()
  }


def _moments(
  inputs: Any,
  axes: list[int],
  decay: float,
  is_training: Any,
  updates_collections: str | None,
  parameters: dict[str, Any],
) -> tuple[Any, Any]:
  """Returns mean and variance per channel, and keeps the averages moving."""
  moving = [parameters["moving_mean"], parameters["moving_variance"]]
  if not tf.is_tensor(is_training) and not is_training:
    return moving[0], moving[1]
  batch = list(tf.nn.moments(inputs, axes))
  # A choice that is made when the graph runs: 0 keeps the average as it is.
  training = tf.cast(is_training, inputs.dtype)
  updates = [
    tf.compat.v1.assign_sub(average, (average - now) * (1 - decay) * training)
    for average, now in zip(moving, batch, strict=True)
  ]
  if updates_collections is None:
    with tf.control_dependencies(updates):
      batch = [tf.identity(now) for now in batch]
  else:
    for update in updates:
      tf.compat.v1.add_to_collection(updates_collections, update)
  if tf.is_tensor(is_training):
    batch = [
      tf.where(is_training, now, average)
      for average, now in zip(moving, batch, strict=True)
    ]
  return batch[0], batch[1]
