"""TensorFlow's own names that were also public in tf.contrib.framework.

Tested on TensorFlow 2.15.1 and 2.21.0. All are as they were in 1.15, but:

- `tensorflow.python.util.nest` has lost `is_sequence`, which
  compat.private.v1.moved_names gives it again.
- what initializers from a checkpoint are made by,
  `tensorflow.python.training.checkpoint_ops`, has become private.
- `tensorflow.python.framework.ops._get_graph_from_inputs` always was private.
"""

from tensorflow.python.framework import ops
from tensorflow.python.framework import smart_cond as conditions
from tensorflow.python.framework import tensor_spec as specs
from tensorflow.python.ops import data_flow_ops, init_ops
from tensorflow.python.training import checkpoint_ops
from tensorflow.python.util import deprecation
from tensorflow.python.util import nest as nest

BoundedTensorSpec = specs.BoundedTensorSpec
RecordInput = data_flow_ops.RecordInput
convolutional_delta_orthogonal = init_ops.convolutional_delta_orthogonal
convolutional_orthogonal_1d = init_ops.convolutional_orthogonal_1d
convolutional_orthogonal_2d = init_ops.convolutional_orthogonal_2d
convolutional_orthogonal_3d = init_ops.convolutional_orthogonal_3d
deprecated = deprecation.deprecated
deprecated_arg_values = deprecation.deprecated_arg_values
deprecated_args = deprecation.deprecated_args
get_graph_from_inputs = ops._get_graph_from_inputs
load_and_remap_matrix_initializer = (
  checkpoint_ops._load_and_remap_matrix_initializer
)
load_embedding_initializer = checkpoint_ops._load_embedding_initializer
prepend_name_scope = ops.prepend_name_scope
smart_case = conditions.smart_case
smart_cond = conditions.smart_cond
smart_constant_value = conditions.smart_constant_value
strip_name_scope = ops.strip_name_scope
