"""A namespace of TensorFlow as TensorFlow 1.15 had it."""

import importlib
import types
from typing import Any

from compat.private.v1 import inside
from compat.v1 import names

# What the view of `tf` is called among Python's modules.
ROOT = "tensorflow_v1"


class View(types.ModuleType):
  """Looks like a namespace of TensorFlow 1.15.

  A name is looked up among those that compat supplies, then in
  tensorflow.compat.v1. A namespace in it is again a view. What a program sets
  on a view is seen through it only.
  """

  def __init__(self, target: Any, path: str = ""):
    """Makes the view of one namespace.

    Args:
      target: the namespace of tensorflow.compat.v1.
      path: where 1.15 has it below `tf`, "nn.rnn_cell"; "" is `tf` itself.
    """
    super().__init__(f"{ROOT}.{path}" if path else ROOT, target.__doc__)
    self.__path__: list[str] = []  # Its namespaces can be imported.
    self._path = path
    self._target = target

  def __getattr__(self, name: str) -> Any:
    found = self._find(name)
    # Asked for once, found at once from now on.
    vars(self)[name] = found
    return found

  def _find(self, name: str) -> Any:
    if name == "__all__":
      return [one for one in dir(self) if not one.startswith("_")]
    path = f"{self._path}.{name}" if self._path else name
    try:
      return names.supplied(path)
    except KeyError:
      pass
    try:
      found = getattr(self._target, name)
    except AttributeError:
      raise AttributeError(names.advice(path)) from None
    if isinstance(found, types.ModuleType) and path not in _AS_IT_IS:
      return View(found, path)
    return found

  def __dir__(self) -> list[str]:
    return sorted({*dir(self._target), *names.below(self._path)})


# Not TensorFlow 1's.
_AS_IT_IS = ("compat.v2", "contrib")


def view_of_tensorflow(tensorflow: types.ModuleType) -> View:
  """Returns `tf` as 1.15 had it.

  Args:
    tensorflow: the module, with tf.estimator and tf.contrib.
  """
  view = View(tensorflow.compat.v1)
  vars(view.compat)["v1"] = view
  python = inside.Python(f"{ROOT}.python", view)
  vars(view).update(
    core=importlib.import_module("tensorflow.core"),
    python=python,
    pywrap_tensorflow=python.pywrap_tensorflow,
  )
  return view
