"""The optimizer that `compile` asked for, in the graph of an Estimator.

tf_keras has three kinds. One of `tf.compat.v1.train` and one of
`tf.keras.optimizers.legacy` make ops in a graph. The others, those of
TensorFlow 2.11 and later, write variables one after the other, as eager
programs do. In a function the order is kept by control dependencies; so they
are traced in one, and its ops become ops of the graph.

A `LossScaleOptimizer`, as the policy mixed_float16 asks for, stands around one
of them: gradients are those of the scaled loss, divided again, and a step where
one of them is not finite changes nothing but the scale.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from compat.private import keras

import tensorflow as tf

_Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices
_V1 = tf.compat.v1.train.Optimizer
_LEGACY = tf.keras.optimizers.legacy.Optimizer
_NEW = tf.keras.optimizers.Optimizer
_SCALING = tf.keras.mixed_precision.LossScaleOptimizer


def remake_optimizer(optimizer: Any) -> Callable[[], Any]:
  """Returns what makes an optimizer again, in any graph.

  Args:
    optimizer: The optimizer that `compile` was given, as Keras keeps it.

  Returns:
    A function without arguments. The optimizer that it makes has no state.

  Raises:
    ValueError: If the optimizer cannot be made again.
  """
  check_optimizer(optimizer)
  if isinstance(optimizer, _SCALING):
    return _remake_scaling(optimizer)
  inner = v1_optimizer(optimizer)
  if inner is not None:
    return lambda: inner
  cls, config = type(optimizer), optimizer.get_config()
  config.pop("is_legacy_optimizer", None)
  if isinstance(config.get("learning_rate"), dict):
    # A schedule of the user's own class cannot be made from its config.
    config["learning_rate"] = keras.learning_rate(optimizer)
  if "jit_compile" in config:
    config["jit_compile"] = False  # A compiled update is no op of the graph.

  def make() -> Any:
    return cls.from_config(dict(config))

  return make


def _remake_scaling(optimizer: Any) -> Callable[[], Any]:
  """Returns what makes an optimizer again that scales the loss."""
  make_inner = remake_optimizer(optimizer.inner_optimizer)
  fields = {
    "dynamic": optimizer.dynamic,
    "initial_scale": optimizer.initial_scale,
    "dynamic_growth_steps": optimizer.dynamic_growth_steps,
  }

  def make() -> Any:
    return _SCALING(make_inner(), **fields)

  return make


def check_optimizer(optimizer: Any) -> None:
  """Raises if no graph can have this optimizer.

  Args:
    optimizer: The optimizer that `compile` was given, as Keras keeps it.

  Raises:
    ValueError: If it is of no known kind.
  """
  if isinstance(optimizer, _SCALING):
    check_optimizer(optimizer.inner_optimizer)
    return
  if isinstance(optimizer, tf.keras.optimizers.Nadam):
    raise ValueError(
      "keras.optimizers.Nadam counts steps in Python, which a graph runs once; "
      "use keras.optimizers.legacy.Nadam"
    )
  if v1_optimizer(optimizer) is None and not isinstance(
    optimizer, _LEGACY | _NEW
  ):
    raise ValueError(
      f"the optimizer is {optimizer!r}; compile the model with an optimizer of "
      "tf.keras.optimizers, tf.keras.optimizers.legacy or tf.compat.v1.train"
    )


def v1_optimizer(optimizer: Any) -> tf.compat.v1.train.Optimizer | None:
  """Returns the optimizer of TensorFlow 1 that this is, or that Keras wraps."""
  if isinstance(optimizer, _V1):
    return optimizer
  if isinstance(optimizer, _LEGACY | _NEW):
    return None
  inner = getattr(optimizer, "optimizer", None)
  return inner if isinstance(inner, _V1) else None


def make_train_op(
  loss: tf.Tensor,
  variables: Sequence[tf.Variable],
  optimizer: Any,
  updates: Sequence[tf.Operation],
) -> tf.Operation:
  """Returns the training step.

  Args:
    loss: The loss of the batch.
    variables: The variables to train.
    optimizer: The optimizer, in this graph.
    updates: The ops that have to run in each step, too.

  Raises:
    ValueError: If the loss depends on none of the variables, or two updates
      write one variable.
  """
  _check_updates(updates)
  with tf.compat.v1.name_scope(None):
    gradients = _gradients(loss, list(variables), optimizer)
    pairs = [
      (gradient, variable)
      for gradient, variable in zip(gradients, variables, strict=True)
      if gradient is not None
    ]
    if not pairs:
      raise ValueError(
        "no variable of the model has a gradient of its loss; check that "
        "layers are trainable and that the loss depends on the outputs"
      )
    step = tf.compat.v1.train.get_global_step()
    inner = v1_optimizer(optimizer)
    if inner is not None:
      applied = inner.apply_gradients(pairs)
    elif isinstance(optimizer, _LEGACY):
      applied = optimizer.apply_gradients(pairs)
    else:
      applied = _apply_traced(optimizer, pairs)
    with tf.control_dependencies([applied, *updates]):
      return tf.compat.v1.assign_add(step, 1).op


def _gradients(
  loss: tf.Tensor, variables: list[tf.Variable], optimizer: Any
) -> list[_Gradient | None]:
  """Returns the gradients of a loss, computed of the scaled one if it is."""
  if not isinstance(optimizer, _SCALING):
    unscaled: list[_Gradient | None] = tf.gradients(loss, variables)
    return unscaled
  scaled = tf.gradients(optimizer.get_scaled_loss(loss), variables)
  found: list[_Gradient | None] = optimizer.get_unscaled_gradients(scaled)
  return found


def _check_updates(updates: Sequence[tf.Operation]) -> None:
  """Raises if nothing says which of two updates comes first."""
  written = [op.inputs[0].op.name for op in updates if op.inputs]
  twice = [name for name in written if written.count(name) > 1]
  if twice:
    raise ValueError(
      f"{twice[0]} is updated in several places of the model, as its layer is "
      "called more than once, and in a graph no update is the first; use a "
      "layer for each place, or one without moving averages"
    )


def _apply_traced(
  optimizer: Any, pairs: Sequence[tuple[_Gradient, tf.Variable]]
) -> tf.Tensor:
  """Returns a tensor that is there when an optimizer has applied gradients."""
  gradients, variables = zip(*pairs, strict=True)
  updating = (
    optimizer.inner_optimizer if isinstance(optimizer, _SCALING) else optimizer
  )
  with tf.compat.v1.name_scope(updating.name):
    updating.build(list(variables))

  def apply(given: Sequence[_Gradient]) -> tf.Tensor:
    for gradient, variable in zip(given, variables, strict=True):
      # Weight decay writes a variable without reading its gradient: the forward
      # pass has to have read it before.
      with tf.control_dependencies([gradient]):
        variable.read_value()
    optimizer.apply_gradients(zip(given, variables, strict=True))
    return tf.constant(True)  # Waits for all that was written.

  specs = [_spec(gradient) for gradient in gradients]
  with keras.equality_of_values(tf):
    traced = tf.function(apply, autograph=False).get_concrete_function(specs)
  given = tf.nest.flatten(list(gradients), expand_composites=True)
  return _inlined(traced, [*given, *traced.captured_inputs])


def _inlined(traced: Any, given: Sequence[tf.Tensor]) -> tf.Tensor:
  """Returns the result of a function, whose ops become ops of the graph.

  Args:
    traced: A concrete function with one result.
    given: The arguments of the call, and the tensors that it captures.
  """
  names = [tensor.op.name for tensor in traced.inputs]
  inputs = dict(zip(names, given, strict=True))
  body = traced.graph.as_graph_def()
  kept = [node for node in body.node if node.name not in inputs]
  read = {name.split(":")[0] for node in kept for name in node.input}
  for node in kept:  # Some are colocated with what the function is given.
    node.attr.pop("_class", None)
  del body.node[:]
  body.node.extend(kept)
  waited = {f"^{name}": tensor for name, tensor in inputs.items()}
  (result,) = tf.graph_util.import_graph_def(
    body,
    input_map={
      name: tensor
      for name, tensor in {**inputs, **waited}.items()
      if name in read
    },
    return_elements=[traced.outputs[0].name],
    name="train",
  )
  return result


def _spec(gradient: _Gradient) -> tf.TypeSpec:
  if not isinstance(gradient, tf.IndexedSlices):
    return tf.TensorSpec(gradient.shape, gradient.dtype)
  dense_shape = gradient.dense_shape
  return tf.IndexedSlicesSpec(
    shape=gradient.shape,
    dtype=gradient.dtype,
    indices_dtype=gradient.indices.dtype,
    dense_shape_dtype=None if dense_shape is None else dense_shape.dtype,
    indices_shape=gradient.indices.shape,
  )
