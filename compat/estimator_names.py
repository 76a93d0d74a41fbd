"""The public names of tf.estimator, and the paths it is imported by."""

import importlib.util
import types
from typing import Any

from compat import import_aliases
from compat.errors import CompatError
from compat.lazy_module import LazyModule
from compat.private import wheel

WHEEL = "tensorflow-estimator"
WHEEL_VERSION = "2.15.0"

# Where TensorFlow 2.15 has an attribute `estimator`, and which API it gives.
_NAMESPACES = {
  "": wheel.V2,
  "compat.v1": wheel.V1,
  "compat.v1.compat.v1": wheel.V1,
  "compat.v1.compat.v2": wheel.V2,
  "compat.v2": wheel.V2,
  "compat.v2.compat.v1": wheel.V1,
  "compat.v2.compat.v2": wheel.V2,
}


def check_wheel() -> None:
  """Checks that the wheel that implements tf.estimator is installed.

  Raises:
    CompatError: if tensorflow-estimator is missing or of another version.
  """
  from importlib import metadata  # Only now: it takes 0.05 s.

  advice = f"Install it with: pip install {WHEEL}=={WHEEL_VERSION}."
  try:
    found = metadata.version(WHEEL)
  except metadata.PackageNotFoundError:
    if importlib.util.find_spec("tensorflow_estimator"):
      return  # Put on the path by other means than a package manager.
    raise CompatError(
      f"{WHEEL} is not installed; tf.estimator is implemented there. {advice}"
    ) from None
  if found != WHEEL_VERSION:
    raise CompatError(
      f"{WHEEL} is of version {found}; compat works with {WHEEL_VERSION}, the "
      f"last one. {advice}"
    )


def supply(tensorflow: types.ModuleType) -> None:
  """Adds tf.estimator and its other import paths to TensorFlow.

  Args:
    tensorflow: the module, of a version that has no tf.estimator.
  """
  stand_ins = {
    wheel.V1: LazyModule("tensorflow.compat.v1.estimator", wheel.V1),
    wheel.V2: LazyModule("tensorflow.estimator", wheel.V2),
  }
  for path, target in _NAMESPACES.items():
    namespace: Any = tensorflow
    for part in filter(None, path.split(".")):
      namespace = getattr(namespace, part)
    namespace.estimator = stand_ins[target]
  for alias, target in wheel.MODULES.items():
    import_aliases.add(alias, target)
