"""compat.install(): puts tf.estimator where TensorFlow 2.15 had it."""

import importlib
import sys
import threading
import types

from compat import (
  contrib_names,
  estimator_names,
  legacy_keras,
  private_names,
  versions,
)

_LOCK = threading.RLock()
_installed_into: types.ModuleType | None = None


def install(contrib: bool = False) -> None:
  """Makes tf.estimator and tf.compat.v1.estimator work.

  Call it before TensorFlow is first imported: it sets TF_USE_LEGACY_KERAS=1,
  so that tf.keras is Keras 2 (the tf-keras package), imports TensorFlow, and on
  TensorFlow 2.16 and later supplies what the tensorflow-estimator 2.15.0 wheel
  misses there. TensorFlow 2.15 has its own tf.estimator and is left as it is.

  Calling it again does nothing but add tf.contrib. It may be called from any
  thread.

  Args:
    contrib: whether the names of tf.contrib that Estimator programs use most
      come back too, on every TensorFlow; docs/migrating.md lists them.

  Raises:
    CompatError: if TensorFlow is older than 2.15, has already been imported
      with Keras 3 as tf.keras, or is 2.20 beside protobuf 7; or if tf-keras or
      tensorflow-estimator is not installed. The message says what to do.
  """
  global _installed_into
  with _LOCK:
    if _installed_into is None:
      _installed_into = _install_estimator()
    if contrib:
      contrib_names.supply(_installed_into)


def _install_estimator() -> types.ModuleType:
  """Makes tf.estimator work, and returns TensorFlow."""
  imported_before = "tensorflow" in sys.modules
  if not imported_before:
    legacy_keras.choose_before_import()
  tensorflow = importlib.import_module("tensorflow")
  versions.check_supported(tensorflow.__version__)
  legacy_keras.check_chosen(tensorflow, imported_before)
  versions.check_protobuf(tensorflow.__version__)
  if not versions.has_own_estimator(tensorflow.__version__):
    estimator_names.check_wheel()
    private_names.supply()
    estimator_names.supply(tensorflow)
  return tensorflow
