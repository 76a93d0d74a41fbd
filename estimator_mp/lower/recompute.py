"""Recompute: the backward pass of a stage computes its activations again."""

from collections.abc import Collection

from compat.private import graph_edits
from estimator_mp.graph import clones as clones_lib
from estimator_mp.pipeline import recomputation

import tensorflow as tf


class Recomputer:
  """Makes ops that compute activations again.

  Attributes:
    copies: The ops that compute again, with the stages that they do it for.
  """

  def __init__(self) -> None:
    """Starts with nothing computed again."""
    self.copies: dict[tf.Operation, int] = {}
    self._reads: list[recomputation.Read] = []

  def compute_again(
    self, plan: recomputation.Recomputation
  ) -> list[tf.Operation]:
    """Lets the first micro-batch's backward ops read what is computed again.

    Args:
      plan: What is computed again.

    Returns:
      The ops that were made.
    """
    # Of each stage: what other stages computed is read, not computed again.
    of_stage: dict[int, clones_lib.Clones] = {}
    for stage, ops in plan.again.items():
      clones = of_stage[stage] = clones_lib.Clones(
        [clones_lib.Home("recompute")]
      )
      clones.add(ops)
      self.copies.update((clones.op(0, op), stage) for op in ops)
    for read in plan.reads:
      (copy,) = of_stage[read.stage].of(read.tensor)
      graph_edits.replace_input(read.op, read.index, copy)
    self._reads += plan.reads
    return [*self.copies]

  def keep(self, clones: clones_lib.Clones, numbers: Collection[int]) -> None:
    """Lets some micro-batches read the activations of their forward pass.

    Args:
      clones: All micro-batches but the first.
      numbers: Those that compute nothing again, after all.
    """
    for read in self._reads if numbers else ():
      kept = [read.tensor, *clones.of(read.tensor)]
      for number in numbers:
        op = read.op if number == 0 else clones.op(number - 1, read.op)
        graph_edits.replace_input(op, read.index, kept[number])
