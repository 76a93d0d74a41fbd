"""Names that private modules of TensorFlow 1.15 had and today's have not.

Programs of that time took much from `tensorflow.python...`: `control_flow_ops.
cond`, `ops.Tensor`. Where TensorFlow has lost such a name it gets it again; one
that it has stays what it is. Tested on TensorFlow 2.15.1 and 2.21.0.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from compat import import_aliases

# By the place below tensorflow.python: where it is in tensorflow.compat.v1.
PUBLIC: Mapping[str, str] = {
  "data.ops.dataset_ops.Options": "data.Options",
  "distribute.distribute_lib.get_loss_reduction": (
    "distribute.get_loss_reduction"
  ),
  "eager.context.VirtualDeviceConfiguration": (
    "config.experimental.VirtualDeviceConfiguration"
  ),
  "framework.config.get_virtual_device_configuration": (
    "config.experimental.get_virtual_device_configuration"
  ),
  "framework.config.set_virtual_device_configuration": (
    "config.experimental.set_virtual_device_configuration"
  ),
  "framework.graph_util_impl.convert_variables_to_constants": (
    "graph_util.convert_variables_to_constants"
  ),
  "framework.ops.IndexedSlices": "IndexedSlices",
  "framework.ops.Tensor": "Tensor",
  "framework.ops.disable_tensor_equality": "disable_tensor_equality",
  "framework.ops.enable_tensor_equality": "enable_tensor_equality",
  "framework.ops.register_tensor_conversion_function": (
    "register_tensor_conversion_function"
  ),
  "ops.array_ops.stack": "stack",
  "ops.array_ops.unstack": "unstack",
  "ops.control_flow_ops.Assert": "Assert",
  "ops.control_flow_ops.case": "case",
  "ops.control_flow_ops.cond": "cond",
  "ops.control_flow_ops.switch_case": "switch_case",
  "ops.control_flow_ops.while_loop": "while_loop",
  "ops.math_ops.bincount_v1": "math.bincount",
  "ops.nn_impl.compute_average_loss": "nn.compute_average_loss",
  "ops.nn_impl.scale_regularization_loss": "nn.scale_regularization_loss",
  "ops.random_ops.random_crop": "image.random_crop",
  "ops.variable_scope.disable_resource_variables": (
    "disable_resource_variables"
  ),
  "ops.variable_scope.enable_resource_variables": "enable_resource_variables",
  "ops.variable_scope.resource_variables_enabled": (
    "resource_variables_enabled"
  ),
  "ops.variable_scope.variable": "Variable",
  "ops.variables.VariableV1": "Variable",
  "ops.variables.is_variable_initialized": "is_variable_initialized",
}

# By the place below tensorflow.python: "module:name" of what serves instead.
OTHER: Mapping[str, str] = {
  "framework.op_def_registry.get_registered_ops": (
    "compat.private.op_registry:registered_ops_by_name"
  ),
  "ops.variables.RefVariable": (
    "tensorflow.python.ops.ref_variable:RefVariable"
  ),
  "util.nest.is_sequence": "tensorflow.python.util.nest:is_nested",
}

# Modules of 1.15 that have gone elsewhere, whole.
MODULES: Mapping[str, str] = {
  # TensorFlow asks tf-keras for it by this name, which it never had.
  "tf_keras.legacy_tf_layers": "tf_keras.src.legacy_tf_layers",
}


def supply() -> None:
  """Gives the imported TensorFlow's private modules what they lack."""
  for name, target in MODULES.items():
    import_aliases.add(name, target)
  v1 = importlib.import_module("tensorflow").compat.v1
  for place, public in PUBLIC.items():
    _add(place, v1, public)
  for place, found in OTHER.items():
    module, _, name = found.partition(":")
    _add(place, importlib.import_module(module), name)


def _add(place: str, namespace: Any, path: str) -> None:
  """Puts what `path` leads to, from `namespace` on, at a place that is free."""
  module_name, _, name = place.rpartition(".")
  module = importlib.import_module(f"tensorflow.python.{module_name}")
  if hasattr(module, name):
    return
  for part in path.split("."):
    namespace = getattr(namespace, part)
  setattr(module, name, namespace)
