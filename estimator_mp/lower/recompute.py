"""Recompute: activations are computed once more for the backward pass.

Instead of all that a stage computes in its forward pass, only what it reads
from other stages is kept until the backward pass, which begins by computing the
rest again: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016;
per micro-batch and stage as in GPipe (Huang et al., 2019) and torchgpipe (Kim
et al., 2020).

A random op is not run again, as it would give other numbers: dropout's mask is
kept, as booleans. Neither is an op with a state, nor a v1 loop.
"""

from collections.abc import Callable, Mapping, Sequence

from compat.private import graph_edits, graph_reads
from estimator_mp.graph import clones as clones_lib
from estimator_mp.pipeline import cells as cells_lib
from estimator_mp.pipeline.schedule import Phase

import tensorflow as tf


class Recomputation:
  """The recomputed part of the first micro-batch.

  Attributes:
    copies: The ops that compute again, with the stages that they do it for.
    redirected: The inputs of backward ops (the op, the index of the input)
      that now read what is computed again, with what they had read.
  """

  def __init__(self, differs: Callable[[tf.Tensor], bool]):
    """Starts with nothing to compute again.

    Args:
      differs: Says whether a tensor differs between micro-batches.
    """
    self.copies: dict[tf.Operation, int] = {}
    self.redirected: dict[tuple[tf.Operation, int], tf.Tensor] = {}
    self._differs = differs
    # Of each stage: what other stages computed is read, not computed again.
    self._clones: dict[int, clones_lib.Clones] = {}

  def add(
    self,
    ops: Sequence[tf.Operation],
    passes: Mapping[tf.Operation, cells_lib.Pass],
    skipped: frozenset[int],
  ) -> list[tf.Operation]:
    """Lets backward ops read what is computed again.

    Args:
      ops: The slice, in the order of the graph.
      passes: The passes that they are part of.
      skipped: Stages that compute nothing again.

    Returns:
      The ops that were made.
    """
    kept = self._kept(ops)
    reads = [
      (op, index, tensor)
      for op in ops
      if op in passes
      and passes[op].phase is Phase.BACKWARD
      and passes[op].stage not in skipped
      and op not in self.copies
      for index, tensor in enumerate(op.inputs)
      if passes.get(tensor.op) == (passes[op].stage, Phase.FORWARD)
      and tensor.op not in kept
    ]
    again: set[tf.Operation] = set()
    todo = [tensor.op for _, _, tensor in reads]
    while todo:
      op = todo.pop()
      if op in again:
        continue
      again.add(op)
      todo.extend(
        tensor.op
        for tensor in op.inputs
        if passes.get(tensor.op) == passes[op] and tensor.op not in kept
      )
    made = []
    for stage in {passes[op].stage for op in again}:
      home = clones_lib.Home("recompute")
      clones = self._clones.setdefault(stage, clones_lib.Clones([home]))
      new = [
        op
        for op in ops
        if op in again
        and passes[op].stage == stage
        and op.outputs[0] not in clones
      ]
      clones.add(new)
      copies = [clones.op(0, op) for op in new]
      self.copies.update(dict.fromkeys(copies, stage))
      made += copies
    for op, index, tensor in reads:
      self.redirected[op, index] = tensor
      copy = self._clones[passes[op].stage].of(tensor)[0]
      graph_edits.replace_input(op, index, copy)
    return made

  def _kept(self, ops: Sequence[tf.Operation]) -> set[tf.Operation]:
    """Returns the ops that are not run again."""
    kept: set[tf.Operation] = set()
    random: set[tf.Operation] = set()
    for op in ops:
      has_seed = any(a.name == "seed2" for a in op.op_def.attr)
      has_state = has_seed or op.op_def.is_stateful or not op.outputs
      if has_state or graph_reads.outermost_loop(op) is not None:
        kept.add(op)
        if has_seed and op.op_def.is_stateful:
          random.add(op)
      # What is made of random numbers alone, until they are a mask.
      elif any(
        t.op in random and t.dtype != tf.bool for t in op.inputs
      ) and all(
        t.op in random or not self._differs(t) or t.dtype.is_integer
        for t in op.inputs
      ):
        kept.add(op)
        random.add(op)
    return kept
