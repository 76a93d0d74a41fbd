"""batch_split: one model on slices of the batch, joined by a barrier.

Every device computes the same tower, with the same variables, on its slice of
the batch. A barrier waits for all logits; the loss is computed once, on the
whole batch; each device then computes its part of the gradients from its part
of the loss's gradient, and the parts are summed. Because the loss sees the
whole batch, the result is the plain model's for every loss, for weighted
examples and for a batch that does not divide evenly.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import estimator_mp
from model_fns import batch, training
from model_fns import layers as layers_lib

import tensorflow as tf


def batch_split(
  tower: Callable[..., tf.Tensor] | Sequence[Any],
  head: tf.estimator.Head,
  mesh: estimator_mp.Mesh,
  optimizer: training.OptimizerOrFn,
  *,
  feature_key: str | None = None,
  verify_placement: bool = True,
) -> Callable[..., tf.estimator.EstimatorSpec]:
  """Returns a model_fn that cuts each batch over the devices of a mesh.

  The variables are on the first device of the `data` axis, and all devices
  share them. So is the head. Statistics that a tower updates (batch
  normalisation) come from the first slice only, once per batch.

  Args:
    tower: The model: a function `tower(features)` or
      `tower(features, training)` that returns the logits of its examples and
      makes its variables with `tf.compat.v1.get_variable` or named
      `tf.compat.v1.layers`; or a list of layers as for `layer_split`.
    head: Any head of `tf.estimator`; it makes the loss, the metrics and the
      export signatures.
    mesh: A mesh with a `data` axis only.
    optimizer: A `tf.compat.v1.train.Optimizer`, or a function that returns
      one; it is called in the training graph.
    feature_key: The feature that the tower gets. None: the features as the
      input_fn returns them. Every tensor it gets is cut along its first
      dimension.
    verify_placement: Whether to compare, on each session's first step, where
      ops ran with where they were placed.

  Returns:
    A model_fn with the arguments features, labels, mode and config.

  Raises:
    ValueError: If the mesh has another axis than `data`, or there is no layer.
    TypeError: If a layer is neither a function nor a tf_keras layer, or the
      optimizer is no v1 optimizer.
  """
  layers = [tower] if callable(tower) else list(tower)
  layers_lib.check_layers(layers)
  training.check_optimizer(optimizer)
  training.check_axes("batch_split", mesh, "data")

  def model_fn(features, labels, mode, config):
    mesh.check_session_config(config.session_config)
    bound = layers_lib.bind_layers(layers)
    inputs = training.select_inputs(features, feature_key)
    towers = _towers(bound, inputs, mesh, mode)
    first_device = mesh.device(data=0)
    parts = estimator_mp.barrier(towers.logits, device=first_device)
    with mesh.at(data=0):
      regularization = training.collect_regularization_losses(bound)
      spec = head.create_estimator_spec(
        features=features,
        mode=mode,
        logits=tf.concat(parts, axis=0),
        labels=labels,
        train_op_fn=lambda loss: _train_op(
          loss, parts, towers, regularization, optimizer
        ),
        regularization_losses=regularization or None,
      )
    spec = estimator_mp.with_deviceless_export(spec)
    if verify_placement:
      return estimator_mp.with_placement_verification(spec)
    return spec

  return model_fn


@dataclasses.dataclass(frozen=True)
class _Towers:
  """The towers of one graph.

  Attributes:
    logits: The logits of each device's slice.
    variables: The trainable variables that all towers share.
    update_ops: What the first tower wants to run beside a training step.
  """

  logits: Sequence[tf.Tensor]
  variables: Sequence[tf.Variable]
  update_ops: Sequence[tf.Operation]


def _towers(
  layers: Sequence[layers_lib.Layer],
  inputs: Any,
  mesh: estimator_mp.Mesh,
  mode: str,
) -> _Towers:
  """Builds a tower per device; the first one makes the variables."""
  num_towers = mesh.axis_size("data")
  bounds = batch.slice_bounds(batch.batch_size(inputs), num_towers)
  logits = []
  for i in range(num_towers):
    scope = tf.compat.v1.get_variable_scope()
    with (
      mesh.at(data=i),
      tf.compat.v1.variable_scope(scope, reuse=i > 0 or scope.reuse),
    ):
      outputs = batch.slice_features(inputs, bounds[i], bounds[i + 1])
      for layer in layers:
        outputs = layer(outputs, mode == tf.estimator.ModeKeys.TRAIN)
    logits.append(outputs)
    if i == 0:
      variables = tf.compat.v1.trainable_variables()
      update_ops = training.collect_update_ops(layers)
  made_later = tf.compat.v1.trainable_variables()[len(variables) :]
  if made_later:
    names = ", ".join(variable.op.name for variable in made_later)
    raise ValueError(
      f"the tower made new variables when it was called again: {names}; make "
      "variables with tf.compat.v1.get_variable, or pass Keras layers as a "
      "list, so that all devices share them"
    )
  return _Towers(logits, variables, update_ops)


def _train_op(
  loss: tf.Tensor,
  parts: Sequence[tf.Tensor],
  towers: _Towers,
  regularization: Sequence[tf.Tensor],
  optimizer: training.OptimizerOrFn,
) -> tf.Operation:
  """Returns the training step from the loss of the whole batch.

  Args:
    loss: The loss.
    parts: Each tower's logits as the loss sees them, after the barrier.
    towers: The towers.
    regularization: The losses that variables add to `loss` by themselves.
    optimizer: The user's optimizer.
  """
  # Neither the head's device nor its name scope is the optimizer's.
  with tf.compat.v1.device(None), tf.compat.v1.name_scope(None):
    loss_gradients = _gradients(loss, parts, None)
    per_device = [
      _gradients(logits, towers.variables, loss_gradient)
      for logits, loss_gradient in zip(
        towers.logits, loss_gradients, strict=True
      )
    ]
    if regularization:
      total = tf.add_n(list(regularization))
      per_device.append(_gradients(total, towers.variables, None))
    gradients = estimator_mp.aggregate_gradients(per_device, method="sum")
    with tf.control_dependencies(towers.update_ops):
      return training.make_optimizer(optimizer).apply_gradients(
        list(zip(gradients, towers.variables, strict=True)),
        global_step=tf.compat.v1.train.get_global_step(),
      )


def _gradients(
  outputs: tf.Tensor,
  variables: Sequence[tf.Variable],
  output_gradients: tf.Tensor | None,
) -> list[tf.Tensor | tf.IndexedSlices | None]:
  """Returns gradients, each op beside the forward op it belongs to."""
  return tf.compat.v1.gradients(
    outputs,
    list(variables),
    grad_ys=output_gradients,
    colocate_gradients_with_ops=True,
  )
