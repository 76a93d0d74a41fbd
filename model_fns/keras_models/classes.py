"""Effects of making a Keras model in a graph on Keras's classes.

In a graph of TensorFlow 1, as an Estimator has, Keras 2 makes models and layers
of other classes than eagerly. For that it changes the bases of the classes
themselves, also of those whose objects exist, until the next object is made
eagerly. An eager model could then neither be trained nor evaluated.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


@contextlib.contextmanager
def kept() -> Iterator[None]:
  """Leaves all classes of layers and models as they were before the block.

  Yields:
    None.
  """
  bases = {cls: cls.__bases__ for cls in _subclasses(tf.keras.layers.Layer)}
  try:
    yield
  finally:
    for cls, before in bases.items():
      if cls.__bases__ != before:
        cls.__bases__ = before


def is_cloneable(model: Any) -> bool:
  """Whether a model says itself of which layers it is made.

  Functional and Sequential models do, and a subclass of them that takes inputs
  and outputs; other subclasses of `tf.keras.Model` do not.

  Args:
    model: A model.
  """
  return isinstance(model, tf.keras.Sequential) or bool(model.inputs)


def _subclasses(cls: type) -> Iterator[type]:
  """Yields all subclasses of a class, and of these."""
  seen = {cls}
  waiting: list[Any] = [cls]
  while waiting:
    for found in waiting.pop().__subclasses__():
      if found not in seen:
        seen.add(found)
        waiting.append(found)
        yield found


def clone_layer(layer: Any) -> Any:
  """Returns a layer without weights that does what another one does.

  Args:
    layer: A layer of a functional or Sequential model.
  """
  if isinstance(layer, tf.keras.Model) and is_cloneable(layer):
    return tf.keras.models.clone_model(layer, clone_function=clone_layer)
  made = type(layer)
  if made.__name__ == "TFOpLambda":
    made = _with_tensors_first(made)
  return made.from_config(layer.get_config())


def _with_tensors_first(base: Any) -> Any:
  """Returns a class of layers that call a function of TensorFlow.

  In a graph, Keras takes a layer's first argument for its input, also where it
  is a number, as in `1.0 - tensor`.

  Args:
    base: Keras's class of such layers.
  """

  class Operation(base):
    """A function of TensorFlow, as a layer whose input are tensors."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
      if args and tf.is_tensor(tf.nest.flatten(args[0])[0]):
        return super().__call__(*args, **kwargs)
      flat = tf.nest.flatten((args, kwargs))
      places = [i for i, entry in enumerate(flat) if tf.is_tensor(entry)]

      def call(tensors: Any) -> Any:
        for i, tensor in zip(places, tensors, strict=True):
          flat[i] = tensor
        given, named = tf.nest.pack_sequence_as((args, kwargs), flat)
        return self.function(*given, **named)

      self.call = call
      return super().__call__([flat[i] for i in places])

  return Operation
