"""Tells TensorBoard's projector which embeddings to show.

The messages are those of the package tensorboard.
"""

import os
from typing import Any

from compat.contrib import absent

import tensorflow as tf

__path__: list[str] = []
_absent = absent.getter(__name__)

_MESSAGES = ("EmbeddingInfo", "ProjectorConfig", "SpriteMetadata")


def __getattr__(name: str) -> Any:
  if name not in _MESSAGES:
    return _absent(name)
  try:
    from tensorboard.plugins import projector
  except ImportError as error:
    raise ImportError(
      f"tf.contrib.tensorboard.plugins.projector.{name} is the package "
      "tensorboard's: pip install tensorboard"
    ) from error
  return getattr(projector, name)


def visualize_embeddings(summary_writer: Any, config: Any) -> None:
  """Writes what the projector shows beside the summaries.

  Args:
    summary_writer: a tf.summary.FileWriter.
    config: a ProjectorConfig.

  Raises:
    ValueError: if the writer has no folder.
  """
  folder = summary_writer.get_logdir()
  if folder is None:
    raise ValueError("summary_writer has no folder; give it a logdir.")
  path = os.path.join(tf.compat.as_str_any(folder), "projector_config.pbtxt")
  with tf.io.gfile.GFile(path, "w") as file:
    file.write(str(config))
