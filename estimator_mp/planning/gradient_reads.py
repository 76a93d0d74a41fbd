"""Gradient reads: the readers of the gradients of all processes, as data.

Each process has the gradients of its own batch. Later ops of model_fn, an
update or a clip, are to read those of all processes. An op of which a further
gradient is taken is not: that goes back through the batch of the process.
"""

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from compat.private import gradient_requests, graph_reads
from estimator_mp.graph import op_types
from estimator_mp.graph.gradient import Gradient

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Request:
  """The answer to a request for gradients.

  Attributes:
    gradients: Those with respect to variables.
    num_ops: How many ops the graph had with them.
  """

  gradients: Sequence[Gradient]
  num_ops: int


@dataclasses.dataclass(frozen=True)
class GradientRead:
  """A tensor of a gradient, and who is to read it of all processes.

  Attributes:
    tensor: The gradient; of a sparse one its values, or its indices.
    is_rows: Whether processes have rows of their own, which are joined;
      otherwise their gradients are added up.
    readers: Ops, with the numbers of their inputs.
  """

  tensor: tf.Tensor
  is_rows: bool
  readers: Sequence[tuple[tf.Operation, int]]


@contextlib.contextmanager
def heard(graph: tf.Graph) -> Iterator[list[Request]]:
  """Lists the requests for gradients that are made inside.

  Args:
    graph: Their graph.

  Yields:
    A list that gets them.
  """
  requests: list[Request] = []

  def hear(sources: list[Any], gradients: list[Gradient | None]) -> None:
    of_variables = [
      gradient
      for source, gradient in zip(sources, gradients, strict=True)
      if gradient is not None
      and op_types.is_variable(getattr(source, "handle", source).op)
    ]
    requests.append(Request(of_variables, graph_reads.num_ops(graph)))

  with gradient_requests.observed(graph, hear):
    yield requests


def find(graph: tf.Graph, requests: Sequence[Request]) -> list[GradientRead]:
  """Finds the ops that are to read the gradients of all processes.

  Args:
    graph: The finished graph.
    requests: The requests for gradients in it, in order.

  Returns:
    The tensors of gradients of variables that have such readers, each once.

  Raises:
    ValueError: If one of them is inside of a loop.
  """
  reads: dict[str, GradientRead] = {}
  for request in requests:
    later = graph_reads.ops_after(graph, request.num_ops)
    of_gradients = {op for op in later if graph_reads.is_of_gradient(op)}
    through = {graph_reads.differentiated(op) for op in of_gradients}
    may_read = {*later} - of_gradients - through
    for gradient in request.gradients:
      for read in _reads(gradient, may_read):
        _check_no_loop(read.tensor)
        reads.setdefault(read.tensor.name, read)
  return [*reads.values()]


def _reads(
  gradient: Gradient, may_read: Collection[tf.Operation]
) -> Iterator[GradientRead]:
  """Yields the tensors of a gradient that some of these ops read."""
  is_rows = isinstance(gradient, tf.IndexedSlices)
  for tensor in (gradient.values, gradient.indices) if is_rows else (gradient,):
    readers = [
      (op, index)
      for op in dict.fromkeys(tensor.consumers())
      if op in may_read
      for index, read in enumerate(op.inputs)
      if read.name == tensor.name
    ]
    if readers:
      yield GradientRead(tensor, is_rows, readers)


def _check_no_loop(tensor: tf.Tensor) -> None:
  """Raises if processes may make a tensor different numbers of times."""
  if graph_reads.outermost_loop(tensor.op) is not None:
    raise ValueError(
      f"the gradient {tensor.name} of a variable is inside of a loop, where "
      'aggregation="horovod" does not sum over processes; call tf.gradients '
      "outside of tf.while_loop"
    )
