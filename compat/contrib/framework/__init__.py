"""Names of tf.contrib.framework; arg_scope and variables are tf-slim's.

The others are TensorFlow's own, public or not, or written here anew.
"""

from compat.contrib import packages
from compat.contrib.framework.checkpoints import (
  init_from_checkpoint,
  list_variables,
  load_checkpoint,
  load_linear_multiclass_bias_initializer,
  load_variable,
  load_variable_slot_initializer,
)
from compat.contrib.framework.graphs import (
  fuse_op,
  get_name_scope,
  get_placeholders,
  py_func,
)
from compat.contrib.framework.tensors import (
  assert_scalar_int,
  reduce_sum_n,
  remove_squeezable_dimensions,
  with_same_shape,
  with_shape,
  zero_initializer,
)
from compat.private.contrib.framework import (
  BoundedTensorSpec,
  RecordInput,
  convolutional_delta_orthogonal,
  convolutional_orthogonal_1d,
  convolutional_orthogonal_2d,
  convolutional_orthogonal_3d,
  deprecated,
  deprecated_arg_values,
  deprecated_args,
  get_graph_from_inputs,
  load_and_remap_matrix_initializer,
  load_embedding_initializer,
  nest,
  prepend_name_scope,
  smart_case,
  smart_cond,
  smart_constant_value,
  strip_name_scope,
)

import tensorflow as tf

TensorSpec = tf.TensorSpec
argsort = tf.argsort
assert_global_step = tf.compat.v1.train.assert_global_step
assert_same_float_dtype = tf.compat.v1.assert_same_float_dtype
assert_scalar = tf.compat.v1.assert_scalar
convert_to_tensor_or_sparse_tensor = (
  tf.compat.v1.convert_to_tensor_or_sparse_tensor
)
create_global_step = tf.compat.v1.train.create_global_step
get_global_step = tf.compat.v1.train.get_global_step
get_or_create_global_step = tf.compat.v1.train.get_or_create_global_step
is_tensor = tf.is_tensor
sort = tf.sort

# Also among the names of tf.contrib.slim.
OF_SLIM = (
  "VariableDeviceChooser",
  "add_arg_scope",
  "add_model_variable",
  "arg_scope",
  "arg_scoped_arguments",
  "assert_or_get_global_step",
  "assign_from_checkpoint",
  "assign_from_checkpoint_fn",
  "assign_from_values",
  "assign_from_values_fn",
  "current_arg_scope",
  "filter_variables",
  "get_local_variables",
  "get_model_variables",
  "get_trainable_variables",
  "get_unique_variable",
  "get_variable_full_name",
  "get_variables",
  "get_variables_by_name",
  "get_variables_by_suffix",
  "get_variables_to_restore",
  "global_variable",
  "has_arg_scope",
  "local_variable",
  "model_variable",
  "variable",
)

# Files of 1.15 that programs import names from, "framework.python.ops.ops".
_FILES_OF_SLIM = {
  "arg_scope_lib": "tf_slim.ops.arg_scope",
  "variables": "tf_slim.ops.variables",
}

__getattr__ = packages.getter(
  __name__, {name: f"tf_slim:{name}" for name in OF_SLIM} | _FILES_OF_SLIM
)

__all__ = [
  *OF_SLIM,
  "BoundedTensorSpec",
  "RecordInput",
  "TensorSpec",
  "argsort",
  "assert_global_step",
  "assert_same_float_dtype",
  "assert_scalar",
  "assert_scalar_int",
  "convert_to_tensor_or_sparse_tensor",
  "convolutional_delta_orthogonal",
  "convolutional_orthogonal_1d",
  "convolutional_orthogonal_2d",
  "convolutional_orthogonal_3d",
  "create_global_step",
  "deprecated",
  "deprecated_arg_values",
  "deprecated_args",
  "fuse_op",
  "get_global_step",
  "get_graph_from_inputs",
  "get_name_scope",
  "get_or_create_global_step",
  "get_placeholders",
  "init_from_checkpoint",
  "is_tensor",
  "list_variables",
  "load_and_remap_matrix_initializer",
  "load_checkpoint",
  "load_embedding_initializer",
  "load_linear_multiclass_bias_initializer",
  "load_variable",
  "load_variable_slot_initializer",
  "nest",
  "prepend_name_scope",
  "py_func",
  "reduce_sum_n",
  "remove_squeezable_dimensions",
  "smart_case",
  "smart_cond",
  "smart_constant_value",
  "sort",
  "strip_name_scope",
  "with_same_shape",
  "with_shape",
  "zero_initializer",
]


def __dir__() -> list[str]:
  return sorted(__all__)
