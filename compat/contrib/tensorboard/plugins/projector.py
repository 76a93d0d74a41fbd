"""Names of tf.contrib.tensorboard.plugins.projector, by TensorBoard's own.

It is imported when a name is first used: programs import this module also when
they show no embeddings, and TensorFlow 2.21 installs no TensorBoard.
"""

import importlib
from typing import Any

from compat.contrib import absent

_NAMES = (
  "EmbeddingInfo",
  "ProjectorConfig",
  "SpriteMetadata",
  "visualize_embeddings",
)

_absent = absent.getter(__name__)


def __getattr__(name: str) -> Any:
  if name not in _NAMES:
    return _absent(name)
  try:
    return getattr(
      importlib.import_module("tensorboard.plugins.projector"), name
    )
  except ImportError as error:
    raise ImportError(
      f"tf.contrib.tensorboard.plugins.projector.{name} needs the package "
      "tensorboard: pip install tensorboard"
    ) from error


def __dir__() -> list[str]:
  return list(_NAMES)
