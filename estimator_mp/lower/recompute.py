"""Recompute: the backward pass of a stage computes its activations again."""

from collections.abc import Collection

from compat.private import graph_edits
from estimator_mp.graph import clones as clones_lib
from estimator_mp.pipeline import recomputation

import tensorflow as tf


def compute_again(
  plan: recomputation.Recomputation,
) -> dict[tf.Operation, int]:
  """Lets the first micro-batch's backward ops read recomputed activations.

  Args:
    plan: The ops that are recomputed, and the reads of their results.

  Returns:
    The ops that were made, with the stages that they do it for.
  """
  made: dict[tf.Operation, int] = {}
  # Of each stage: what other stages computed is read, not computed again.
  of_stage: dict[int, clones_lib.Clones] = {}
  for stage, ops in plan.again.items():
    clones = clones_lib.Clones([clones_lib.Home("recompute")])
    clones.add(ops)
    made.update((clones.op(0, op), stage) for op in ops)
    of_stage[stage] = clones
  for read in plan.reads:
    (copy,) = of_stage[read.stage].of(read.tensor)
    graph_edits.replace_input(read.op, read.index, copy)
  return made


def keep(
  plan: recomputation.Recomputation,
  clones: clones_lib.Clones,
  numbers: Collection[int],
) -> None:
  """Lets some micro-batches read the activations of their forward pass.

  Args:
    plan: The ops that are recomputed, and the reads of their results.
    clones: All micro-batches but the first.
    numbers: Those that compute nothing again, after all.
  """
  for read in plan.reads if numbers else ():
    kept = [read.tensor, *clones.of(read.tensor)]
    for number in numbers:
      op = read.op if number == 0 else clones.op(number - 1, read.op)
      graph_edits.replace_input(op, read.index, kept[number])
