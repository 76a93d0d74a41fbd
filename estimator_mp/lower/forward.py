"""Forward passes: evaluation and prediction, in micro-batches.

    [ops once] -> cut -> clones of each micro-batch -> joined -> [ops once]

The graph is the plain one, of the whole batch. What `forward_planner` has found
to be done part by part is cloned for each micro-batch, and whoever else reads
it reads the parts joined. The originals run for nobody, but for a hook that
fetches them by name.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from compat.private import graph_edits
from estimator_mp import mesh as mesh_lib
from estimator_mp.capture import micro_batches
from estimator_mp.config.schedules.schedule import Cell, Schedule
from estimator_mp.graph import clones as clones_lib
from estimator_mp.lower import merging, ordering
from estimator_mp.pipeline import cells as cells_lib
from estimator_mp.plan import sharding_plan
from estimator_mp.plan.forward_planner import Cut, ForwardPlan

import tensorflow as tf


class ForwardPass:
  """Lets micro-batches of one graph pass the stages."""

  def __init__(
    self, plan: ForwardPlan, parts: micro_batches.Parts, schedule: Schedule
  ):
    """Starts with nothing cloned.

    Args:
      plan: What is done part by part.
      parts: Where parts of the batch begin, and how long they are.
      schedule: In which order micro-batches pass the stages.
    """
    self._plan = plan
    self._parts = parts
    self._schedule = schedule
    self._clones = clones_lib.Clones(
      [
        clones_lib.Home(f"micro_batch_{number}")
        for number in range(schedule.num_micro_batches)
      ]
    )
    self._joined: dict[str, tf.Tensor] = {}
    self._ops = {op for ops in plan.rounds for op in ops}
    self._cells: dict[str, Cell] = {}

  def lower(
    self, spec: tf.estimator.EstimatorSpec, stages: Mapping[tf.Operation, int]
  ) -> tf.estimator.EstimatorSpec:
    """Clones what is done part by part, and joins what others read of it.

    Args:
      spec: What model_fn returned.
      stages: The stages of ops.

    Returns:
      The spec, with what is joined.
    """
    graph = tf.compat.v1.get_default_graph()
    others = [op for op in graph.get_operations() if op not in self._ops]
    read = {
      x.name: x
      for ops in self._plan.rounds
      for op in ops
      for x in op.inputs
      if x.name in self._plan.cuts
    }
    for name, tensor in read.items():
      self._clones.pair(tensor, self._cut(tensor, self._plan.cuts[name]))
    for ops in self._plan.rounds:
      self._clones.add(ops)
    # Shapes are made of whole tensors for those who do it once.
    shapes = [
      op
      for ops in self._plan.rounds
      for op in ops
      if not any(x.name in self._plan.joins for x in op.outputs)
    ]
    for op in (*others, *shapes):
      self._read_joined(op)
    self._order(stages)
    return spec._replace(
      predictions=self._whole(spec.predictions), loss=self._whole(spec.loss)
    )

  def plan(self, mesh: mesh_lib.Mesh) -> sharding_plan.PipelinePlan:
    """Returns how micro-batches run, once `lower` has returned.

    Args:
      mesh: The mesh.
    """
    cells = (MappingProxyType(self._cells),)
    return sharding_plan.PipelinePlan(mesh, self._schedule, cells)

  def _whole(self, tensors: Any) -> Any:
    """Returns joined tensors in place of those that are made part by part."""
    return tf.nest.map_structure(
      lambda x: self._join(x) if self._is_by_parts(x) else x, tensors
    )

  def _is_by_parts(self, tensor: Any) -> bool:
    return tf.is_tensor(tensor) and tensor.name in self._plan.joins

  def _read_joined(self, op: tf.Operation) -> None:
    """Lets an op that is there once read what all parts make."""
    for index, tensor in enumerate(op.inputs):
      if self._is_by_parts(tensor):
        graph_edits.replace_input(op, index, self._join(tensor))
    waits = list(op.control_inputs)
    if not self._ops.isdisjoint(waits):
      found = [x for c in waits for x in self._standing_for(c)]
      graph_edits.set_control_inputs(op, found)

  def _standing_for(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns what to wait for instead of an op."""
    if op not in self._ops:
      return [op]
    return [self._clones.op(i, op) for i in range(self._clones.count)]

  def _cut(self, tensor: tf.Tensor, cut: Cut) -> list[tf.Tensor]:
    """Returns a tensor's parts, on its device."""
    with merging.outside(tensor.device, tensor.dtype):
      return self._parts.cut(tensor, cut.axis, cut.per_example)

  def _join(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns what all parts make."""
    if tensor.name not in self._joined:
      cut = self._plan.joins[tensor.name]
      with merging.outside(tensor.device, tensor.dtype):
        whole = self._parts.join(
          self._clones.of(tensor), cut.axis, cut.per_example, tensor.shape.rank
        )
      whole.set_shape(tensor.shape)
      self._joined[tensor.name] = whole
    return self._joined[tensor.name]

  def _order(self, stages: Mapping[tf.Operation, int]) -> None:
    """Orders the cells of each round."""
    for ops in self._plan.rounds:
      of_ops = {op: stages[op] for op in ops if op in stages}
      passes = cells_lib.passes_of_ops(ops, (), of_ops)
      ends = cells_lib.ends_of_passes(self._schedule, passes, stages)
      ordering.order_cells(self._schedule, ends, self._clones.op, {}, {})
      for op, (stage, phase) in passes.items():
        for number in range(self._clones.count):
          cell = Cell(stage, number, phase)
          self._cells[self._clones.op(number, op).name] = cell
