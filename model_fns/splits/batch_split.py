"""batch_split: one model on slices of the batch, joined by a barrier.

Every device computes the same tower, with the same variables, on its slice of
the batch. A barrier waits for all logits, and the head computes the loss once,
on the whole batch. Gradients go back through the barrier to each device; those
of a variable are summed.

It is not a use of `shard_model_fn` with a `data` axis, where one device alone
evaluates and predicts: here all devices work in every mode.
"""

from collections.abc import Callable, Sequence
from typing import Any

import estimator_mp
from estimator_mp import toolbox
from model_fns import training
from model_fns.splits import batch
from model_fns.splits import layers as layers_lib

import tensorflow as tf


def batch_split(
  tower: Callable[..., tf.Tensor] | Sequence[Any],
  head: tf.estimator.Head,
  mesh: estimator_mp.Mesh | str,
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
    mesh: A mesh with a `data` axis only, or its text, such as "data:2".
    optimizer: A `tf.compat.v1.train.Optimizer`, or a function that returns
      one; it is called in the training graph.
    feature_key: The feature that the tower gets. None: the features as the
      input_fn returns them. Every tensor it gets is cut along its first
      dimension.
    verify_placement: Whether the first step of each session checks that ops ran
      on their planned devices.

  Returns:
    A model_fn with the arguments features, labels, mode and config.

  Raises:
    ValueError: If the mesh has another axis than `data`, or there is no layer.
    TypeError: If a layer is neither a function nor a tf_keras layer, the
      optimizer is not a v1 optimizer, or the mesh is of another type.
  """
  layers = [tower] if callable(tower) else list(tower)
  layers_lib.check_layers(layers)
  training.check_optimizer(optimizer)
  mesh = _create_mesh(mesh)

  def model_fn(
    features: Any,
    labels: Any,
    mode: str,
    config: tf.estimator.RunConfig | None = None,
  ) -> tf.estimator.EstimatorSpec:
    if config is not None:
      mesh.check_session_config(config.session_config)
    bound = layers_lib.bind_layers(layers)
    inputs = layers_lib.select_inputs(features, feature_key)
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    logits, update_ops = _towers(bound, inputs, mesh, is_training)
    parts = toolbox.barrier(logits, device=mesh.device(data=0))
    # A gradient is made beside its forward op all the same.
    with mesh.at(data=0):
      regularization = layers_lib.collect_regularization_losses(bound)
      spec = head.create_estimator_spec(
        features=features,
        mode=mode,
        logits=tf.concat(parts, axis=0),
        labels=labels,
        train_op_fn=lambda loss: training.make_train_op(
          loss, optimizer, update_ops
        ),
        regularization_losses=regularization or None,
      )
    spec = toolbox.with_deviceless_export(spec)
    if verify_placement:
      return toolbox.with_placement_verification(spec)
    return spec

  return model_fn


def _create_mesh(given: estimator_mp.Mesh | str) -> estimator_mp.Mesh:
  """Returns the mesh that the user gave; raises if it has another axis."""
  mesh = estimator_mp.Mesh.create(given) if isinstance(given, str) else given
  if not isinstance(mesh, estimator_mp.Mesh):
    raise TypeError(
      f"mesh is {given!r}; pass a text such as 'data:2', or an "
      "estimator_mp.Mesh"
    )
  others = [f"{a}:{n}" for a, n in mesh.axes.items() if a != "data" and n > 1]
  if others:
    raise ValueError(
      f"batch_split uses the data axis only, but mesh {mesh} has "
      f"{', '.join(others)}; use a mesh such as data:{mesh.size}"
    )
  return mesh


def _towers(
  layers: Sequence[layers_lib.Layer],
  inputs: Any,
  mesh: estimator_mp.Mesh,
  is_training: bool,
) -> tuple[list[tf.Tensor], list[tf.Operation]]:
  """Builds a tower per device; the first one makes the variables.

  Returns:
    The logits of each device's slice, and what the first tower wants to run
    beside a training step.
  """
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
        outputs = layer(outputs, is_training)
    logits.append(outputs)
    if i == 0:
      num_variables = len(tf.compat.v1.trainable_variables())
      update_ops = layers_lib.collect_update_ops(layers)
  made_later = tf.compat.v1.trainable_variables()[num_variables:]
  if made_later:
    names = ", ".join(variable.op.name for variable in made_later)
    raise ValueError(
      f"the tower made new variables when it was called again: {names}; make "
      "variables with tf.compat.v1.get_variable, or pass Keras layers as a "
      "list, so that all devices share them"
    )
  return logits, update_ops
