"""Recompute: the backward pass of a stage computes its activations again."""

from compat.private import graph_edits
from estimator_mp.graph.clones import Clones
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
  stages: dict[tf.Operation, int] = {}
  # By stage: activations of other stages are read, not computed again.
  of_stage: dict[int, Clones] = {}
  for stage, ops in plan.again.items():
    of_stage[stage] = clones = Clones([str])
    clones.add(ops, "recompute")
    stages.update((clones.ops(op)[0], stage) for op in ops)
  for read in plan.reads:
    (copy,) = of_stage[read.stage].of(read.tensor)
    graph_edits.replace_input(read.op, read.index, copy)
  return stages
