"""The names that the tensorflow-estimator wheel misses in TensorFlow.

The tensorflow-estimator 2.15.0 wheel uses private names of TensorFlow that
later releases removed. Each is listed here once, and is supplied only where
TensorFlow has none of its own; names.csv says which releases have it. Tested on
TensorFlow 2.15.1 and 2.21.0.
"""

import dataclasses
import importlib
import importlib.util
from typing import Any

from compat import import_aliases


@dataclasses.dataclass(frozen=True)
class SuppliedModule:
  """A private module of TensorFlow that compat stands in for.

  Attributes:
    name: its full name in TensorFlow.
    supplied_by: the module of compat to be found under that name.
    used_for: what the wheel does with it.
  """

  name: str
  supplied_by: str
  used_for: str


SUPPLIED_MODULES = (
  SuppliedModule(
    "tensorflow.python.distribute.estimator_training",
    "compat.private.supplied.estimator_training",
    "RunConfig, train, evaluate and train_and_evaluate under a "
    "tf.distribute.Strategy",
  ),
  SuppliedModule(
    "tensorflow.python.tpu.tpu_embedding",
    "compat.private.supplied.tpu_embedding",
    "TPUEstimator's embedding configuration",
  ),
  SuppliedModule(
    "tensorflow.python.tpu.tpu_embedding_gradient",
    "compat.private.supplied.tpu_embedding_gradient",
    "TPUEstimator's gradients of embeddings on a TPU",
  ),
  SuppliedModule(
    "tensorflow.python.tpu.session_support",
    "compat.private.supplied.session_support",
    "TPUEstimator's watch over TPU workers",
  ),
)


@dataclasses.dataclass(frozen=True)
class MovedName:
  """A public name of TensorFlow that programs take from a private module.

  Attributes:
    module: the private module's full name.
    name: the name that it no longer has.
    public: what it is in `tf`, with dots.
    used_for: which programs take it from there.
  """

  module: str
  name: str
  public: str
  used_for: str


MOVED_NAMES = (
  MovedName(
    "tensorflow.python.framework.ops",
    "register_tensor_conversion_function",
    "register_tensor_conversion_function",
    "mesh_tensorflow 0.1.21",
  ),
)

# tf_export.ESTIMATOR_API_NAME and its entries in API_ATTRS and API_ATTRS_V1:
# the wheel's @estimator_export decorator files its names under them.
TF_EXPORT = "tensorflow.python.util.tf_export"
ESTIMATOR_API_NAME = "estimator"

# Public in TensorFlow 2.15 as tf.compat.v1.tpu.experimental.*, gone since.
TPU_EXPERIMENTAL_NAMES = (
  "AdagradParameters",
  "AdamParameters",
  "FtrlParameters",
  "StochasticGradientDescentParameters",
)


def supply() -> None:
  """Supplies every private name that the imported TensorFlow lacks."""
  for module in SUPPLIED_MODULES:
    if importlib.util.find_spec(module.name) is None:
      import_aliases.add(module.name, module.supplied_by)
  for moved in MOVED_NAMES:
    _supply_moved_name(moved)
  _supply_estimator_api_name(importlib.import_module(TF_EXPORT))
  _supply_tpu_experimental()


def _supply_moved_name(moved: MovedName) -> None:
  module = importlib.import_module(moved.module)
  if hasattr(module, moved.name):
    return
  found: Any = importlib.import_module("tensorflow")
  for part in moved.public.split("."):
    found = getattr(found, part)
  setattr(module, moved.name, found)


def _supply_estimator_api_name(tf_export: Any) -> None:
  if hasattr(tf_export, "ESTIMATOR_API_NAME"):
    return
  attributes = type(tf_export.API_ATTRS[tf_export.TENSORFLOW_API_NAME])
  tf_export.API_ATTRS[ESTIMATOR_API_NAME] = attributes(
    "_estimator_api_names", "_estimator_api_constants"
  )
  tf_export.API_ATTRS_V1[ESTIMATOR_API_NAME] = attributes(
    "_estimator_api_names_v1", "_estimator_api_constants_v1"
  )
  tf_export.ESTIMATOR_API_NAME = ESTIMATOR_API_NAME


def _supply_tpu_experimental() -> None:
  tpu_embedding = importlib.import_module("tensorflow.python.tpu.tpu_embedding")
  namespace = importlib.import_module("tensorflow").compat.v1.tpu.experimental
  for name in TPU_EXPERIMENTAL_NAMES:
    if not hasattr(namespace, name):
      setattr(namespace, name, getattr(tpu_embedding, name))
