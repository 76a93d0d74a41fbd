"""A stage in this process: its SavedModel in a session."""

from collections.abc import Callable, Mapping
from typing import Any

from estimator_mp.serving import pipeline_file

import tensorflow as tf

v1 = tf.compat.v1
_SERVE = "serve"


class StageRunner:
  """Computes one stage.

  Attributes:
    description: What the folder of the stage says that it is.
  """

  def __init__(self, folder: str):
    """Loads the SavedModel.

    Args:
      folder: The folder of the stage.

    Raises:
      ValueError: If it is no folder of a stage, or cannot be loaded.
    """
    self.description = pipeline_file.read_stage(folder)
    config = v1.ConfigProto(
      device_count={"CPU": self.description["devices"]},
      allow_soft_placement=self.description["devices"] == 1,
    )
    self._session = v1.Session(graph=tf.Graph(), config=config)
    try:
      with self._session.graph.as_default():
        loaded = v1.saved_model.load(self._session, [_SERVE], folder)
    except (OSError, RuntimeError, tf.errors.OpError) as error:
      raise ValueError(f"{folder} cannot be loaded: {error}") from error
    self._signatures = dict(loaded.signature_def)
    self._callables: dict[str, Callable[..., Any]] = {
      name: self._session.make_callable(
        [x.name for _, x in sorted(signature.outputs.items())],
        feed_list=[x.name for _, x in sorted(signature.inputs.items())],
      )
      for name, signature in self._signatures.items()
    }

  def run(self, signature: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a signature gives, as arrays.

    Args:
      signature: Its name.
      inputs: An array for each of its inputs.

    Raises:
      ValueError: If there is no such signature, or the inputs are not its own.
      tf.errors.OpError: If an op fails.
    """
    definition = self._signatures.get(signature)
    if definition is None:
      known = ", ".join(sorted(self._signatures))
      raise ValueError(f"{signature!r} is no signature; there are {known}")
    if set(definition.inputs) != set(inputs):
      raise ValueError(
        f"{signature} takes {', '.join(sorted(definition.inputs))}, but was "
        f"given {', '.join(sorted(inputs))}"
      )
    found = self._callables[signature](*(inputs[x] for x in sorted(inputs)))
    return dict(zip(sorted(definition.outputs), found, strict=True))

  def close(self) -> None:
    """Ends the session."""
    self._session.close()
