"""Chooses Keras 2 (the tf-keras package) as tf.keras, as Estimator needs.

TensorFlow decides which Keras is `tf.keras` once, while it is imported, by the
environment variable TF_USE_LEGACY_KERAS.
"""

import importlib.util
import os
import types

from compat import versions
from compat.errors import CompatError
from compat.private import keras

VARIABLE = "TF_USE_LEGACY_KERAS"
# Its newest release, which has the (major, minor) of TensorFlow's.
NEWEST = (2, 21)
# The values that TensorFlow itself takes for a yes.
YES = ("1", "true", "True")


def choose_before_import() -> None:
  """Sets TF_USE_LEGACY_KERAS=1, unless the user has set it or lacks tf-keras.

  To be called before TensorFlow is imported. A missing tf-keras is no error
  yet: TensorFlow 2.15 does without it.
  """
  if not os.environ.get(VARIABLE) and importlib.util.find_spec("tf_keras"):
    os.environ[VARIABLE] = "1"


def check_chosen(tensorflow: types.ModuleType, imported_before: bool) -> None:
  """Checks that the tf.keras of an imported TensorFlow is tf-keras.

  Args:
    tensorflow: the module.
    imported_before: whether TensorFlow was imported before compat.install().

  Raises:
    CompatError: if TensorFlow (2.16 or later) has taken Keras 3, or tf-keras
      is not installed.
  """
  version = tensorflow.__version__
  if versions.has_own_estimator(version):
    return
  if importlib.util.find_spec("tf_keras") is None:
    raise CompatError(
      f"tf-keras is not installed; tf.estimator on TensorFlow {version} needs "
      f"it. Install it with: pip install {_options_of_pip(version)}."
    )
  if keras.uses_legacy_keras(tensorflow):
    return
  if imported_before:
    raise CompatError(
      "compat.install() came too late: TensorFlow was imported before it and "
      "has taken Keras 3 as tf.keras; tf.estimator needs Keras 2. Call "
      "compat.install() before the first import of tensorflow, or set "
      f"{VARIABLE}=1 in the environment."
    )
  raise CompatError(
    f"{VARIABLE}={os.environ.get(VARIABLE)!r} chooses Keras 3 as tf.keras; "
    f"tf.estimator needs Keras 2. Unset {VARIABLE} or set it to 1."
  )


def _options_of_pip(version: str) -> str:
  """Returns what installs the tf-keras for a TensorFlow."""
  major, minor = min(versions.parse(version), NEWEST)
  keras = f"'tf-keras=={major}.{minor}.*'"
  # It asks for the TensorFlow of its own release, but runs on later ones.
  return keras if versions.parse(version) <= NEWEST else f"--no-deps {keras}"
