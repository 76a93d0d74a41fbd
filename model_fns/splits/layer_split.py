"""layer_split: consecutive layers on consecutive devices.

The oldest kind of model parallelism: each device holds some layers, and
activations travel from one to the next (the LSTM layers of GNMT lay on eight
GPUs like this; Wu et al., 2016, arXiv:1609.08144). It makes room for a model
that is larger than a device.

The model_fn only marks which layer is on which stage; `shard_model_fn` does the
rest. So a `ShardingConfig` adds micro-batches, which let all stages work at the
same time, and a `data` axis adds replicas.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import estimator_mp
from model_fns import training
from model_fns.splits import layers as layers_lib

import tensorflow as tf


def layer_split(
  layers: Sequence[Any],
  head: tf.estimator.Head,
  mesh: estimator_mp.Mesh | estimator_mp.ShardingConfig | str,
  optimizer: training.OptimizerOrFn,
  *,
  layers_per_stage: Sequence[int] | None = None,
  feature_key: str | None = None,
  verify_placement: bool = True,
) -> Callable[..., tf.estimator.EstimatorSpec]:
  """Returns a model_fn whose layers are split over the stages of a mesh.

  Variables, their optimizer slots, and the gradients of a layer's ops are on
  the device of the layer. The head (loss, metrics, predictions) is on the last
  stage. Checkpoints do not depend on the mesh. A `shard_model_fn` that is given
  this model_fn splits the layers over its own mesh instead.

  Args:
    layers: The model, in order: functions `f(inputs)` or
      `f(inputs, training)`, and tf_keras layers that were never called. The
      first one gets the features, each other one what the one before returns;
      the last one returns the logits that the head expects.
    head: Any head of `tf.estimator`, such as `tf.estimator.MultiClassHead` or
      `tf.estimator.RegressionHead`. It makes the loss, the metrics and the
      export signatures.
    mesh: A mesh with the axes `stage` and `data`, with at most as many stages
      as there are layers; each position of the `data` axis trains the whole
      model on its slice of the batch. Or its text, such as "stage:2". Or a
      `ShardingConfig`, which has the mesh and more, such as
      `num_micro_batches`.
    optimizer: A `tf.compat.v1.train.Optimizer`, or a function that returns
      one; it is called in the training graph.
    layers_per_stage: Number of layers of each stage. None: equal numbers, and
      one more for the first stages if they do not divide.
    feature_key: The feature that the first layer gets. None: the features as
      the input_fn returns them.
    verify_placement: Whether the first step of each session checks that ops ran
      on their planned devices. A `ShardingConfig` has to set it, too.

  Returns:
    A model_fn with the arguments features, labels, mode and config.

  Raises:
    ValueError: If there are fewer layers than stages, `layers_per_stage` does
      not fit, the mesh has several stages on a device, or the
      `ShardingConfig` places layers too.
    TypeError: If a layer is neither a function nor a tf_keras layer, the
      optimizer is not a v1 optimizer, or the mesh is of another type.
  """
  layers_lib.check_layers(layers)
  training.check_optimizer(optimizer)
  sharding = _sharding_config(mesh, verify_placement)
  split_counts(len(layers), sharding.create_mesh(), layers_per_stage)

  def marked_model_fn(
    features: Any, labels: Any, mode: str
  ) -> tf.estimator.EstimatorSpec:
    stages = estimator_mp.get_mesh() or sharding.create_mesh()
    counts = split_counts(len(layers), stages, layers_per_stage)
    bound = layers_lib.bind_layers(layers)
    outputs = layers_lib.select_inputs(features, feature_key)
    for stage, stage_layers in enumerate(consecutive(bound, counts)):
      with estimator_mp.stage(stage):
        for layer in stage_layers:
          outputs = layer(outputs, mode == tf.estimator.ModeKeys.TRAIN)
    # Where the variables are: only the sums travel to the head.
    regularization = layers_lib.collect_regularization_losses(bound)

    def train_op_fn(loss: tf.Tensor) -> tf.Operation:
      with tf.compat.v1.device(None):  # The head's is not the optimizer's.
        update_ops = layers_lib.collect_update_ops(bound)
        return training.make_train_op(loss, optimizer, update_ops)

    with estimator_mp.stage(len(counts) - 1):
      return head.create_estimator_spec(
        features=features,
        mode=mode,
        logits=outputs,
        labels=labels,
        train_op_fn=train_op_fn,
        regularization_losses=regularization or None,
      )

  sharded = estimator_mp.shard_model_fn(marked_model_fn, sharding)

  def model_fn(
    features: Any,
    labels: Any,
    mode: str,
    config: tf.estimator.RunConfig | None = None,
  ) -> tf.estimator.EstimatorSpec:
    if estimator_mp.get_mesh() is not None:  # Another shard_model_fn calls.
      return marked_model_fn(features, labels, mode)
    return sharded(features, labels, mode, config)

  return model_fn


def _sharding_config(
  given: estimator_mp.Mesh | estimator_mp.ShardingConfig | str,
  verify_placement: bool,
) -> estimator_mp.ShardingConfig:
  """Returns how the model is sharded, from what the user gave as the mesh."""
  if isinstance(given, str):
    given = estimator_mp.Mesh.create(given)
  if isinstance(given, estimator_mp.ShardingConfig):
    config, mesh = given, given.create_mesh()
  elif isinstance(given, estimator_mp.Mesh):
    config, mesh = None, given
  else:
    raise TypeError(
      f"mesh is {given!r}; pass a text such as 'stage:2', an "
      "estimator_mp.Mesh or an estimator_mp.ShardingConfig"
    )
  if len(set(mesh.devices)) < mesh.size:
    raise ValueError(
      f"layer_split needs a device for each stage, but mesh {mesh} has several "
      f"on {mesh.devices[0]}; use num_virtual_stages=1, or give shard_model_fn "
      'a model_fn of your own and placement="auto"'
    )
  if config is None:
    config = estimator_mp.ShardingConfig(str(mesh), mesh.devices)
  for name in ("placement", "memory_limit", "measured_costs"):
    if getattr(config, name) not in ("auto", None):
      raise ValueError(
        f"layer_split places layers itself, but the ShardingConfig has a "
        f"{name}; leave it out, and use layers_per_stage"
      )
  return dataclasses.replace(
    config,
    verify_placement=verify_placement and config.verify_placement,
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
