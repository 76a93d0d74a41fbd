"""Names that private modules of TensorFlow 1.15 had and today's have not.

Programs of that time took much from `tensorflow.python...`: `control_flow_ops.
cond`, `ops.Tensor`. Where TensorFlow has lost such a name it gets it again; one
that it has stays what it is, but for the cells (CELLS). Tested on TensorFlow
2.15.1 and 2.21.0.
"""

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

from compat import import_aliases

_INSIDES = "tensorflow.python"
_OLD = "compat.private.v1.old_functions"

# By the place below tensorflow.python: where it is in tensorflow.compat.v1.
PUBLIC: Mapping[str, str] = {
  "data.ops.dataset_ops.Options": "data.Options",
  "distribute.distribute_lib.get_loss_reduction": (
    "distribute.get_loss_reduction"
  ),
  "eager.context.VirtualDeviceConfiguration": (
    "config.experimental.VirtualDeviceConfiguration"
  ),
  "feature_column.feature_column_lib.DenseFeatures": (
    "keras.layers.DenseFeatures"
  ),
  "framework.config.get_virtual_device_configuration": (
    "config.experimental.get_virtual_device_configuration"
  ),
  "framework.config.set_virtual_device_configuration": (
    "config.experimental.set_virtual_device_configuration"
  ),
  "framework.graph_util.convert_variables_to_constants": (
    "graph_util.convert_variables_to_constants"
  ),
  "framework.graph_util_impl.convert_variables_to_constants": (
    "graph_util.convert_variables_to_constants"
  ),
  "framework.ops.IndexedSlices": "IndexedSlices",
  "framework.ops.Tensor": "Tensor",
  "framework.ops.convert_to_tensor_or_indexed_slices": (
    "convert_to_tensor_or_indexed_slices"
  ),
  "framework.ops.disable_tensor_equality": "disable_tensor_equality",
  "framework.ops.enable_tensor_equality": "enable_tensor_equality",
  "framework.ops.register_tensor_conversion_function": (
    "register_tensor_conversion_function"
  ),
  "layers.layers.BatchNormalization": "layers.BatchNormalization",
  "layers.layers.InputSpec": "layers.InputSpec",
  "layers.layers.batch_normalization": "layers.batch_normalization",
  "ops.array_ops.stack": "stack",
  "ops.array_ops.unstack": "unstack",
  "ops.control_flow_ops.Assert": "Assert",
  "ops.control_flow_ops.case": "case",
  "ops.control_flow_ops.cond": "cond",
  "ops.control_flow_ops.switch_case": "switch_case",
  "ops.control_flow_ops.while_loop": "while_loop",
  "ops.math_ops.bincount_v1": "math.bincount",
  "ops.nn.bidirectional_dynamic_rnn": "nn.bidirectional_dynamic_rnn",
  "ops.nn.dynamic_rnn": "nn.dynamic_rnn",
  "ops.nn.raw_rnn": "nn.raw_rnn",
  "ops.nn.static_rnn": "nn.static_rnn",
  "ops.nn.static_state_saving_rnn": "nn.static_state_saving_rnn",
  "ops.nn_impl.compute_average_loss": "nn.compute_average_loss",
  "ops.nn_impl.scale_regularization_loss": "nn.scale_regularization_loss",
  "ops.random_ops.random_crop": "image.random_crop",
  "ops.standard_ops.random_crop": "image.random_crop",
  "ops.standard_ops.stack": "stack",
  "ops.standard_ops.unstack": "unstack",
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
  "pywrap_tensorflow.IsGoogleCudaEnabled": "test.is_built_with_cuda",
  "pywrap_tensorflow.NewCheckpointReader": "train.NewCheckpointReader",
}

# By the place below tensorflow.python: "module:name" of what serves instead.
OTHER: Mapping[str, str] = {
  "framework.op_def_registry.get_registered_ops": (
    "compat.private.op_registry:registered_ops_by_name"
  ),
  "framework.tensor_shape.matrix": f"{_OLD}:matrix",
  "framework.tensor_shape.scalar": f"{_OLD}:scalar",
  "framework.tensor_shape.vector": f"{_OLD}:vector",
  "util.tf_export.estimator_export": (
    "tensorflow_estimator.python.estimator.estimator_export:estimator_export"
  ),
}

# The same, where both are below tensorflow.python.
ELSEWHERE: Mapping[str, str] = {
  "data.util.nest.is_sequence": "data.util.nest:is_nested",
  "eager.function.defun": "eager.def_function:function",
  "eager.tape.could_possibly_record": "eager.record:could_possibly_record",
  "eager.tape.record_operation": "eager.record:record_operation",
  "eager.tape.stop_recording": "eager.record:stop_recording",
  "framework.ops.IndexedSlicesValue": (
    "framework.indexed_slices:IndexedSlicesValue"
  ),
  "framework.ops.convert_n_to_tensor_or_indexed_slices": (
    "framework.indexed_slices:convert_n_to_tensor_or_indexed_slices"
  ),
  "framework.ops.convert_to_tensor_v2": (
    "framework.tensor_conversion:convert_to_tensor_v2"
  ),
  "framework.ops.default_session": "framework.stack:default_session",
  "framework.ops.internal_convert_n_to_tensor_or_indexed_slices": (
    "framework.indexed_slices:internal_convert_n_to_tensor_or_indexed_slices"
  ),
  "framework.ops.internal_convert_to_tensor_or_indexed_slices": (
    "framework.indexed_slices:internal_convert_to_tensor_or_indexed_slices"
  ),
  "framework.tensor_util.maybe_set_static_shape": (
    "ops.shape_util:maybe_set_static_shape"
  ),
  "framework.tensor_util.shape_tensor": "ops.shape_util:shape_tensor",
  "ops.control_flow_ops.case_v2": "ops.control_flow_case:case_v2",
  "ops.control_flow_ops.cond_for_tf_v2": "ops.cond:cond_for_tf_v2",
  "ops.control_flow_ops.while_loop_v2": "ops.while_loop:while_loop_v2",
  "ops.custom_gradient.copy_handle_data": (
    "ops.handle_data_util:copy_handle_data"
  ),
  "ops.functional_ops.partitioned_call": (
    "ops.gen_functional_ops:partitioned_call"
  ),
  "ops.gradients_util.FuncGraph": "framework.func_graph:FuncGraph",
  "ops.gradients_util.IsTrainable": "eager.backprop_util:IsTrainable",
  "ops.variable_scope.default_variable_creator": (
    "ops.variable_v1:default_variable_creator"
  ),
  "ops.variables.RefVariable": "ops.ref_variable:RefVariable",
  "pywrap_tensorflow.EventsWriter": (
    "client._pywrap_events_writer:EventsWriter"
  ),
  "saved_model.utils_impl.get_assets_dir": (
    "saved_model.path_helpers:get_assets_dir"
  ),
  "saved_model.utils_impl.get_or_create_assets_dir": (
    "saved_model.path_helpers:get_or_create_assets_dir"
  ),
  "saved_model.utils_impl.get_or_create_variables_dir": (
    "saved_model.path_helpers:get_or_create_variables_dir"
  ),
  "saved_model.utils_impl.get_variables_dir": (
    "saved_model.path_helpers:get_variables_dir"
  ),
  "saved_model.utils_impl.get_variables_path": (
    "saved_model.path_helpers:get_variables_path"
  ),
  "util.nest.is_sequence": "util.nest:is_nested",
}

# Modules of 1.15 that have gone elsewhere, whole.
MODULES: Mapping[str, str] = {
  # TensorFlow asks tf-keras for it by this name, which it never had.
  "tf_keras.legacy_tf_layers": "tf_keras.src.legacy_tf_layers",
  **{
    f"tensorflow.python.{name}": f"tensorflow.python.{now}"
    for name, now in {
      "distribute.distribution_strategy_context": "distribute.distribute_lib",
      "training.distribution_strategy_context": "distribute.distribute_lib",
      "training.saving.functional_saver": "checkpoint.functional_saver",
      "training.tracking": "trackable",
      # Below the name that training.tracking has today, for `from` imports.
      "trackable.graph_view": "checkpoint.graph_view",
      "trackable.tracking": "trackable.autotrackable",
      "trackable.util": "checkpoint.checkpoint",
      "training.training_ops": "ops.gen_training_ops",
    }.items()
  },
  "tensorflow.python.platform.parameterized": "absl.testing.parameterized",
}

# What `rnn_cell_impl` has of these today are twins of another Keras, and no
# cell of `tf.nn.rnn_cell` is an instance of them. TensorFlow uses none of them.
CELLS = (
  "BasicLSTMCell",
  "BasicRNNCell",
  "DeviceWrapper",
  "DropoutWrapper",
  "GRUCell",
  "LSTMCell",
  "LSTMStateTuple",
  "MultiRNNCell",
  "RNNCell",
  "ResidualWrapper",
)


def supply() -> None:
  """Gives the imported TensorFlow's private modules what they lack."""
  for name, target in MODULES.items():
    if not _exists(name):
      import_aliases.add(name, target)
  v1 = importlib.import_module("tensorflow").compat.v1
  for place, public in PUBLIC.items():
    _add(place, v1, public)
  for place, found in OTHER.items():
    module, _, name = found.partition(":")
    _add(place, importlib.import_module(module), name)
  for place, found in ELSEWHERE.items():
    module, _, name = found.partition(":")
    _add(place, importlib.import_module(f"{_INSIDES}.{module}"), name)
  _supply_cells(v1.nn.rnn_cell)


def _supply_cells(public: Any) -> None:
  for name in ("rnn_cell", "rnn_cell_impl"):
    module: Any = importlib.import_module(f"{_INSIDES}.ops.{name}")
    for cell in CELLS:
      setattr(module, cell, getattr(public, cell))
    # The cells that make their variables in `build`; it has no public name.
    module.LayerRNNCell = public.BasicRNNCell.__base__


def _exists(module: str) -> bool:
  try:
    return importlib.util.find_spec(module) is not None
  except ModuleNotFoundError:
    return False


def _add(place: str, namespace: Any, path: str) -> None:
  """Puts what `path` leads to, from `namespace` on, at a place that is free."""
  module_name, _, name = place.rpartition(".")
  module = importlib.import_module(f"{_INSIDES}.{module_name}")
  if hasattr(module, name):
    return
  for part in path.split("."):
    namespace = getattr(namespace, part)
  setattr(module, name, namespace)
