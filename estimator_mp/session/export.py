"""Export: SavedModels that serve on any machine, without the mesh.

A variable that is split over a `model` axis is whole there: `is_for_export`
says when to build the plain model. A graph that is to keep its split keeps its
devices as well (`keep_devices`).
"""

import functools
import inspect
import os
import types
from collections.abc import Callable
from typing import Any

from estimator_mp.config import files

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

_SAVED_MODEL = "saved_model.pb"
# A collection of graphs whose SavedModels keep the devices of ops.
_KEEPS_DEVICES = "estimator_mp/keeps_devices"
# The methods of an Estimator that build graphs; those that export say so.
METHODS = (
  "train",
  "evaluate",
  "predict",
  "export_saved_model",
  "export_savedmodel",
  "experimental_export_all_saved_models",
)


class _DevicelessSaver(tf.compat.v1.train.Saver):
  """A Saver whose meta graphs name no device."""

  def export_meta_graph(self, *args: Any, **kwargs: Any) -> Any:
    """As Saver's, with `clear_devices`."""
    return super().export_meta_graph(*args, **kwargs | {"clear_devices": True})


def is_for_export() -> bool:
  """Whether an Estimator calls its model_fn for a graph of a SavedModel.

  It tells it the mode only, which is that of prediction or another one. But it
  calls it from one of its methods, whoever has called that (such as an exporter
  in `train_and_evaluate`, while `train` goes on), so the stack tells.

  Returns:
    False in graphs that other methods build, or that no Estimator does.
  """
  exports = _exports_by_code()
  frame = inspect.currentframe()
  while frame is not None:
    if frame.f_code in exports:
      return exports[frame.f_code]
    frame = frame.f_back
  return False


@functools.cache
def _exports_by_code() -> dict[types.CodeType, bool]:
  """Returns whether methods export, by their code, as a stack has it."""
  owner = tf.compat.v1.estimator.Estimator
  return {
    inspect.unwrap(getattr(owner, name)).__code__: "export" in name
    for name in METHODS
  }


def keep_devices() -> None:
  """Lets SavedModels of the default graph keep the devices of ops.

  For a model that is to be served on several devices.
  """
  graph = tf.compat.v1.get_default_graph()
  if not graph.get_collection_ref(_KEEPS_DEVICES):
    graph.add_to_collection(_KEEPS_DEVICES, "yes")


def with_deviceless_export(
  spec: tf.estimator.EstimatorSpec,
) -> tf.estimator.EstimatorSpec:
  """Returns a spec whose exports name no device.

  Estimator, and every exporter, writes a SavedModel through the Saver of the
  spec's scaffold. A Saver that the model_fn chose itself is kept, and so are
  its devices; `export_saved_model` clears them. After `keep_devices` all are
  kept, and the Saver is there already, so that it can be split as well.

  Args:
    spec: The spec that a model_fn would return.

  Returns:
    The same spec; if it is for prediction or for an export in another mode,
    with a Saver in its scaffold.
  """
  if spec.mode != tf.estimator.ModeKeys.PREDICT and not is_for_export():
    return spec
  graph = tf.compat.v1.get_default_graph()
  if not _saveable_variables():
    return spec
  keeps_devices = bool(graph.get_collection_ref(_KEEPS_DEVICES))
  kind = tf.compat.v1.train.Saver if keeps_devices else _DevicelessSaver
  with_saver = functools.partial(_with_saver, kind)
  if hasattr(spec, "scaffold_fn"):  # TPUEstimatorSpec
    if spec.scaffold_fn is not None:
      return spec
    return spec._replace(scaffold_fn=with_saver)
  scaffold = spec.scaffold or tf.compat.v1.train.Scaffold()
  if scaffold.saver is not None:
    return spec
  return spec._replace(scaffold=with_saver(scaffold))


def _with_saver(
  kind: type[tf.compat.v1.train.Saver],
  scaffold: tf.compat.v1.train.Scaffold | None = None,
) -> tf.compat.v1.train.Scaffold:
  """Returns a copy of a scaffold that has no Saver, with one of a class."""
  return tf.compat.v1.train.Scaffold(
    saver=kind(sharded=True, save_relative_paths=True),
    copy_from_scaffold=scaffold,
  )


def _saveable_variables() -> bool:
  """Whether the default graph has anything to save."""
  keys = tf.compat.v1.GraphKeys
  graph = tf.compat.v1.get_default_graph()
  return any(
    graph.get_collection_ref(key)
    for key in (keys.GLOBAL_VARIABLES, keys.SAVEABLE_OBJECTS)
  )


def export_saved_model(
  estimator: tf.estimator.Estimator,
  export_dir_base: str,
  serving_input_receiver_fn: Callable[[], Any],
  **kwargs: Any,
) -> str:
  """Exports a sharded model as a SavedModel that needs no mesh.

  A model_fn that places ops itself, with `mesh.stage` or `tf.device`, has the
  device of every op in its SavedModels, which then load only where these
  devices are. This function clears them. The model_fns of `shard_model_fn` and
  of the factories need it only if they have a Saver of their own. Those of a
  model that keeps its split (`export_shards`) stay.

  Args:
    estimator: A trained Estimator.
    export_dir_base: The folder in which a folder named after the time is made.
    serving_input_receiver_fn: As for `Estimator.export_saved_model`.
    **kwargs: Further arguments of `Estimator.export_saved_model`.

  Returns:
    The path of the SavedModel.
  """
  exported = estimator.export_saved_model(
    export_dir_base, serving_input_receiver_fn, **kwargs
  )
  path: str = tf.compat.as_str(exported)
  graphs = read_saved_model(path).meta_graphs
  if not any(_KEEPS_DEVICES in graph.collection_def for graph in graphs):
    clear_devices(path)
  return path


def clear_devices(saved_model_dir: str) -> None:
  """Removes every device name from a SavedModel, in place.

  The new file replaces the old one in one step, so that a server that watches
  the folder never reads half a file.

  Args:
    saved_model_dir: The folder of the SavedModel.

  Raises:
    FileNotFoundError: If there is no saved_model.pb in the folder.
  """
  saved_model = read_saved_model(saved_model_dir)
  for meta_graph in saved_model.meta_graphs:
    graph = meta_graph.graph_def
    for node in graph.node:
      node.device = ""
    for function in graph.library.function:
      for node in function.node_def:
        node.device = ""
  content = saved_model.SerializeToString(deterministic=True)
  files.write_atomically(os.path.join(saved_model_dir, _SAVED_MODEL), content)


def read_saved_model(saved_model_dir: str) -> saved_model_pb2.SavedModel:
  """Returns the contents of the file of a SavedModel.

  Args:
    saved_model_dir: The folder of the SavedModel.

  Raises:
    FileNotFoundError: If there is no saved_model.pb in the folder.
  """
  path = os.path.join(saved_model_dir, _SAVED_MODEL)
  if not tf.io.gfile.exists(path):
    raise FileNotFoundError(
      f"{saved_model_dir} holds no {_SAVED_MODEL}; give the folder of a "
      "SavedModel"
    )
  saved_model = saved_model_pb2.SavedModel()
  with tf.io.gfile.GFile(path, "rb") as file:
    saved_model.ParseFromString(file.read())
  return saved_model
