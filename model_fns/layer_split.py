"""layer_split: consecutive layers on consecutive devices.

The oldest kind of model parallelism: each device holds some layers, and
activations travel from one to the next (the LSTM layers of GNMT lay on eight
GPUs like this; Wu et al., 2016, arXiv:1609.08144). It makes room for a model
that is larger than a device. Only one device works at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any

import estimator_mp
from model_fns import layers as layers_lib
from model_fns import training

import tensorflow as tf


def layer_split(
  layers: Sequence[Any],
  head: tf.estimator.Head,
  mesh: estimator_mp.Mesh,
  optimizer: training.OptimizerOrFn,
  *,
  layers_per_stage: Sequence[int] | None = None,
  feature_key: str | None = None,
  verify_placement: bool = True,
) -> Callable[..., tf.estimator.EstimatorSpec]:
  """Returns a model_fn whose layers are split over the stages of a mesh.

  Variables, their optimizer slots, and the gradients of a layer's ops are on
  the device of the layer. The head (loss, metrics, predictions) is on the last
  stage. Checkpoints do not depend on the mesh.

  Args:
    layers: The model, in order: functions `f(inputs)` or
      `f(inputs, training)`, and tf_keras layers that were never called. The
      first one gets the features, each other one what the one before returns;
      the last one returns the logits that the head expects.
    head: Any head of `tf.estimator`, such as `tf.estimator.MultiClassHead` or
      `tf.estimator.RegressionHead`. It makes the loss, the metrics and the
      export signatures.
    mesh: A mesh with a `stage` axis only, with at most as many stages as there
      are layers.
    optimizer: A `tf.compat.v1.train.Optimizer`, or a function that returns
      one; it is called in the training graph.
    layers_per_stage: How many layers each stage holds. None: as equally many
      as possible, the first stages one more.
    feature_key: The feature that the first layer gets. None: the features as
      the input_fn returns them.
    verify_placement: Whether to compare, on each session's first step, where
      ops ran with where they were placed.

  Returns:
    A model_fn with the arguments features, labels, mode and config.

  Raises:
    ValueError: If there are fewer layers than stages, `layers_per_stage` does
      not fit, or the mesh has another axis than `stage`.
    TypeError: If a layer is neither a function nor a tf_keras layer, or the
      optimizer is no v1 optimizer.
  """
  layers_lib.check_layers(layers)
  training.check_optimizer(optimizer)
  counts = split_counts(len(layers), mesh, layers_per_stage)

  def model_fn(features, labels, mode, config):
    mesh.check_session_config(config.session_config)
    bound = layers_lib.bind_layers(layers)
    stages = consecutive(bound, counts)
    outputs = training.select_inputs(features, feature_key)
    for stage, stage_layers in enumerate(stages):
      with mesh.stage(stage):
        for layer in stage_layers:
          outputs = layer(outputs, mode == tf.estimator.ModeKeys.TRAIN)
    with mesh.stage(len(stages) - 1):
      spec = head.create_estimator_spec(
        features=features,
        mode=mode,
        logits=outputs,
        labels=labels,
        train_op_fn=lambda loss: _train_op(loss, optimizer, bound),
        regularization_losses=training.collect_regularization_losses(bound)
        or None,
      )
    names = [[layer.name for layer in stage] for stage in stages]
    estimator_mp.record_placement(estimator_mp.placement_of_graph(mesh, names))
    spec = estimator_mp.with_deviceless_export(spec)
    if verify_placement:
      return estimator_mp.with_placement_verification(spec)
    return spec

  return model_fn


def _train_op(
  loss: tf.Tensor,
  optimizer: training.OptimizerOrFn,
  layers: Sequence[layers_lib.Layer],
) -> tf.Operation:
  """Returns the training step, each gradient beside its forward op."""
  # Neither the head's device nor its name scope is the optimizer's.
  with tf.compat.v1.device(None), tf.compat.v1.name_scope(None):
    made = training.make_optimizer(optimizer)
    gradients = made.compute_gradients(loss, colocate_gradients_with_ops=True)
    with tf.control_dependencies(training.collect_update_ops(layers)):
      return made.apply_gradients(
        gradients, global_step=tf.compat.v1.train.get_global_step()
      )


def split_counts(
  num_layers: int,
  mesh: estimator_mp.Mesh,
  layers_per_stage: Sequence[int] | None,
) -> tuple[int, ...]:
  """Returns how many layers each stage holds.

  Args:
    num_layers: The number of layers.
    mesh: The mesh.
    layers_per_stage: The user's wish; None for equal parts.

  Returns:
    One number per stage, each at least 1, with the sum `num_layers`.

  Raises:
    ValueError: If that is not possible.
  """
  training.check_axes("layer_split", mesh, "stage")
  num_stages = mesh.axis_size("stage")
  if num_layers < num_stages:
    raise ValueError(
      f"mesh {mesh} has {num_stages} stages, but the model has {num_layers} "
      f"layer(s); use at most stage:{num_layers}"
    )
  if layers_per_stage is None:
    whole, rest = divmod(num_layers, num_stages)
    return tuple(whole + (stage < rest) for stage in range(num_stages))
  counts = tuple(layers_per_stage)
  fits = len(counts) == num_stages and sum(counts) == num_layers
  if not fits or min(counts) < 1:
    raise ValueError(
      f"layers_per_stage={list(counts)} does not fit: it needs {num_stages} "
      f"numbers of at least 1 with the sum {num_layers}"
    )
  return counts


def consecutive(
  items: Sequence[Any], counts: Sequence[int]
) -> list[Sequence[Any]]:
  """Cuts a sequence into consecutive parts of the given lengths."""
  parts = []
  start = 0
  for count in counts:
    parts.append(items[start : start + count])
    start += count
  return parts
