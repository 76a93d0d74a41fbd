"""Stages: the stage of each op of a graph, decided while model_fn builds it.

    the forward graph        by the user's marks or a strategy; the rest of it
                             by propagation
    gradients                beside their forward ops and variables
    updates, slots, metrics  by propagation, when model_fn has returned

Nothing here gives an op a device.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compat.private import graph_reads
from estimator_mp import mesh as mesh_lib
from estimator_mp.capture import graph_checks
from estimator_mp.config import placement as placement_lib
from estimator_mp.config import sharding_config
from estimator_mp.graph import (
  colocation,
  device_assignment,
  op_types,
  savers,
  shapes,
)
from estimator_mp.graph.ledger import Ledger
from estimator_mp.placement import costs, evenness, propagation, strategies

import tensorflow as tf

Stages = Mapping[tf.Operation, int]


class StagePlanner:
  """Decides the stages of one graph.

  Attributes:
    ops: The ops of the model, in the order in which they were made.
    stages: Those of `ops` that have a stage, with it.
  """

  def __init__(
    self,
    config: sharding_config.ShardingConfig,
    mesh: mesh_lib.Mesh,
    mode: str,
    ledger: Ledger,
    saved: placement_lib.Placement | None = None,
  ):
    """Starts without an op.

    Args:
      config: How the model is placed.
      mesh: The mesh.
      mode: The purpose of the graph, a `tf.estimator.ModeKeys`; for messages.
      ledger: The ops that lowering made in the graph, and for which op each.
      saved: The placement that training used, if this graph is for something
        else.
    """
    self.ops: list[tf.Operation] = []
    self.stages: dict[tf.Operation, int] = {}
    self._strategy = strategies.make_strategy(
      config, mesh.axis_size("stage"), saved, mode
    )
    # A user who places by name may place parts himself, too.
    self._may_be_marked = placement_lib.is_strategy(config.placement)
    self._mesh = mesh
    self._trains = mode == tf.estimator.ModeKeys.TRAIN
    self._ledger = ledger
    self._groups = colocation.ColocationGroups()
    self._of_savers: set[tf.Operation] = set()
    self._is_marked: bool | None = None

  def add(self, ops: Sequence[tf.Operation]) -> set[tf.Operation]:
    """Adds ops; those that do another one's work are where that is.

    Args:
      ops: New ops, in the order in which they were made.

    Returns:
      Those that belong to Savers: they follow variables, whatever their device.
    """
    self.ops += ops
    self._groups.add(ops)
    of_savers = savers.saver_ops(ops)
    self._of_savers |= of_savers
    self.follow(ops)
    return of_savers

  def adopt_devices(self, ops: Sequence[tf.Operation]) -> None:
    """Takes over the stages of ops that have a device of the mesh already.

    Args:
      ops: Ops that were added.
    """
    own = [op for op in ops if op not in self._of_savers]
    mesh = self._mesh
    devices = [
      mesh.model_devices(stage=k) for k in range(mesh.axis_size("stage"))
    ]
    self.stages |= device_assignment.stages_of_devices(own, devices)

  def follow(self, ops: Iterable[tf.Operation]) -> None:
    """Decides that ops are on the stages of those whose work they do.

    Their devices do not say that: virtual stages share these.

    Args:
      ops: Ops, of which lowering may have made some.
    """
    for op in ops:
      stage = self.stages.get(self._ledger.made_for.get(op, op))
      if stage is not None:
        self.stages.setdefault(op, stage)

  def stage_of(self, op: tf.Operation) -> int:
    """Returns the stage of an op, or of that whose work it does; else 0.

    Args:
      op: An op of the graph.
    """
    while op not in self.stages and op in self._ledger.made_for:
      op = self._ledger.made_for[op]
    return self.stages.get(op, 0)

  def devices_along(self, axis: str, op: tf.Operation) -> list[str]:
    """Returns the devices of an axis that are of the stage of an op."""
    stage = self.stage_of(op)
    return [
      self._mesh.device(**{"stage": stage, axis: i})
      for i in range(self._mesh.axis_size(axis))
    ]

  def plan_forward(
    self, new: Sequence[tf.Operation], targets: Sequence[tf.Operation]
  ) -> Stages:
    """Decides the stages of a forward graph, or of a further part of one.

    Args:
      new: The ops that were added since the last part.
      targets: The targets of gradients, or the results.

    Returns:
      Stages that ops did not have before.

    Raises:
      ValueError: If the model cannot be placed as the configuration says.
    """
    self.adopt_devices(new)
    if self._is_marked is None:
      marked = [op for op in new if op not in self._of_savers]
      graph_checks.check_no_marks(marked, self._mesh)
      graph_checks.check_loops(new, self.stages)
      marks = {self.stages[op] for op in new if op in self.stages}
      self._is_marked = len(marks) > 1
    placed = {self._groups.of(op) for op in self.stages if op in self._groups}
    unplaced = [
      op
      for op in self.ops
      if self._groups.of(op) not in placed and op not in self._of_savers
    ]
    without_stage = [op for op in self.ops if op not in self.stages]
    if not self._follows_marks():
      self.stages |= self._strategy.stages_of(unplaced, targets, self._groups)
    return self.propagate(without_stage, propagation.Follows.LATEST_INPUT)

  def plan_gradients(
    self,
    new: Sequence[tf.Operation],
    sources: Sequence[Any],
    gradients: Iterable[Any],
  ) -> None:
    """Decides that gradients are on their variables' stages.

    Args:
      new: The ops that were made for them.
      sources: With respect to what they are.
      gradients: A tensor, `IndexedSlices` or None for each source.
    """
    self.adopt_devices(new)
    for source, gradient in zip(sources, gradients, strict=True):
      source_op = getattr(source, "handle", source).op
      if gradient is None or source_op not in self.stages:
        continue
      for part in tf.nest.flatten(gradient, expand_composites=True):
        if not part.op.device:
          self.stages.setdefault(part.op, self.stages[source_op])

  def propagate(
    self, ops: Sequence[tf.Operation], follows: propagation.Follows
  ) -> Stages:
    """Decides the stages of ops by those of what they read and feed.

    Args:
      ops: Ops that were added.
      follows: Which of their inputs they follow.

    Returns:
      The stages of those that are connected to one that has a stage.
    """
    found = propagation.propagate(ops, self._groups, self.stages, follows)
    self.stages |= found
    return found

  def plan_rest(self) -> Stages:
    """Decides the stages of updates, slots and whatever else has none yet."""
    rest = [op for op in self.ops if op not in self.stages]
    return self.propagate(rest, propagation.Follows.LARGEST_INPUT)

  def check(self) -> None:
    """Raises if the whole model and its placement do not suit each other.

    Raises:
      ValueError: If a rule, or a trainable variable, has no counterpart, or the
        parts of the model do not suit the mesh.
    """
    if not self._follows_marks():
      self._strategy.check(self.ops)
    if self._trains and self._mesh.axis_size("stage") > 1:
      self._warn_of_one_stage()

  def _warn_of_one_stage(self) -> None:
    """Warns if one stage has the variables and the work of the whole model.

    That of the other stages could be a table: then it has the variables alone.
    """
    num_stages = self._mesh.axis_size("stage")
    num_bytes, seconds = [0.0] * num_stages, [0.0] * num_stages
    for op in op_types.variables_of(self.ops):
      if op in self.stages:
        num_bytes[self.stages[op]] += shapes.variable_bytes(op)
    stage = evenness.has_all(num_bytes)
    if stage is None:
      return
    forward = [
      op
      for op in self.ops
      if op in self.stages and graph_reads.differentiated(op) is None
    ]
    for op, cost in costs.op_costs(forward).items():
      seconds[self.stages[op]] += cost.seconds
    if evenness.has_all(seconds) == stage:
      tf.compat.v1.logging.warning(
        "stage %d has all of the model, so the other stages of mesh=%r only "
        "wait; give layers to each of them by rules of placement, or use "
        'placement="auto" or a data axis',
        *(stage, str(self._mesh)),
      )

  def _follows_marks(self) -> bool:
    """Whether the user's marks place the model."""
    return bool(self._is_marked) and self._may_be_marked
