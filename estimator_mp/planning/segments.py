"""Segments: how often slices of the batch wait for each other, as data.

A segment is the ops that slices run without waiting for other slices. An op
that reads a concatenation, or a sum, waits for all of them, and so it is in a
later segment. The backward pass of a mean over examples is in the segment of
its forward pass; that of the root of a mean is in the next one.
"""

from collections.abc import Collection, Sequence

from estimator_mp.graph import op_types, traversal
from estimator_mp.graph.control_edges import OF_THE_GRAPH, ControlEdges

import tensorflow as tf


def segments_of_ops(
  ops: Sequence[tf.Operation],
  in_slices: Collection[tf.Operation],
  waits_for_all: Collection[tf.Operation],
  backward: Collection[tf.Operation] = (),
  waits: ControlEdges = OF_THE_GRAPH,
) -> dict[tf.Operation, int]:
  """Returns the segment of each op of a slice; of others how many come before.

  Most ops are in the first segment that they can be in. Ops of gradients are in
  the last one: the shape of an activation, say, is not read before the gradient
  is there.

  Args:
    ops: Ops in the order of the graph.
    in_slices: Those that each slice has.
    waits_for_all: Those that make one tensor of those of all slices.
    backward: The ops that were made for gradients.
    waits: The control dependencies of ops.

  Returns:
    For each op of a slice its segment, from 0. For others how many segments
    have to be over.
  """
  loops = traversal.Loops(ops)

  before = {op: waits.sources(op) for op in ops}

  def sources(op: tf.Operation) -> list[tf.Operation]:
    # An exit of a loop waits for all of the loop, and so for all its inputs.
    loop = loops.ops_with(op) if op.type in op_types.EXITS else ()
    return [*before[op], *loop]

  in_order = traversal.in_order(ops, sources)
  readers: dict[tf.Operation, list[tf.Operation]] = {}
  segments: dict[tf.Operation, int] = {}
  for op in in_order:
    for source in before[op]:
      readers.setdefault(source, []).append(op)
    number = max((segments[x] for x in sources(op) if x in segments), default=0)
    if op in waits_for_all and any(x in in_slices for x in before[op]):
      number += 1
    segments[op] = number
  for op in reversed(in_order):
    if op in backward and op in in_slices and op in readers:
      # An op that is executed once may wait for more than slices.
      after = [
        segments[x] - (x in waits_for_all) if x in in_slices else segments[op]
        for x in readers[op]
      ]
      segments[op] = max(segments[op], min(after))
  return segments
