"""Names of tf.contrib that TensorFlow has kept, in its private modules.

By the module of tf.contrib, and the name: where TensorFlow has it, as
"module:name". Each is what 1.15 had; tests/compat/v1/names compares arguments
with 1.15's, on TensorFlow 2.15.1 and 2.21.0.
"""

from collections.abc import Mapping

_BACKPROP = "tensorflow.python.eager.backprop"
_CHECKPOINT = "tensorflow.python.checkpoint.checkpoint"
_CONTEXT = "tensorflow.python.eager.context"
_STRATEGIES = "tensorflow.python.distribute.distribute_lib"
_STEPS = "tensorflow.python.distribute.step_fn"
_STRUCTURES = "tensorflow.python.trackable.data_structures"
_TESTS = "tensorflow.python.framework.test_util"
_LOOPS = "tensorflow.python.tpu.training_loop"
_META_GRAPH = "tensorflow.python.framework.meta_graph"
_FEED = "tensorflow.python.tpu.tpu_feed"
_TPU_FUNCTION = "tensorflow.python.tpu.tpu_function"
_TPU_OPS = "tensorflow.python.tpu.ops.tpu_ops"

PLACES: Mapping[str, Mapping[str, str]] = {
  "autograph": {
    "convert": "tensorflow.python.autograph.impl.api:convert",
    "AutoGraphError": "tensorflow.python.autograph.impl.api:AutoGraphError",
    "StackTraceMapper": (
      "tensorflow.python.autograph.impl.api:StackTraceMapper"
    ),
  },
  "checkpoint": {
    "CheckpointableObjectGraph": (
      "tensorflow.core.protobuf.trackable_object_graph_pb2:TrackableObjectGraph"
    ),
    "List": f"{_STRUCTURES}:List",
    "Mapping": f"{_STRUCTURES}:Mapping",
    "NoDependency": f"{_STRUCTURES}:NoDependency",
    "capture_dependencies": f"{_CHECKPOINT}:capture_dependencies",
    "list_objects": f"{_CHECKPOINT}:list_objects",
    "object_metadata": f"{_CHECKPOINT}:object_metadata",
  },
  "distribute": {
    "StandardInputStep": f"{_STEPS}:StandardInputStep",
    "StandardSingleLossStep": f"{_STEPS}:StandardSingleLossStep",
    "Step": f"{_STEPS}:Step",
    "UpdateContext": f"{_STRATEGIES}:UpdateContext",
    "get_cross_replica_context": f"{_STRATEGIES}:get_cross_replica_context",
    "require_replica_context": f"{_STRATEGIES}:require_replica_context",
    "run_standard_tensorflow_server": (
      "tensorflow.python.distribute.distribute_coordinator"
      ":run_standard_tensorflow_server"
    ),
  },
  "eager": {
    "ASYNC": f"{_CONTEXT}:ASYNC",
    "DEVICE_PLACEMENT_EXPLICIT": f"{_CONTEXT}:DEVICE_PLACEMENT_EXPLICIT",
    "DEVICE_PLACEMENT_SILENT": f"{_CONTEXT}:DEVICE_PLACEMENT_SILENT",
    "DEVICE_PLACEMENT_WARN": f"{_CONTEXT}:DEVICE_PLACEMENT_WARN",
    "EagerVariableStore": (
      "tensorflow.python.ops.variable_scope:EagerVariableStore"
    ),
    "SYNC": f"{_CONTEXT}:SYNC",
    "Variable": "tensorflow.python.ops.resource_variable_ops:ResourceVariable",
    "async_clear_error": f"{_CONTEXT}:async_clear_error",
    "async_wait": f"{_CONTEXT}:async_wait",
    "enable_remote_eager_execution": (
      "tensorflow.python.framework.ops:enable_eager_execution_internal"
    ),
    "execution_mode": f"{_CONTEXT}:execution_mode",
    "gradients_function": f"{_BACKPROP}:gradients_function",
    "implicit_gradients": f"{_BACKPROP}:implicit_grad",
    "implicit_value_and_gradients": f"{_BACKPROP}:implicit_val_and_grad",
    "make_template": "tensorflow.python.ops.template:make_template_internal",
    "num_gpus": f"{_CONTEXT}:num_gpus",
    "run": "tensorflow.python.framework.ops:eager_run",
    "run_all_tests_in_graph_and_eager_modes": (
      f"{_TESTS}:run_all_in_graph_and_eager_modes"
    ),
    "run_test_in_graph_and_eager_modes": (
      f"{_TESTS}:run_in_graph_and_eager_modes"
    ),
    "set_execution_mode": f"{_CONTEXT}:set_execution_mode",
    "set_server_def": f"{_CONTEXT}:set_server_def",
    "value_and_gradients_function": f"{_BACKPROP}:val_and_grad_function",
  },
  "staging": {
    "StagingArea": "tensorflow.python.ops.data_flow_ops:StagingArea",
  },
  "tpu": {
    "TpuContext": f"{_TPU_FUNCTION}:TpuContext",
    "get_tpu_context": f"{_TPU_FUNCTION}:get_tpu_context",
    "tpu_replicated_input": f"{_TPU_OPS}:tpu_replicated_input",
    "tpu_replicated_output": f"{_TPU_OPS}:tpu_replicated_output",
    "tpu_shard_context": f"{_TPU_FUNCTION}:tpu_shard_context",
    "InfeedQueue": f"{_FEED}:InfeedQueue",
    "repeat": f"{_LOOPS}:repeat",
    "while_loop": f"{_LOOPS}:while_loop",
    "export_estimator_savedmodel": (
      "tensorflow_estimator.python.estimator.tpu.tpu_estimator"
      ":export_estimator_savedmodel"
    ),
  },
  "util": {
    "ops_used_by_graph_def": f"{_META_GRAPH}:ops_used_by_graph_def",
    "stripped_op_list_for_graph": (f"{_META_GRAPH}:stripped_op_list_for_graph"),
  },
}
