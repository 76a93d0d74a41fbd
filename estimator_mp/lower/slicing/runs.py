"""Runs: what slices do without waiting for each other, and its gradients.

A run is one segment of the model (`plan.segments`): its cells pass the stages
in the order of the schedule, and its gradients are added up as they come.
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from estimator_mp.config.schedules.schedule import Cell, Phase, Schedule
from estimator_mp.graph import clones as clones_lib
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.lower import accumulation as accumulation_lib
from estimator_mp.lower import ordering
from estimator_mp.lower.slicing.bridges import Bridge
from estimator_mp.pipeline import cells as cells_lib
from estimator_mp.pipeline import weight_products

import tensorflow as tf

Stages: TypeAlias = Mapping[tf.Operation, int]

_READ = "ReadVariableOp"


class Run:
  """One segment of slice 0.

  Attributes:
    ops: The ops, in order.
    gradients: The bridges at which its gradients are added up.
    recomputed: The ops that compute activations again, with their stages.
    passes: Which pass through which stage each op is part of, as `settle` has
      found.
  """

  def __init__(self, backward: Collection[tf.Operation]):
    """Starts without an op.

    Args:
      backward: What was made for gradients, of all segments.
    """
    self.ops: list[tf.Operation] = []
    self.gradients: list[Bridge] = []
    self.recomputed: dict[tf.Operation, int] = {}
    self.passes: Mapping[tf.Operation, cells_lib.Pass] = {}
    self._backward = backward
    # What several micro-batches make at once, by the ops of bridges.
    self._products: dict[tf.Operation, weight_products.WeightProduct] = {}
    self._accumulation: accumulation_lib.Accumulation | None = None
    self._schedule: Schedule | None = None
    self._stages: Stages = {}

  def made_of(self, bridge: Bridge) -> list[tf.Tensor]:
    """Returns what slice 0 makes for a gradient.

    Args:
      bridge: One of `gradients`.
    """
    product = self._products.get(bridge.op)
    if product is not None:
      return list(product.op.inputs)
    if bridge.together is not None:
      return [bridge.source, bridge.together.source]
    return [bridge.source]

  def plan_products(
    self,
    mode: str,
    schedule: Schedule,
    stages: Stages,
    cut: clones_lib.Clones,
  ) -> list[tf.Operation]:
    """Decides which gradients several micro-batches make at once.

    They do not where an update may come before a read, as of variables of
    TensorFlow 1.

    Args:
      mode: As `ShardingConfig.weight_gradients`.
      schedule: The schedule.
      stages: The stages of ops.
      cut: Knows what slices read of inputs that were cut.

    Returns:
      The ops that multiply.
    """
    inside = set(self.ops)
    of_round = schedule.num_micro_batches // schedule.num_rounds
    for bridge in self.gradients:
      is_sparse = bridge.together is not None
      if is_sparse or bridge.of is None or bridge.of.op.type != _READ:
        continue
      product = weight_products.plan_product(
        bridge.source, mode, of_round, self._backward, stages
      )
      if product is not None and all(
        x.op in inside or x in cut for x in product.op.inputs
      ):
        self._products[bridge.op] = product
    return [product.op for product in self._products.values()]

  def settle(self, stages: Stages, schedule: Schedule) -> None:
    """Finds `passes`, whenever ops or the schedule have changed.

    Args:
      stages: The stages of ops.
      schedule: The schedule.
    """
    self._stages, self._schedule = stages, schedule
    makers: list[set[tf.Operation]] = []
    if schedule.splits_backward:
      makers = [{x.op for x in self.made_of(y)} for y in self.gradients]
    of_ops = {op: stages[op] for op in self.ops if op in stages}
    of_ops |= self.recomputed
    self.passes = cells_lib.passes_of_ops(
      self.ops, self._backward, of_ops, makers
    )

  def start_sums(self, clones: clones_lib.Clones) -> None:
    """Starts to add gradients up, once there are all slices.

    Args:
      clones: All slices but the first.
    """
    assert self._schedule is not None
    self._accumulation = accumulation_lib.Accumulation(clones, self._schedule)

  def totals(
    self, bridges: Sequence[Bridge], by_calls: bool
  ) -> dict[tf.Operation, Sequence[gradient_lib.Gradient]]:
    """Returns the sums of gradients over the slices of each replica.

    Args:
      bridges: Some of `gradients`, which are not sparse.
      by_calls: Whether functions add them up where they can.

    Returns:
      For each bridge's op that of each replica.
    """
    assert self._accumulation is not None and self._schedule is not None
    turns, elsewhere = self._turns()
    plain = [x for x in bridges if x.op not in self._products]
    known: dict[str, list[tf.Tensor]] = {}
    if by_calls:
      sources = [x.source for x in plain]
      known = self._accumulation.totals_by_calls(sources, turns, elsewhere)
    found: dict[tf.Operation, Sequence[gradient_lib.Gradient]] = {}
    for bridge in bridges:
      product = self._products.get(bridge.op)
      if product is not None:
        of_pass = weight_products.pass_of_product(
          product.op, self.passes, self._stages, self._schedule
        )
        of_product = self._accumulation.totals_of_products(product, of_pass)
        found[bridge.op] = of_product
      elif bridge.source.name in known:
        found[bridge.op] = known[bridge.source.name]
      else:
        found[bridge.op] = self._accumulation.totals(
          bridge.source, turns, elsewhere
        )
    return found

  def _turns(
    self,
  ) -> tuple[dict[tf.Operation, cells_lib.Pass], set[tf.Operation]]:
    """Returns in which pass gradients are, and which ops on other devices."""
    assert self._schedule is not None
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
    clones: clones_lib.Clones,
    kept: Collection[int],
    of_replicas: Sequence[dict[str, Cell]],
  ) -> None:
    """Orders the cells, and says which cell each op is in.

    Args:
      clones: All slices but the first.
      kept: The micro-batches that compute no activations again.
      of_replicas: For each replica the cells of ops, by name; those of this
        run are added.
    """
    assert self._accumulation is not None and self._schedule is not None
    schedule = self._schedule
    stages = {**self._stages, **self.recomputed}
    ends = cells_lib.ends_of_passes(schedule, self.passes, stages)

    def op_of(
      replica: int, micro_batch: int, op: tf.Operation
    ) -> tf.Operation | None:
      if op in self.recomputed and micro_batch in kept:
        return None
      number = replica * schedule.num_micro_batches + micro_batch
      return op if number == 0 else clones.op(number - 1, op)

    # Those of clones: a call stands for several ops.
    ones = {clones.name_in_clones(op): op for op in self.passes}.values()
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
        is_first = replica == 0 and micro_batch == 0
        for op in self.passes if is_first else ones:
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
