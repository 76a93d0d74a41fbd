"""How many rounds a loop has, as far as the graph tells.

A loop over a sequence takes it apart, or puts one together, as a list with an
element for each round; the length of the list is that of the loop.
"""

from collections.abc import Iterable

from compat.private import graph_reads
from estimator_mp.graph import op_types, shapes
from estimator_mp.graph.calls import functions
from estimator_mp.graph.frames import Frame, Frames

import tensorflow as tf

# The assumed number of rounds, if the graph does not have it.
NOMINAL = 32


class Rounds:
  """The rounds of the loops of a graph."""

  def __init__(self, graph: tf.Graph):
    """Finds the loops that are in frames.

    Args:
      graph: The graph.
    """
    every = graph.get_operations()
    self._frames = Frames(every)
    self._lists: dict[Frame, list[tf.Tensor]] = {}
    for op in every:
      if op.type in op_types.ENTERS and (frame := self._frames.loop(op)):
        self._lists.setdefault(frame, []).extend(op.inputs)

  def of(self, op: tf.Operation) -> int:
    """Returns how often an op runs in a step.

    Args:
      op: An op; a functional loop runs its body as often.
    """
    if op.type in op_types.FUNCTIONAL_LOOPS:
      return _longest(op.inputs)
    frame = self._frames.loop(op)
    if frame is not None:
      return _longest(self._lists.get(frame, ()))
    return 1 if graph_reads.outermost_loop(op) is None else NOMINAL


def ops_of_round(op: tf.Operation) -> int:
  """Returns how many ops a round of an op runs: itself, or its functions.

  Args:
    op: An op; what its functions call counts once.
  """
  called = (
    graph_reads.function_definition(op.graph, function.name)
    for function in functions.functions_of(op.node_def)
  )
  return max(1, sum(len(x.node_def) for x in called if x is not None))


def _longest(tensors: Iterable[tf.Tensor]) -> int:
  """Returns the length of the longest list among tensors."""
  lengths = [0]
  for op in (x.op for x in tensors if x.dtype in (tf.variant, tf.resource)):
    length = None
    if op.type == "TensorListFromTensor":
      shape = op.inputs[0].shape
      length = shape[0] if shape.rank else None
    elif op.type in ("TensorListReserve", "TensorArrayV3"):
      index = int(op.type == "TensorListReserve")
      length = shapes.constant(op.inputs[index])
    lengths.append(int(length or 0))
  return max(lengths) or NOMINAL
