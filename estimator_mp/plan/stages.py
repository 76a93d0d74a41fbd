"""The stages of a finished graph: each op of a step on one of them.

    the forward graph        by the user's marks or a strategy; the rest of it
                             by propagation
    gradients                with the ops that they are the gradients of
    updates, slots, metrics  by propagation

Nothing here gives an op a device.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence

from compat.private import graph_reads
from estimator_mp import mesh as mesh_lib
from estimator_mp.analysis.symbolic_shapes import MEASURES
from estimator_mp.capture import graph_checks
from estimator_mp.config import placement as placement_lib
from estimator_mp.config import sharding_config
from estimator_mp.graph import (
  colocation,
  device_assignment,
  op_types,
  savers,
  shapes,
  traversal,
  variables,
)
from estimator_mp.placement import costs, evenness, propagation, strategies
from estimator_mp.plan.purpose import TRAINING, Purpose
from estimator_mp.plan.step_graph import StepGraph

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
    purpose: Purpose,
  ):
    """Starts without an op.

    Args:
      config: How the model is placed.
      mesh: The mesh.
      purpose: The purpose of the graph.
    """
    self.ops: list[tf.Operation] = []
    self.stages: dict[tf.Operation, int] = {}
    self._strategy = strategies.make_strategy(
      config, mesh.axis_size("stage"), purpose.saved, purpose.mode
    )
    # A user who places by name may place parts himself, too.
    self._may_be_marked = placement_lib.is_strategy(config.placement)
    self._mesh = mesh
    self._trains = purpose.trains
    self._groups = colocation.ColocationGroups()
    self._of_savers: set[tf.Operation] = set()
    self._is_marked = False

  def add(self, ops: Sequence[tf.Operation]) -> None:
    """Adds ops.

    Args:
      ops: New ops, in the order in which they were made.
    """
    self.ops += ops
    self._groups.add(ops)
    self._of_savers |= savers.saver_ops(ops)

  def inherit_devices(self, ops: Sequence[tf.Operation]) -> None:
    """Takes over the stages of ops that have a device of the mesh already.

    Args:
      ops: Ops that were added.
    """
    of_model = [op for op in ops if op not in self._of_savers]
    mesh = self._mesh
    devices = [
      mesh.model_devices(stage=k) for k in range(mesh.axis_size("stage"))
    ]
    self.stages |= device_assignment.stages_of_devices(of_model, devices)

  def plan_forward(self, targets: Sequence[tf.Operation]) -> None:
    """Decides the stages of the forward graph: of all ops that were added.

    Args:
      targets: The targets of gradients, or the results.

    Raises:
      ValueError: If the model cannot be placed as the configuration says.
    """
    self.inherit_devices(self.ops)
    marked = [op for op in self.ops if op not in self._of_savers]
    graph_checks.check_no_marks(marked, self._mesh)
    graph_checks.check_loops(self.ops, self.stages)
    self._is_marked = len(set(self.stages.values())) > 1
    placed = {self._groups.of(op) for op in self.stages}
    unplaced = [op for op in marked if self._groups.of(op) not in placed]
    without_stage = [op for op in self.ops if op not in self.stages]
    if not self._follows_marks():
      self.stages |= self._strategy.stages_of(unplaced, targets, self._groups)
    self.propagate(without_stage, propagation.Follows.LATEST_INPUT)

  def propagate(
    self, ops: Sequence[tf.Operation], follows: propagation.Follows
  ) -> None:
    """Decides the stages of ops by those of their inputs and readers.

    Args:
      ops: Ops that were added.
      follows: Which of their inputs they follow.
    """
    self.stages |= propagation.propagate(
      ops, self._groups, self.stages, follows
    )

  def plan_unplaced(self) -> None:
    """Decides the stages of ops without one, such as updates and slots."""
    ops = [op for op in self.ops if op not in self.stages]
    self.propagate(ops, propagation.Follows.LARGEST_INPUT)

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
    return self._is_marked and self._may_be_marked


def find_backward(step: StepGraph) -> set[tf.Operation]:
  """Returns the ops of a graph that come after the forward pass.

  Args:
    step: The graph of a step.
  """
  every = step.graph.get_operations()
  values = [op for op in every if op.type not in MEASURES]
  starts = [tensor.op for tensor in step.of_examples]
  of_values = set(traversal.descendants(starts, values))
  return set(backward_of(every, of_values))


def backward_of(
  ops: Sequence[tf.Operation], depends: Collection[tf.Operation]
) -> list[tf.Operation]:
  """Returns the ops that come after the forward pass.

  These depend on an op of a gradient: the backward pass, and the update in the
  end. The lists in which a loop keeps its activations were made for its
  gradient, too, but before there is a value of the batch: they have sizes.

  Args:
    ops: The ops of a step, each after those that it reads.
    depends: Those that depend on values of the batch.
  """
  gradients = [
    op for op in ops if op in depends and graph_reads.is_of_gradient(op)
  ]
  return traversal.descendants(gradients, ops)


def plan_stages(
  ops: Sequence[tf.Operation],
  backward: Collection[tf.Operation],
  config: sharding_config.ShardingConfig,
  mesh: mesh_lib.Mesh,
  purpose: Purpose = TRAINING,
) -> Stages:
  """Decides the stage of each op.

  The forward pass is placed by the user's marks, or a strategy; ops of
  gradients are with the ops that they are the gradients of; the rest follows
  its inputs.

  Args:
    ops: The ops of the graph but those of the input, in its order.
    backward: Those that come after the forward pass.
    config: How the model is placed.
    mesh: The mesh.
    purpose: The purpose of the graph.

  Raises:
    ValueError: If the model cannot be placed as the configuration says.
  """
  of_gradients = {x for op in backward for x in differentiated(op)}
  of_gradients |= {x.op for x in purpose.results}
  known = [op for op in ops if op in of_gradients and op not in backward]
  before = set(
    traversal.ancestors([x for op in known for x in traversal.inputs(op)], ops)
  )
  targets = [op for op in known if op not in before]
  leading = {
    op
    for op in traversal.ancestors(targets, ops)
    if not graph_reads.is_of_gradient(op)  # As the lists of a loop are.
  }
  # Ops that are older than gradients, such as metrics, are of the forward
  # pass, too.
  leading.update(
    itertools.takewhile(lambda op: not graph_reads.is_of_gradient(op), ops)
  )
  forward = [op for op in ops if op in leading]
  others = [op for op in ops if op not in leading]
  planner = StagePlanner(config, mesh, purpose)
  planner.add(forward)
  planner.plan_forward(targets)
  planner.add(others)
  planner.inherit_devices(others)
  for op in others:
    of_op = graph_reads.differentiated(op)
    while of_op is not None and of_op not in planner.stages:
      of_op = graph_reads.differentiated(of_op)
    if of_op is None:
      of_op = _variable(op)
    if of_op in planner.stages:
      planner.stages.setdefault(op, planner.stages[of_op])
  planner.propagate(others, propagation.Follows.LARGEST_INPUT)
  planner.plan_unplaced()
  for op in others:
    variable = _variable(op)
    # No handle is sent to another device.
    if op.type in op_types.PASSES_HANDLE and variable in planner.stages:
      planner.stages[op] = planner.stages[variable]
    if op_types.is_call(op) and _spans_stages(op, planner.stages):
      # TensorFlow takes it apart, and places each op beside its variable.
      planner.stages.pop(op, None)
  planner.check()
  return planner.stages


def _spans_stages(call: tf.Operation, stages: Stages) -> bool:
  """Whether the functions of a call use variables of several stages."""
  handles = [x for x in call.inputs if op_types.is_resource(x)]
  used = {stages.get(variables.variable_of(x)) for x in handles}
  return len(used - {None}) > 1


def _variable(op: tf.Operation) -> tf.Operation | None:
  """Returns the variable whose handle an op gets, in a branch as well.

  A call may get those of many, and is where most of its inputs are. A reference
  is one where it is written; a reader gets its value.
  """
  if op_types.is_call(op):
    return None
  handles = [x for x in op.inputs if op_types.is_handle(x)]
  if any(map(op_types.is_reference, handles)):
    written = set(variables.written_states(op))
    handles = [x for x in handles if op_types.is_resource(x) or x in written]
  return variables.variable_of(handles[0]) if handles else None


def differentiated(op: tf.Operation) -> list[tf.Operation]:
  """Returns the ops that an op takes the gradient of; of a tape's its inputs.

  Args:
    op: An op of a gradient, or any other one.
  """
  of_op = graph_reads.differentiated(op)
  if of_op is not None:
    return [of_op]
  return traversal.inputs(op) if graph_reads.is_of_gradient(op) else []
