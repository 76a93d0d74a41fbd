"""A Keras model in the graph of an Estimator, made again there."""

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from compat.private import keras
from model_fns.keras_models import classes, features, metrics, optimizers
from model_fns.keras_models import outputs as outputs_lib
from model_fns.keras_models.weights import Values

import tensorflow as tf

# The methods by which a model may set what `fit` does, instead of `compile`.
_OWN_TRAINING = (
  "train_step",
  "test_step",
  "predict_step",
  "compute_loss",
  "compute_metrics",
  "make_train_function",
)


@dataclasses.dataclass(frozen=True)
class Compiled:
  """The arguments of `compile`.

  Attributes:
    loss: The loss of all outputs or of each.
    loss_weights: The weight of each output's loss.
    metrics: Metrics that are not weighted.
    weighted_metrics: Metrics that are weighted.
    make_optimizer: Makes the optimizer in the current graph.
  """

  loss: Any
  loss_weights: Any
  metrics: Any
  weighted_metrics: Any
  make_optimizer: Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Built:
  """A model that was called with the features of a batch.

  Attributes:
    outputs: The outputs that it returned.
    trainable: Its trainable variables.
    losses: The losses of regularizers and `add_loss`, for the batch.
    updates: The ops that change state in each training step, such as moving
      averages.
    compiled: The arguments that it was compiled with.
  """

  outputs: outputs_lib.Outputs
  trainable: Sequence[tf.Variable]
  losses: Sequence[tf.Tensor]
  updates: Sequence[tf.Operation]
  compiled: Compiled


class Source(Protocol):
  """Where the model of each graph comes from."""

  def build(self, inputs: Any, training: bool) -> Built:
    """Returns the model, called with the inputs, in the current graph.

    Args:
      inputs: The features of the batch.
      training: Whether the model is trained.
    """


def source_of(given: Any) -> Source:
  """Returns how the model of each graph is made.

  Args:
    given: A compiled model, or a function that returns one.

  Raises:
    TypeError: If it is neither.
    ValueError: If the model cannot be made again.
  """
  if not isinstance(given, tf.keras.Model):
    if callable(given) and not isinstance(given, type):
      return _Function(given)
    raise TypeError(
      f"model is {given!r}; pass a compiled tf.keras.Model, or a function "
      "without arguments that returns one"
    )
  _check_training(given)
  _check_compiled(given)
  if not tf.executing_eagerly():
    raise ValueError(
      f"model {given.name!r} was given inside of a graph; give it where eager "
      "execution is on, or pass a function that returns it"
    )
  if classes.is_cloneable(given):
    return _Clone(given)
  if type(given).get_config is tf.keras.Model.get_config:
    raise ValueError(
      f"model {given.name!r} is a subclass of tf.keras.Model that does not say "
      f"how it is made again: give {type(given).__name__} a get_config, or "
      "pass a function that makes and compiles the model"
    )
  return _FromConfig(given)


class _Clone:
  """A functional or Sequential model, whose layers are made again."""

  def __init__(self, model: Any) -> None:
    self._model = model
    self._compiled = _compiled(model)
    self._values = Values(model.get_weights()) if model.weights else None
    self._is_trainable = _is_trainable(model)

  def build(self, inputs: Any, training: bool) -> Built:
    model = self._model
    known = model.inputs or [_AnyInput()]
    names = model.input_names or ["input"]
    tensors = features.ordered_inputs(inputs, known, names)
    _set_learning_phase(training)
    own = _Placeholders()
    clone = tf.keras.models.clone_model(
      model, input_tensors=tensors, clone_function=classes.clone_layer
    )
    if self._values is not None:
      self._values.start(clone.weights)
    trainable = clone.trainable_variables
    if self._is_trainable:
      trainable = [*itertools.compress(clone.weights, self._is_trainable)]
    return Built(
      outputs_lib.name_outputs(clone.output, list(clone.output_names)),
      trainable,
      own.without(clone.losses),
      own.without(clone.updates),
      self._compiled,
    )


class _FromConfig:
  """A model of a user's class, made again by its config."""

  def __init__(self, model: Any) -> None:
    self._class = type(model)
    self._config = model.get_config()
    self._compiled = _compiled(model)
    self._values = Values(model.get_weights()) if model.weights else None
    self._is_trainable = _is_trainable(model)

  def build(self, inputs: Any, training: bool) -> Built:
    _set_learning_phase(training)
    own = _Placeholders()
    model = self._class.from_config(dict(self._config))
    built = _called(model, inputs, training, self._compiled, own)
    if self._values is not None:
      self._values.start(model.weights)
    if self._is_trainable:
      trainable = [*itertools.compress(model.weights, self._is_trainable)]
      built = dataclasses.replace(built, trainable=trainable)
    return built


class _Function:
  """A function that makes the model in each graph."""

  def __init__(self, function: Callable[[], Any]) -> None:
    self._function = function

  def build(self, inputs: Any, training: bool) -> Built:
    _set_learning_phase(training)
    own = _Placeholders()
    model = self._function()
    if not isinstance(model, tf.keras.Model):
      raise TypeError(
        f"the function returned {model!r}; it has to return a compiled "
        "tf.keras.Model"
      )
    _check_training(model)
    _check_compiled(model)
    given = keras.compile_arguments(model)
    optimizer = given.pop("optimizer")
    optimizers.check_optimizer(optimizer)
    compiled = Compiled(**given, make_optimizer=lambda: optimizer)
    return _called(model, inputs, training, compiled, own)


class _AnyInput:
  """The input of a Sequential model that does not know it yet."""

  dtype = tf.float32
  shape = tf.TensorShape(None)


class _Placeholders:
  """The inputs that Keras makes in the current graph from now on.

  A functional model that is made in a graph is called with them first, and only
  then with features. Nobody feeds them.
  """

  def __init__(self) -> None:
    self._graph = tf.compat.v1.get_default_graph()
    self._before = len(self._graph.get_operations())

  def without(self, found: Sequence[Any]) -> list[Any]:
    """Returns those tensors and ops that are not computed from them.

    Args:
      found: Tensors or ops.
    """
    made = self._graph.get_operations()[self._before :]
    sources = {op for op in made if op.type == "Placeholder"}
    return [entry for entry in found if not _reads(entry, sources)]


def _reads(found: Any, sources: set[tf.Operation]) -> bool:
  """Whether a tensor or an op is computed from one of these ops."""
  waiting = [found.op if isinstance(found, tf.Tensor) else found]
  seen = set(waiting)
  while waiting:
    op = waiting.pop()
    if op in sources:
      return True
    for before in (tensor.op for tensor in op.inputs):
      if before not in seen:
        seen.add(before)
        waiting.append(before)
  return False


def _called(
  model: Any,
  inputs: Any,
  training: bool,
  compiled: Compiled,
  own: _Placeholders,
) -> Built:
  """Returns a model that is called with the features of a batch."""
  nest = model(inputs, training=training)
  names = list(model.output_names) if classes.is_cloneable(model) else None
  return Built(
    outputs_lib.name_outputs(nest, names),
    model.trainable_variables,
    own.without(model.losses),
    own.without(model.updates),
    compiled,
  )


def _is_trainable(model: Any) -> list[bool]:
  """Returns whether each of a model's weights is trained.

  A layer in a frozen model is not, whatever its own config says.
  """
  trained = {id(weight) for weight in model.trainable_weights}
  return [id(weight) in trained for weight in model.weights]


def _compiled(model: Any) -> Compiled:
  given = keras.compile_arguments(model)
  metrics.check_metrics(given["metrics"], given["weighted_metrics"])
  optimizer = given.pop("optimizer")
  return Compiled(
    **given, make_optimizer=optimizers.remake_optimizer(optimizer)
  )


def _set_learning_phase(training: bool) -> None:
  """Says to all layers of the current graph whether they are trained."""
  with warnings.catch_warnings():  # "deprecated", but nothing has replaced it.
    warnings.simplefilter("ignore")
    tf.keras.backend.set_learning_phase(int(training))


def _check_compiled(model: Any) -> None:
  if getattr(model, "optimizer", None) is None:
    raise ValueError(
      f"model {model.name!r} is not compiled; call model.compile with an "
      "optimizer and a loss first"
    )


def _check_training(model: Any) -> None:
  """Raises if `compile` does not say how a model is trained."""
  own = [
    name
    for name in _OWN_TRAINING
    if getattr(type(model), name) is not getattr(tf.keras.Model, name)
  ]
  if own:
    raise ValueError(
      f"model {model.name!r} has a {own[0]} of its own, which `fit` would call "
      "and an Estimator cannot; write a model_fn for it, and shard that by "
      "estimator_mp.shard_model_fn"
    )
