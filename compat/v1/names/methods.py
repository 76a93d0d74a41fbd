"""Methods that classes of TensorFlow and tf-keras had in 1.15.

They are added to the classes themselves, which is no harm to others: nobody
can have met them.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compat.private.v1 import keras_layers

_STRATEGIES = "distribute.Strategy", "compat.v1.distribute.Strategy"
_LAYERS = "keras.layers.Layer", "compat.v1.keras.layers.Layer"


def _run(strategy: Any, *args: Any, **kwargs: Any) -> Any:
  return strategy.run(*args, **kwargs)


def _apply(layer: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
  return layer(inputs, *args, **kwargs)


def _get_losses_for(layer: Any, inputs: Any) -> list[Any]:
  """Losses of the layer that depend on inputs, or on none if it is None."""
  return _reached(layer.losses, inputs)


def _get_updates_for(layer: Any, inputs: Any) -> list[Any]:
  """Updates of the layer that depend on inputs, or on none if it is None."""
  return _reached(layer.updates, inputs)


def _predict_classes(
  model: Any, x: Any, batch_size: int = 32, verbose: int = 0
) -> Any:
  probabilities = model.predict(x, batch_size=batch_size, verbose=verbose)
  if probabilities.shape[-1] > 1:
    return probabilities.argmax(axis=-1)
  return (probabilities > 0.5).astype("int32")


def _predict_proba(
  model: Any, x: Any, batch_size: int = 32, verbose: int = 0
) -> Any:
  return model.predict(x, batch_size=batch_size, verbose=verbose)


# By the classes' paths below today's `tf`.
METHODS: Mapping[tuple[str, ...], Mapping[str, Callable[..., Any]]] = {
  _STRATEGIES: {"experimental_run_v2": _run},
  _LAYERS: {
    "apply": _apply,
    "get_losses_for": _get_losses_for,
    "get_updates_for": _get_updates_for,
  },
  ("keras.Sequential",): {
    "predict_classes": _predict_classes,
    "predict_proba": _predict_proba,
  },
}


def supply(tensorflow: types.ModuleType) -> None:
  """Adds the methods to the classes that have none of their own.

  Layers' add_update takes `inputs` again, too.

  Args:
    tensorflow: the module, with Keras 2 as tf.keras.
  """
  keras_layers.accept_inputs_of_updates(tensorflow.keras.layers.Layer)
  for paths, methods in METHODS.items():
    for path in paths:
      cls: Any = tensorflow
      for part in path.split("."):
        cls = getattr(cls, part)
      for name, method in methods.items():
        if not hasattr(cls, name):
          setattr(cls, name, method)


def _reached(made: Sequence[Any], inputs: Any) -> list[Any]:
  """Returns the ops or tensors that inputs lead to; for None, the others."""
  import tensorflow as tf

  flat = [] if inputs is None else tf.nest.flatten(inputs)
  roots = {id(one) for one in flat}
  symbolic = [one for one in made if not callable(one)]
  if inputs is not None:
    return [one for one in symbolic if _depends(one, roots)]
  placeholders = {
    id(output)
    for one in symbolic
    for op in one.graph.get_operations()
    if op.type in ("Placeholder", "PlaceholderWithDefault")
    for output in op.outputs
  }
  return [one for one in symbolic if not _depends(one, placeholders)]


def _depends(made: Any, roots: set[int]) -> bool:
  """Whether an op or a tensor is computed from one of the tensors."""
  seen = set()
  waiting = [getattr(made, "op", made)]
  while waiting:
    op = waiting.pop()
    if op in seen:
      continue
    seen.add(op)
    for tensor in op.inputs:
      if id(tensor) in roots:
        return True
      waiting.append(tensor.op)
  return False
