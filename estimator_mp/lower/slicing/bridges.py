"""Bridges: stand-ins between whole tensors and slices until there are clones.

    CUT    whole -> its rows of a slice      the gradient of a JOIN
    JOIN   rows of slices -> whole           the gradient of a CUT
    READ   whole -> the same, in each slice  the gradient of a SUM
    SUM    shares of slices -> their sum     the gradient of a READ

A bridge has one input and one output, those of slice 0, and a gradient of its
own, which is a bridge back: Megatron-LM's pair of f and g (Shoeybi et al.,
2019, arXiv:1909.08053). So one request for gradients makes the backward pass of
slice 0, and what is done once adds its terms of gradients once; and so it is
for gradients of gradients.

FIRST takes from slice 0 what is the same in all, as a length; it has no
gradient.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from compat.private import graph_edits
from estimator_mp.graph import placed_ops, variables
from estimator_mp.plan.batch_plan import BY_SLICE, Rows
from estimator_mp.plan.bridge import Bridge, Kind

import tensorflow as tf


class Bridges:
  """The bridges of one graph.

  Attributes:
    all: The bridges, by the names of their ops, in the order of the graph.
    request: The number of the request that is being answered; None for none.
  """

  def __init__(self, slice_rows: int | None):
    """Starts without a bridge.

    Args:
      slice_rows: How many examples each slice has, if the graph knows.
    """
    self.all: dict[str, Bridge] = {}
    self.request: int | None = None
    self._slice_rows = slice_rows
    # On the graph, which is freed with all that refers to it.
    setattr(tf.compat.v1.get_default_graph(), _ATTRIBUTE, self)

  def cut(self, whole: tf.Tensor, rows: Rows) -> tf.Tensor:
    """Returns the rows of slice 0.

    Args:
      whole: All rows.
      rows: How slices lie in it.
    """
    loose, exact = whole.shape.as_list(), whole.shape.as_list()
    loose[rows.axis] = exact[rows.axis] = None
    if rows == BY_SLICE:
      exact[0] = 1
    elif self._slice_rows is not None and rows.per_example is not None:
      exact[rows.axis] = self._slice_rows * rows.per_example
    part = self._make(Kind.CUT, whole, loose, rows=rows).output
    part.set_shape(exact)
    return part

  def join(self, part: tf.Tensor, rows: Rows, shape: tf.TensorShape) -> Any:
    """Returns the rows of all slices.

    Args:
      part: Those of slice 0.
      rows: How slices lie in the whole tensor.
      shape: The shape of that, as far as it is known.
    """
    if part.shape.rank is None:
      part.set_shape([None] * shape.rank)
    loose = part.shape.as_list()
    loose[rows.axis] = None
    joined = self._make(Kind.JOIN, part, loose, rows=rows).output
    joined.set_shape(shape)
    return joined

  def read(self, whole: tf.Tensor) -> tf.Tensor:
    """Returns what each slice reads whole.

    Args:
      whole: A tensor, or the handle of a variable.
    """
    return self._make(Kind.READ, whole, whole.shape).output

  def sum(self, share: tf.Tensor, of: tf.Tensor | None = None) -> tf.Tensor:
    """Returns what the shares of all slices add up to.

    Args:
      share: That of slice 0.
      of: The tensor that slices read, if shares are its gradients.
    """
    return self._make(Kind.SUM, share, share.shape, of=of).output

  def first(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns what is the same in all slices.

    Args:
      tensor: That of slice 0.
    """
    return self._make(Kind.FIRST, tensor, tensor.shape).output

  def back(self, bridge: Bridge, gradient: Any) -> Any:
    """Returns the gradient of what a bridge reads.

    Args:
      bridge: The bridge.
      gradient: The gradient of what it makes.

    Raises:
      ValueError: If a sparse gradient is differentiated.
    """
    if bridge.kind is Kind.READ and isinstance(gradient, tf.IndexedSlices):
      return self._rows_back(bridge, gradient)
    gradient = tf.convert_to_tensor(gradient)
    if gradient.shape.rank is None:
      gradient.set_shape(_shape_of_values(bridge.output))
    of = bridge.source
    if bridge.kind is Kind.READ:
      return self.sum(gradient, of)
    if bridge.kind is Kind.SUM:
      return self.read(gradient)
    if bridge.rows is None:
      raise ValueError(
        f"{of.name} is a part of a sparse gradient, and its gradient is "
        "requested; micro-batches and replicas cannot differentiate a sparse "
        "gradient: read the variable whole (tf.identity of it), or use "
        "num_micro_batches=1 and no data axis"
      )
    if bridge.kind is Kind.CUT:
      return self.join(gradient, bridge.rows, of.shape)
    return self.cut(gradient, bridge.rows)

  @contextlib.contextmanager
  def for_no_request(self) -> Iterator[None]:
    """Lets bridges be made that are no gradients.

    Yields:
      None.
    """
    request, self.request = self.request, None
    try:
      yield
    finally:
      self.request = request

  def _rows_back(
    self, bridge: Bridge, gradient: tf.IndexedSlices
  ) -> tf.IndexedSlices:
    """Returns the rows of a table that all slices list."""
    indices = self._rows_of(gradient.indices)
    values = self._rows_of(
      gradient.values,
      together=indices,
      dense_shape=gradient.dense_shape,
      of=bridge.source,
    )
    shape = gradient.dense_shape
    if shape is not None:
      shape = self.first(shape)
    return tf.IndexedSlices(values.output, indices.output, shape)

  def _rows_of(self, part: tf.Tensor, **more: Any) -> Bridge:
    loose = tf.TensorShape([None]).concatenate(part.shape[1:])
    return self._make(Kind.JOIN, part, loose, **more)

  def _make(
    self, kind: Kind, tensor: tf.Tensor, shape: Any, **more: Any
  ) -> Bridge:
    """Makes a bridge on the device of what it reads."""
    with (
      outside(tensor.device, _scope_of_request(tensor.graph)),
      tensor.graph.gradient_override_map(
        {"PlaceholderWithDefault": _TYPE, "Identity": _TYPE}
      ),
      tf.compat.v1.name_scope(kind.value),
    ):
      if tensor.dtype == tf.resource:
        made = tf.identity(tensor)  # It knows what it is a handle of.
      else:
        made = tf.compat.v1.placeholder_with_default(tensor, shape)
    found = Bridge(made.op, kind, request=self.request, **more)
    self.all[made.op.name] = found
    return found


def _shape_of_values(tensor: tf.Tensor) -> tf.TensorShape:
  """Returns the shape of a tensor; of a handle that of the variable."""
  variable = None
  if tensor.dtype == tf.resource:
    variable = variables.variable_of(tensor)
  if variable is None or "shape" not in variable.node_def.attr:
    return tensor.shape if variable is None else tf.TensorShape(None)
  return tf.TensorShape(variable.get_attr("shape"))


_ATTRIBUTE = "_estimator_mp_bridges"


def _gradient(op: tf.Operation, gradient: Any) -> Any:
  """Returns the bridge back."""
  bridges: Bridges = getattr(op.graph, _ATTRIBUTE)
  return bridges.back(bridges.all[op.name], gradient)


def register_gradient(name: str, gradient: Callable[..., Any]) -> str:
  """Registers a gradient for ops that name it.

  Args:
    name: Its name.
    gradient: Makes it.

  Returns:
    The name, with a number behind it if a module is imported once more.
  """
  for number in itertools.count():
    try:
      tf.RegisterGradient(f"{name}_{number}")(gradient)
    except KeyError:
      continue
    break
  return f"{name}_{number}"


_TYPE = register_gradient("EstimatorMpBridge", _gradient)


def _scope_of_request(graph: tf.Graph) -> str:
  """Returns the name scope of the gradients that are being made, or "".

  A gradient of a `tf.TensorArray` finds what other gradients of the request
  wrote by that scope, which it takes from the name of a tensor.
  """
  scopes = graph.get_name_scope().split("/")
  while scopes and not scopes[-1].startswith("gradients"):
    scopes.pop()
  return "".join(f"{scope}/" for scope in scopes)


@contextlib.contextmanager
def outside(device: str, scope: str = "") -> Iterator[None]:
  """Lets ops be made on a device, apart from all else that is being made.

  Args:
    device: The device; "" for none yet.
    scope: The scope that precedes the names of the ops.

  Yields:
    None.
  """
  with (
    placed_ops.apart_from_caller(f"{scope}estimator_mp/slices/"),
    tf.compat.v1.device(device),
  ):
    yield


def replace(old: tf.Tensor, new: tf.Tensor) -> None:
  """Lets all that reads a tensor read another.

  Args:
    old: The tensor.
    new: The other one.
  """
  for op in old.consumers():
    for index, tensor in enumerate(op.inputs):
      if tensor is old:
        graph_edits.replace_input(op, index, new)
