"""`tensorflow.python` for a TensorFlow 1 program, with the Keras that it sees.

TensorFlow still has a copy of an old Keras in `tensorflow.python.keras`, whose
layers and cells are not those of `tf.keras`, `tf.layers` and `tf.nn.rnn_cell`.
A program gets the latter by all names.
Tested on TensorFlow 2.15.1 and 2.21.0, tf-keras 2.15.1 and 2.21.0.
"""

import importlib
import importlib.util
import types
from collections.abc import Iterator, Mapping
from typing import Any

_REAL = "tensorflow.python"

# Where files of 1.15's Keras are in tf-keras, by the path below `keras`.
_MOVED: Mapping[str, str] = {
  "engine.network": "engine.functional",
  "layers.advanced_activations": "layers.activation",
  "layers.convolutional_recurrent": "layers.rnn",
  "layers.cudnn_recurrent": "layers.rnn",
  "layers.dense_attention": "layers.attention",
  "layers.embeddings": "layers.core",
  "layers.local": "layers.locally_connected",
  "layers.merge": "layers.merging",
  "layers.normalization_v2": "layers.normalization",
  "layers.recurrent": "layers.rnn",
  "layers.recurrent_v2": "layers.rnn",
  "layers.rnn_cell_wrapper_v2": "layers.rnn.cell_wrappers",
  "layers.wrappers": "layers.rnn",
  "optimizer_v2": "optimizers.legacy",
  "optimizer_v2.learning_rate_schedule": (
    "optimizers.schedules.learning_rate_schedule"
  ),
  "optimizer_v2.optimizer_v2": "optimizers.legacy.optimizer_v2",
  "premade": "premade_models",
  "saving.hdf5_format": "saving.legacy.hdf5_format",
  "saving.model_config": "saving.legacy.model_config",
  "saving.save": "saving.legacy.save",
  "saving.saved_model": "saving.legacy.saved_model",
  "saving.saving_utils": "saving.legacy.saving_utils",
}


_CELLS = ("nn.rnn_cell", "layers.rnn.legacy_cells")

# Where classes of tf.layers and tf.nn.rnn_cell were, by the path below
# tensorflow.python: their namespace, and the file of tf-keras.
_TWINS: Mapping[str, tuple[str, str]] = {
  "layers.base": ("layers", "legacy_tf_layers.base"),
  "layers.convolutional": ("layers", "legacy_tf_layers.convolutional"),
  "layers.core": ("layers", "legacy_tf_layers.core"),
  "layers.layers": ("layers", "legacy_tf_layers"),
  "layers.normalization": ("layers", "legacy_tf_layers.normalization"),
  "layers.pooling": ("layers", "legacy_tf_layers.pooling"),
  "ops.rnn_cell": _CELLS,
  "ops.rnn_cell_impl": _CELLS,
}


class Python(types.ModuleType):
  """tensorflow.python or a package below it, but for what Keras serves."""

  def __init__(self, name: str, view: Any, path: str = ""):
    """Makes the module.

    Args:
      name: what it is called among Python's modules.
      view: what the program sees as `tf`.
      path: which it is, below tensorflow.python.
    """
    super().__init__(name, "TensorFlow's insides, as a program sees them.")
    self.__path__: list[str] = []
    self._view = view
    self._path = path

  def __getattr__(self, name: str) -> Any:
    if name == "__all__":
      return [one for one in dir(self) if not one.startswith("_")]
    if name.startswith("__"):
      raise AttributeError(name)
    below = f"{self._path}.{name}".lstrip(".")
    found = self._made(name, below)
    if found is not None:
      vars(self)[name] = found
      return found
    for source in self._sources():
      if hasattr(source, name):
        return getattr(source, name)
    module = _imported(f"{_REAL}.{below}")
    if module is None:
      raise AttributeError(f"tensorflow.python has no {below}")
    return module

  def _made(self, name: str, below: str) -> types.ModuleType | None:
    """Returns a module of ours, or None for one that is as it is."""
    if below == "keras":
      return Keras(f"{self.__name__}.keras", self._view.keras)
    if any(f"{twin}.".startswith(f"{below}.") for twin in _TWINS):
      return Python(f"{self.__name__}.{name}", self._view, below)
    return None

  def _sources(self) -> Iterator[Any]:
    """Returns where names are, the program's `tf` before all others."""
    if self._path in _TWINS:
      namespace, file = _TWINS[self._path]
      found = self._view
      for part in namespace.split("."):
        found = getattr(found, part)
      yield found
      yield _imported(f"{_files_of(self._view.keras)}.{file}")
    yield _imported(f"{_REAL}.{self._path}".rstrip("."))

  def __dir__(self) -> list[str]:
    return sorted({name for one in self._sources() for name in dir(one)})


class Keras(types.ModuleType):
  """tensorflow.python.keras, or a module below it.

  A name is looked up in what the program sees as tf.keras, there and above,
  then in the files of tf-keras.
  """

  def __init__(
    self,
    name: str,
    keras: types.ModuleType | None,
    above: "Keras | None" = None,
  ):
    """Makes the module.

    Args:
      name: what it is called among Python's modules.
      keras: the namespace of tf.keras of this name, if it has one.
      above: the module above, if it is below tensorflow.python.keras.
    """
    super().__init__(name, "Keras, as a program of TensorFlow 1 sees it.")
    self.__path__: list[str] = []
    self._namespace = keras
    self._above = above
    self._files: str = above._files if above is not None else _files_of(keras)
    path = name.partition("keras")[2].removeprefix(".")
    path = f"{self._files}.{_MOVED.get(path, path)}".rstrip(".")
    self._file = _imported(path)

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):
      raise AttributeError(name)
    below = self._below(name)
    if below is not None:
      return below
    for source in self._sources():
      found = getattr(source, name, None)
      if found is not None and not isinstance(found, types.ModuleType):
        return found
    for source in self._sources():  # `utils.np` and the like.
      if hasattr(source, name):
        return getattr(source, name)
    raise AttributeError(
      f"{self.__name__.partition('.')[2]} of TensorFlow 1.15 had no {name}, or "
      "tf-keras no longer has it. Use public names of tf.keras."
    )

  def _sources(self) -> Iterator[Any]:
    """Returns where names are: public ones first, of this module and above."""
    modules: list[Keras] = [self]
    while modules[-1]._above is not None:
      modules.append(modules[-1]._above)
    yield from filter(None, (one._namespace for one in modules))
    yield from filter(None, (one._file for one in modules))

  def _below(self, name: str) -> "Keras | None":
    """Returns the module of that name, if there is one."""
    namespace = getattr(self._namespace, name, None)
    if not isinstance(namespace, types.ModuleType):
      namespace = None
    made = Keras(f"{self.__name__}.{name}", namespace, self)
    if namespace is None and made._file is None:
      return None
    vars(self)[name] = made
    return made


def _files_of(keras: Any) -> str:
  """Returns the package with the files of Keras: tf_keras.src, keras.src."""
  module = str(keras.layers.Layer.__module__)
  return f"{module.partition('.')[0]}.src"


def _imported(name: str) -> types.ModuleType | None:
  """Returns a module, or None if there is none of that name."""
  try:
    if importlib.util.find_spec(name) is None:
      return None
  except ModuleNotFoundError:
    return None
  return importlib.import_module(name)
