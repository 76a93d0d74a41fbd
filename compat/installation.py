"""compat.install(): puts tf.estimator where TensorFlow 2.15 had it."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
import types
from collections.abc import Iterable, Sequence

from compat import (
  children,
  contrib_names,
  estimator_names,
  keras_advice,
  legacy_keras,
  versions,
)
from compat.private import missing_names
from compat.private.v1 import moved_names

_LOCK = threading.RLock()
_is_installed = False


def install(
  contrib: bool = False,
  v1: bool = False,
  *,
  v1_packages: Iterable[str] = (),
  v2_control_flow: bool = False,
  resource_variables: bool = False,
) -> None:
  """Makes tf.estimator and tf.compat.v1.estimator work.

  Call it before TensorFlow is first imported: it sets TF_USE_LEGACY_KERAS=1,
  so that tf.keras is Keras 2 (the tf-keras package), imports TensorFlow, and on
  TensorFlow 2.16 and later supplies what the tensorflow-estimator 2.15.0 wheel
  misses there. TensorFlow 2.15 has its own tf.estimator and is left as it is.

  Calling it again does nothing but add tf.contrib or the view of 1.15. It may
  be called from any thread. Processes that multiprocessing starts afresh have
  the same from their start.

  Args:
    contrib: whether the names of tf.contrib that Estimator programs use most
      come back too, on every TensorFlow; docs/migrating.md lists them.
    v1: whether the program's modules see TensorFlow 1.15's `tf`, contrib
      included, when they import tensorflow; docs/tensorflow1.md. Those are all
      modules that are not installed.
    v1_packages: installed packages and modules that belong to the program too.
    v2_control_flow: with v1, whether loops and conditions are those of 2.
    resource_variables: with v1, whether variables are those of 2.

  Raises:
    CompatError: if TensorFlow is older than 2.15, has already been imported
      with Keras 3 as tf.keras, or is 2.20 beside protobuf 7; or if tf-keras or
      tensorflow-estimator is not installed. The message says what to do.
  """
  v1_packages = tuple(v1_packages)
  imported_before = "tensorflow" in sys.modules
  if not imported_before:
    legacy_keras.choose_before_import()
    keras_advice.withhold_before_import()
  # Outside of the lock: another thread may be importing it, and wait for that.
  tensorflow = importlib.import_module("tensorflow")
  _install_into(tensorflow, imported_before)
  with _LOCK:
    if contrib or v1:
      contrib_names.supply(tensorflow)
      moved_names.supply()
      # Only now, as it imports TensorFlow.
      from compat.private import reference_variables

      reference_variables.supply_initialized_value()
    if v1:  # Only now: most programs do without.
      from compat.v1 import installation as v1_installation

      v1_installation.supply(
        tensorflow,
        v1_installation.Choices(
          v1_packages, v2_control_flow, resource_variables
        ),
      )
  children.also_call(
    _install_in_child,
    contrib,
    v1,
    v1_packages,
    v2_control_flow,
    resource_variables,
  )


def _install_in_child(
  contrib: bool,
  v1: bool,
  v1_packages: tuple[str, ...],
  v2_control_flow: bool,
  resource_variables: bool,
) -> None:
  if contrib or v1:
    install(
      contrib,
      v1,
      v1_packages=v1_packages,
      v2_control_flow=v2_control_flow,
      resource_variables=resource_variables,
    )
  else:
    install_when_imported()  # A child may do without TensorFlow.


def install_when_imported() -> None:
  """Makes tf.estimator work as soon as TensorFlow is imported.

  TensorFlow itself is not imported, which takes seconds, unless it already has
  been; it raises what `install` raises when it is.

  Raises:
    CompatError: as `install` does, if TensorFlow has already been imported.
  """
  if "tensorflow" in sys.modules:
    install()
  elif _FINDER not in sys.meta_path:
    legacy_keras.choose_before_import()
    sys.meta_path.insert(0, _FINDER)


class _InstallingFinder(importlib.abc.MetaPathFinder):
  """Finds TensorFlow as Python does, and installs once it is loaded."""

  def find_spec(
    self,
    fullname: str,
    path: Sequence[str] | None,
    target: types.ModuleType | None = None,
  ) -> importlib.machinery.ModuleSpec | None:
    """Returns how to import TensorFlow, or None for any other name."""
    if fullname != "tensorflow":
      return None
    sys.meta_path.remove(self)
    spec = importlib.util.find_spec(fullname)
    if spec is not None and spec.loader is not None:
      _install_after(spec.loader)
    return spec


_FINDER = _InstallingFinder()


def _install_after(loader: importlib.abc.Loader) -> None:
  """Lets the loader of one module install what is missing afterwards."""
  execute = loader.exec_module

  def exec_module(module: types.ModuleType) -> None:
    del vars(loader)["exec_module"]
    keras_advice.withhold_before_import()
    execute(module)
    _install_into(importlib.import_module("tensorflow"), imported_before=False)

  vars(loader)["exec_module"] = exec_module


def _install_into(tensorflow: types.ModuleType, imported_before: bool) -> None:
  """Makes tf.estimator work, once.

  Args:
    tensorflow: the module.
    imported_before: whether it chose its Keras without us.
  """
  global _is_installed
  with _LOCK:
    if _is_installed:
      return
    versions.check_supported(tensorflow.__version__)
    versions.warn_of_untested(tensorflow.__version__)
    legacy_keras.check_chosen(tensorflow, imported_before)
    versions.check_protobuf(tensorflow.__version__)
    if not versions.has_own_estimator(tensorflow.__version__):
      estimator_names.check_wheel()
      missing_names.supply()
      estimator_names.supply(tensorflow)
    keras_advice.withhold()
    _is_installed = True
