"""Regions: loops with the containers of their rounds' tensors, as a whole.

A loop is executed in parts as a whole or not at all: each part goes around it
by itself. So is the loop of its gradient, which reads the stacks and lists that
the rounds of the first have filled: these hold tensors of parts, which cannot
be put together before they are taken out again.
"""

from collections.abc import Hashable, Sequence

from estimator_mp.analysis.symbolic_shapes import SymbolicShapes
from estimator_mp.graph import op_types
from estimator_mp.graph.frames import Frames
from estimator_mp.rules import control_flow

import tensorflow as tf


def find(
  ops: Sequence[tf.Operation], frames: Frames, shapes: SymbolicShapes
) -> dict[tf.Operation, Hashable]:
  """Returns the regions of ops; an op that is in none is left out.

  Args:
    ops: The ops of a graph, each after those that it reads.
    frames: Their loops.
    shapes: The sizes of their tensors: it knows which are containers.
  """
  heads: dict[Hashable, Hashable] = {}

  def head(of: Hashable) -> Hashable:
    while (next_of := heads.setdefault(of, of)) != of:
      heads[of] = heads[next_of]
      of = next_of
    return of

  members: dict[tf.Operation, Hashable] = {}
  for op in ops:
    tensors = [*op.inputs, *op.outputs]
    if (
      (loop := frames.loop(op)) is None
      and op.type not in control_flow.KEEPERS
      and not any(map(shapes.is_container, tensors))
    ):
      continue
    members[op] = loop or op
    for tensor in op.inputs:
      keeps = shapes.is_container(tensor) or op_types.is_resource(tensor)
      if keeps and tensor.op in members:
        heads[head(members[tensor.op])] = head(members[op])
  return {op: head(of) for op, of in members.items()}
