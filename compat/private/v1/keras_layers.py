"""Methods of Keras' layers that took more arguments in TensorFlow 1.15.

Tested on tf-keras 2.15.1 and 2.21.0.
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

# Both classes that `tf.keras.layers.Layer` may stand for.
_FILES = ("engine.base_layer", "engine.base_layer_v1")


def accept_inputs_of_updates(layer: type) -> None:
  """Lets `add_update` take `inputs`, as layers written for 1.15 call it.

  They said which inputs an update depends on; a layer finds out itself today.

  Args:
    layer: tf.keras.layers.Layer.
  """
  package = layer.__module__.partition(".")[0]
  for file in _FILES:
    cls: Any = importlib.import_module(f"{package}.src.{file}").Layer
    if not hasattr(cls.add_update, "takes_inputs"):
      cls.add_update = _with_inputs(cls.add_update)


def _with_inputs(add: Callable[[Any, Any], None]) -> Callable[..., None]:
  @functools.wraps(add)
  def add_update(self: Any, updates: Any, inputs: Any = None) -> None:
    del inputs
    add(self, updates)

  # Its own arguments, not those of what it wraps.
  del vars(add_update)["__wrapped__"]
  vars(add_update)["takes_inputs"] = True
  return add_update
