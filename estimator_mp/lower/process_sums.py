"""Process sums: updates read the gradients of all processes of Horovod.

    mark         gradient -> mark -> clip, update
    sum_marked   gradient -> all-reduce -> mark -> clip, update

A variable that is split has its gradient, and the mark of it, in parts. Each
part is summed over processes by itself.
"""

from collections.abc import Mapping, Sequence

from compat.private import graph_edits, graph_reads
from estimator_mp.graph import placed_ops, traversal
from estimator_mp.planning.gradient_reads import GradientRead
from estimator_mp.replicas import horovod

import tensorflow as tf


def mark(reads: Sequence[GradientRead]) -> dict[tf.Operation, bool]:
  """Lets readers of gradients read a mark of each, which passes it on.

  Args:
    reads: The gradients of the default graph to be summed over processes.

  Returns:
    The marks, each with whether processes have rows of their own of it.
  """
  marks: dict[tf.Operation, bool] = {}
  for read in reads:
    with placed_ops.apart_from_caller("gradient"):
      passed = tf.identity(read.tensor)
    graph_edits.set_branch(passed.op, read.tensor.op)
    for op, index in read.readers:
      graph_edits.replace_input(op, index, passed)
    marks[passed.op] = read.is_rows
  return marks


def sum_marked(
  marks: Mapping[tf.Operation, bool], method: str
) -> dict[tf.Operation, tf.Operation]:
  """Lets marks pass on the gradients of all processes.

  Args:
    marks: The marks that a step runs, in an order that all processes share;
      each with whether processes have rows of their own of it.
    method: "mean" or "sum".

  Returns:
    The ops that were made, each with the mark that it is for.

  Raises:
    ImportError: If Horovod is not installed.
    ValueError: If Horovod cannot send the dtype of a gradient.
  """
  processes = horovod.Processes(method)
  gradients = [op.inputs[0] for op in marks]
  graph = tf.compat.v1.get_default_graph()
  num_ops = graph_reads.num_ops(graph)
  totals = processes.reduce(gradients, [*marks.values()])
  added = graph_reads.ops_after(graph, num_ops)
  mark_of: dict[tf.Operation, tf.Operation] = {}
  for op, total in zip(marks, totals, strict=True):
    graph_edits.replace_input(op, 0, total)
    of_total = traversal.ancestors([total.op], added)
    mark_of.update(dict.fromkeys(of_total, op))
  return mark_of
