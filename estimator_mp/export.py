"""Export: SavedModels that serve on any machine, without the mesh."""

import os

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

_SAVED_MODEL = "saved_model.pb"


def export_saved_model(
  estimator: tf.estimator.Estimator,
  export_dir_base: str,
  serving_input_receiver_fn,
  **kwargs,
) -> str:
  """Exports a sharded model as a SavedModel that needs no mesh.

  `Estimator.export_saved_model` keeps the device of every op, so that the
  SavedModel of a model on three devices loads only where three devices are.
  This one clears the devices.

  Args:
    estimator: A trained Estimator.
    export_dir_base: The folder in which a folder named after the time is made.
    serving_input_receiver_fn: As for `Estimator.export_saved_model`.
    **kwargs: Further arguments of `Estimator.export_saved_model`.

  Returns:
    The path of the SavedModel.
  """
  path = estimator.export_saved_model(
    export_dir_base, serving_input_receiver_fn, **kwargs
  )
  path = tf.compat.as_str(path)
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
  path = os.path.join(saved_model_dir, _SAVED_MODEL)
  if not tf.io.gfile.exists(path):
    raise FileNotFoundError(
      f"{saved_model_dir} holds no {_SAVED_MODEL}; give the folder of a "
      "SavedModel"
    )
  saved_model = saved_model_pb2.SavedModel()
  with tf.io.gfile.GFile(path, "rb") as file:
    saved_model.ParseFromString(file.read())
  for meta_graph in saved_model.meta_graphs:
    graph = meta_graph.graph_def
    for node in graph.node:
      node.device = ""
    for function in graph.library.function:
      for node in function.node_def:
        node.device = ""
  temporary = path + ".without_devices"
  with tf.io.gfile.GFile(temporary, "wb") as file:
    file.write(saved_model.SerializeToString(deterministic=True))
  tf.io.gfile.rename(temporary, path, overwrite=True)
