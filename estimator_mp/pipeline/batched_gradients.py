"""Batched weight gradients: those that several micro-batches make at once.

The gradient of W in y = x W is x^T dy. Where x and dy of several micro-batches
are there, its sum over them is one product of a longer inner dimension,

  sum_m x_m^T dy_m = [x_0; x_1; ...]^T [dy_0; dy_1; ...],

which cores do faster than many of few rows, and which adds up terms that would
be written to memory and read again for each micro-batch.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.graph.control_edges import OF_THE_GRAPH, ControlEdges
from estimator_mp.pipeline import cells

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class BatchedGradient:
  """A gradient that is a product, of the first micro-batch.

  Attributes:
    op: The name of the op that multiplies, a MatMul.
    group: Of how many micro-batches one product is made, at most.
    dims: The dimension of each operand that the product adds up over.
  """

  op: str
  group: int
  dims: tuple[int, int]


def plan_gradient(
  gradient: tf.Tensor,
  mode: str,
  count: int,
  of_gradients: Collection[tf.Operation],
  stages: Mapping[tf.Operation, int],
  waits: ControlEdges = OF_THE_GRAPH,
  num_slices: int = 1,
) -> BatchedGradient | None:
  """Returns how a gradient is made of several micro-batches at once, if it is.

  Both operands of all but the last micro-batch of a group are kept for it. That
  saves as many sums of gradients, each of which reads and writes as
  much as the gradient has. So "auto" groups as many as keep no more than that.

  Args:
    gradient: That of the first micro-batch with respect to a variable.
    mode: "batched" for all, or "auto".
    count: The micro-batches of a round.
    of_gradients: The ops that were made for gradients.
    stages: The stages where ops are placed.
    waits: The control dependencies of ops.
    num_slices: How many slices the op is of, if it is not that of one.
  """
  op = gradient.op
  while op.type == "Identity" and stages.get(op) == stages.get(_source(op)):
    if len(cells.gates(op, of_gradients, stages, waits)) < len(waits.of(op)):
      return None
    op = _source(op)
  if op.type != "MatMul" or waits.of(op) or op not in stages:
    return None
  if op not in of_gradients or graph_reads.outermost_loop(op) is not None:
    return None
  group = (
    count if mode == "batched" else min(count, _affordable(op, num_slices))
  )
  first, second = map(op.get_attr, ("transpose_a", "transpose_b"))
  dims = (0 if first else 1, 1 if second else 0)
  return BatchedGradient(op.name, group, dims) if group > 1 else None


def _source(op: tf.Operation) -> tf.Operation:
  return op.inputs[0].op


def _affordable(op: tf.Operation, num_slices: int) -> int:
  """Returns of how many micro-batches operands are as small as the product."""
  if not all(tensor.shape.is_fully_defined() for tensor in op.inputs):
    return 1
  operands = sum(
    math.ceil(tensor.shape.num_elements() / num_slices) for tensor in op.inputs
  )
  size = op.outputs[0].shape.num_elements()
  return int(size // max(operands, 1))


def groups(order: Sequence[int], size: int) -> list[list[int]]:
  """Returns micro-batches in groups.

  Args:
    order: The micro-batches in the order in which they pass a stage.
    size: How many a group has; the last one may have fewer.
  """
  return [
    [*order[begin : begin + size]] for begin in range(0, len(order), size)
  ]
