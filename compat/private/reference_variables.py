"""Resource variables that behave as reference variables do.

- `ResourceVariable` is the class that TensorFlow makes of `use_resource=True`;
  `RefVariable`, what it makes otherwise, says of each method here what it does.
- `Graph.as_graph_element` resolves the names that sessions fetch and that
  `get_tensor_by_name` is asked for. "w:0" and "w/read:0" are the value of a
  reference; of a resource, "w:0" is the handle.
- `tf.Variable.initialized_value` raises an error for resources since TensorFlow
  2; it has the value that 1.15 gave.
- An optimizer that a program wrote for references has `_apply_dense` alone.
  That of `tf.compat.v1.train.Optimizer` for resources raises an error.

Tested on TensorFlow 2.15.1 and 2.21.0.
"""

import contextlib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops


def supply_initialized_value() -> None:
  """Gives resource variables the method that they lost after 1.15."""
  # References have their own, and what is left raises an error.
  base: Any = tf.Variable
  base.initialized_value = _initialized_value


def _initialized_value(variable: Any) -> tf.Tensor:
  """Returns the value, or the first one as long as it has none."""
  with tf.init_scope():
    return tf.cond(
      tf.compat.v1.is_variable_initialized(variable),
      variable.read_value,
      lambda: variable.initial_value,
    )


class ReferenceLikeVariable(resource_variable_ops.ResourceVariable):
  """A resource, for a program that has reference variables."""

  def __bool__(self) -> bool:
    """A reference is an object like others; a resource asks for its value."""
    return True

  initialized_value = _initialized_value


_ACCEPTED = frozenset(
  inspect.signature(resource_variable_ops.ResourceVariable.__init__).parameters
)


def make(options: dict[str, Any]) -> ReferenceLikeVariable:
  """Returns a resource variable for what would have been a reference.

  Args:
    options: The arguments of a `tf.compat.v1.variable_creator_scope` creator.
  """
  known = {name: x for name, x in options.items() if name in _ACCEPTED}
  variable = ReferenceLikeVariable(**known)
  graph = variable.handle.graph
  graph.prevent_feeding(variable._graph_element)  # No other read has the value.
  values = _values_by_name(graph)
  for name in (variable.handle.name, f"{variable.handle.op.name}/read:0"):
    values[name] = variable
  return variable


_VALUES = "_estimator_mp_values_by_name"


def _values_by_name(graph: tf.Graph) -> dict[str, ReferenceLikeVariable]:
  """Returns the variables whose values a graph finds by these names."""
  known: dict[str, ReferenceLikeVariable] | None = getattr(graph, _VALUES, None)
  if known is not None:
    return known
  values: dict[str, ReferenceLikeVariable] = {}
  original = graph.as_graph_element

  @functools.wraps(original)
  def as_graph_element(
    obj: Any, allow_tensor: bool = True, allow_operation: bool = True
  ) -> Any:
    if isinstance(obj, str) and allow_tensor:
      obj = values.get(obj, obj)
    return original(obj, allow_tensor, allow_operation)

  setattr(graph, _VALUES, values)
  graph.as_graph_element = as_graph_element
  return values


@contextlib.contextmanager
def optimizers_of_references() -> Iterator[None]:
  """Lets optimizers that are written for references update resources.

  Yields:
    None.
  """
  optimizer: Any = tf.compat.v1.train.Optimizer
  names = ("_resource_apply_dense", "_resource_apply_sparse")
  before = {name: getattr(optimizer, name) for name in names}

  def dense(self: Any, grad: tf.Tensor, handle: Any) -> Any:
    if type(self)._apply_dense is optimizer._apply_dense:
      return before["_resource_apply_dense"](self, grad, handle)
    return self._apply_dense(grad, handle)

  def sparse(self: Any, grad: Any, handle: Any, indices: tf.Tensor) -> Any:
    if type(self)._apply_sparse is optimizer._apply_sparse:
      return before["_resource_apply_sparse"](self, grad, handle, indices)
    rows = tf.IndexedSlices(grad, indices, tf.shape(handle))
    return self._apply_sparse(rows, handle)

  optimizer._resource_apply_dense = dense
  optimizer._resource_apply_sparse = sparse
  try:
    yield
  finally:
    for name, method in before.items():
      setattr(optimizer, name, method)
