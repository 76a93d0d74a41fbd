"""Runs a module of tests on a TensorFlow that does not look for tf-keras.

    python -m tests.compat.mounted_keras tests.compat.v1.golden_test

From 2.16 on TF_USE_LEGACY_KERAS=1 lets TensorFlow take `tf.keras`, `tf.layers`
and the cells of `tf.nn.rnn_cell` from tf-keras. Here it is told not to, as if
it no longer could, and they are put into their places by hand: `tf.layers` is
what `tf_keras.src.legacy_tf_layers` exports. docs/tf_keras.md has the results.
"""

import importlib
import os
import runpy
import sys
from typing import Any

_V1, _V2 = "tf_keras.api._v1", "tf_keras.api._v2"
# By the place in TensorFlow: where it is in tf-keras.
PLACES = {
  "keras": f"{_V2}.keras",
  "initializers": f"{_V2}.keras.initializers",
  "losses": f"{_V2}.keras.losses",
  "metrics": f"{_V2}.keras.metrics",
  "optimizers": f"{_V2}.keras.optimizers",
  "compat.v1.keras": f"{_V1}.keras",
  "compat.v1.layers": f"{_V1}.keras.__internal__.legacy.layers",
  "compat.v1.nn.rnn_cell": f"{_V1}.keras.__internal__.legacy.rnn_cell",
  "compat.v2.keras": f"{_V2}.keras",
}
# Where modules below `tensorflow.keras` and the like are imported from.
FOLDERS = {"": _V2, "compat.v1": _V1, "compat.v2": _V2}


def mount() -> None:
  """Imports TensorFlow, and puts tf-keras into it."""
  os.environ["TF_USE_LEGACY_KERAS"] = "0"
  tf: Any = importlib.import_module("tensorflow")
  for place, module in PLACES.items():
    parent, _, name = place.rpartition(".")
    setattr(_below(tf, parent), name, importlib.import_module(module))
  for place, module in FOLDERS.items():
    namespace = _below(tf, place)
    folder = importlib.import_module(module).__path__[0]
    namespace.__path__ = [folder, *namespace.__path__]
  tf._tf_uses_legacy_keras = True


def _below(namespace: Any, path: str) -> Any:
  for name in filter(None, path.split(".")):
    namespace = getattr(namespace, name)
  return namespace


if __name__ == "__main__":
  mount()
  sys.argv = sys.argv[1:]
  runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
