"""Update reads: the tensors of slices that updates of variables read.

They are the sums of gradients, and the rows of sparse ones, and are aggregated
over replicas: for each replica that repeats the updates of its mirrors, or for
the one that updates a variable for all. A scalar is computed once, for all.

Tensors that are aggregated at once are there at once. So optimizers that update
one after the other, as those of a GAN, have rounds of their own.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from estimator_mp.graph import traversal
from estimator_mp.graph import variables as variables_lib
from estimator_mp.propagate.layouts import Layout, Partial, Shard

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class UpdateRead:
  """A tensor of slices that replicas aggregate.

  Attributes:
    tensor: The plain tensor.
    variable: The variable whose update reads it; the first, if several do.
    layout: Its layout over slices: Partial is summed, Shard is gathered.
    round: How often a step has updated variables before, on the way to it.
  """

  tensor: tf.Tensor
  variable: tf.Operation
  layout: Partial | Shard
  round: int = 0


def find(
  ops: Sequence[tf.Operation],
  updates: Collection[tf.Operation],
  variables: Collection[tf.Operation],
  layout_of: Callable[[tf.Tensor], Layout],
) -> list[UpdateRead]:
  """Finds the tensors of slices that updates read.

  Args:
    ops: The ops of a step, each after those that it reads or waits for.
    updates: Those that are executed once and that no slice reads.
    variables: The variables that replicas have mirrors of.
    layout_of: Returns the layout of a tensor over slices; `Once` if ops that
      are executed once are not to read parts of it.

  Returns:
    The inputs of updates of each of the variables and its slots, in the order
    in which a step makes them.
  """
  writes: dict[tf.Operation, list[tf.Operation]] = {}
  for op in ops:
    for variable in variables_lib.written_variables(op):
      if variable.type == "VarHandleOp" and op in updates:
        writes.setdefault(variable, []).append(op)
  aggregated: dict[tf.Tensor, UpdateRead] = {}
  for variable in (x for x in writes if x in variables):
    todo, seen = [*writes[variable]], set(writes[variable])
    while todo:
      op = todo.pop()
      for tensor in op.inputs:
        layout = layout_of(tensor)
        if _is_aggregated(tensor, layout):
          assert isinstance(layout, Partial | Shard)
          if tensor.shape.rank != 0 or op in writes[variable]:
            aggregated.setdefault(tensor, UpdateRead(tensor, variable, layout))
          continue
        before = [tensor.op]
        if tensor.op.type == "VarHandleOp":
          before = writes.get(tensor.op, [])  # It is a slot.
        elif tensor.shape.rank == 0:
          continue
        todo += [x for x in before if x in updates and x not in seen]
        seen.update(before)
  return _in_rounds(ops, updates, aggregated)


def _in_rounds(
  ops: Sequence[tf.Operation],
  updates: Collection[tf.Operation],
  reads: Mapping[tf.Tensor, UpdateRead],
) -> list[UpdateRead]:
  """Returns reads with their rounds, in the order of the ops that make them."""
  rounds: dict[tf.Operation, int] = {}
  in_order: list[UpdateRead] = []
  for op in ops:
    before = [rounds.get(x, 0) for x in traversal.sources(op)]
    if op in updates:
      before += [rounds[x.op] + 1 for x in op.inputs if x in reads]
    rounds[op] = max(before, default=0)
    in_order += [
      dataclasses.replace(reads[x], round=rounds[op])
      for x in op.outputs
      if x in reads
    ]
  return in_order


def _is_aggregated(tensor: tf.Tensor, layout: Layout) -> bool:
  """Whether replicas know how to aggregate parts of a layout."""
  if isinstance(layout, Partial):
    return layout == Partial() and bool(tensor.dtype.is_floating)
  return isinstance(layout, Shard)
