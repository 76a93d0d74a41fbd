"""Runs: ops of slices that wait for no other slice, and their gradients.

A run is one segment of the model (`plan.segments`): its cells pass the stages
in the order of the schedule, and its gradients are added up as they come.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from estimator_mp.config.schedules.schedule import Cell, Phase, Schedule
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import traversal
from estimator_mp.graph.clones import Clones
from estimator_mp.graph.waits import AS_THEY_ARE
from estimator_mp.lower import accumulation as accumulation_lib
from estimator_mp.lower import ordering
from estimator_mp.pipeline import cells as cells_lib
from estimator_mp.pipeline import weight_products
from estimator_mp.plan.bridge import Bridge
from estimator_mp.plan.finish_plan import RunPlan

import tensorflow as tf

Stages: TypeAlias = Mapping[tf.Operation, int]


class Run:
  """One segment of all slices.

  Attributes:
    ops: The ops of slice 0, in order.
    gradients: The bridges at which its gradients are added up.
    recomputed: The ops that compute activations again, with their stages.
    passes: The pass through a stage that each op is part of.
  """

  def __init__(
    self, plan: RunPlan, schedule: Schedule, stages: Stages, clones: Clones
  ):
    """Starts with the ops of slice 0.

    Args:
      plan: The segment, with the ops of slice 0.
      schedule: The schedule.
      stages: The stages of ops.
      clones: All slices but the first, which are still to be made.
    """
    self.ops = list(plan.ops)
    self.gradients = plan.gradients
    self.recomputed: dict[tf.Operation, int] = {}
    self.passes = plan.passes
    self._plan = plan
    self._schedule = schedule
    self._stages = stages
    self._clones = clones
    self._accumulation = accumulation_lib.Accumulation(clones, schedule)

  def add_recomputed(
    self,
    ops: Mapping[tf.Operation, int],
    backward: Collection[tf.Operation],
  ) -> None:
    """Adds ops that compute activations again, with their stages."""
    self.recomputed = dict(ops)
    self.ops = traversal.in_order([*self.ops, *ops])
    self.passes = (
      dataclasses.replace(self._plan, ops=self.ops)
      .settled(self._schedule, backward, {**self._stages, **ops}, AS_THEY_ARE)
      .passes
    )

  def totals(
    self, bridges: Sequence[Bridge]
  ) -> dict[tf.Operation, Sequence[gradient_lib.Gradient]]:
    """Returns the sums of gradients over the slices of each replica.

    Args:
      bridges: Some of `gradients`, which are not sparse.

    Returns:
      For each bridge's op that of each replica.
    """
    turns, elsewhere = self._turns()
    products = self._plan.products
    found: dict[tf.Operation, Sequence[gradient_lib.Gradient]] = {}
    for bridge in bridges:
      product = products.get(bridge.op)
      if product is not None:
        of_pass = weight_products.pass_of_product(
          product.op, self.passes, self._stages, self._schedule
        )
        of_product = self._accumulation.totals_of_products(product, of_pass)
        found[bridge.op] = of_product
      else:
        found[bridge.op] = self._accumulation.totals(
          bridge.source, turns, elsewhere
        )
    return found

  def _turns(
    self,
  ) -> tuple[dict[tf.Operation, cells_lib.Pass], set[tf.Operation]]:
    """Returns in which pass gradients are, and which ops on other devices."""
    device_of = self._schedule.device_of
    elsewhere = {
      op
      for op, of_op in self.passes.items()
      if op in self._stages
      and device_of(self._stages[op]) != device_of(of_op.stage)
    }
    turns = {
      op: cells_lib.Pass(stage, max(phase, Phase.BACKWARD))
      for op, (stage, phase) in self.passes.items()
    }
    return turns, elsewhere

  def order(
    self,
    kept: Collection[int],
    of_replicas: Sequence[dict[str, Cell]],
  ) -> None:
    """Orders the cells, and says which cell each op is in.

    Args:
      kept: The micro-batches that compute no activations again.
      of_replicas: For each replica the cells of ops, by name; those of this
        run are added.
    """
    schedule, clones = self._schedule, self._clones
    stages = {**self._stages, **self.recomputed}
    ends = cells_lib.ends_of_passes(schedule, self.passes, stages)

    def op_of(
      replica: int, micro_batch: int, op: tf.Operation
    ) -> tf.Operation | None:
      if op in self.recomputed and micro_batch in kept:
        return None
      number = replica * schedule.num_micro_batches + micro_batch
      return op if number == 0 else clones.op(number - 1, op)

    for replica, of_replica in enumerate(of_replicas):
      own = functools.partial(op_of, replica)
      ordering.order_cells(
        schedule,
        ends,
        own,
        self._accumulation.sums_of_replica(replica),
        self._accumulation.sums_elsewhere(replica),
      )
      for micro_batch in range(schedule.num_micro_batches):
        for op in self.passes:
          copy = own(micro_batch, op)
          if copy is not None:
            of_op = self.passes[op]
            cell = Cell(of_op.stage, micro_batch, of_op.phase)
            of_replica[copy.name] = cell


def flat(tensors: Any) -> list[tf.Tensor]:
  """Returns tensors that are there.

  Args:
    tensors: Gradients: tensors, `IndexedSlices` or None.
  """
  found = tf.nest.flatten(tensors, expand_composites=True)
  return [x for x in found if x is not None]
