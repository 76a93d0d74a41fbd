"""The stages of a finished graph: each op of a step on one of them.

    the forward graph        by the user's marks or a strategy; the rest of it
                             by propagation
    gradients                with the ops that they are the gradients of
    updates, slots, metrics  by propagation

Nothing here gives an op a device.
"""

import itertools
from collections.abc import Collection, Sequence

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
from estimator_mp.placement.unplaced import Stages, Unplaced
from estimator_mp.planning.purpose import TRAINING, Purpose
from estimator_mp.planning.step_graph import StepGraph

import tensorflow as tf


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


def plan_forward(
  ops: Sequence[tf.Operation],
  targets: Sequence[tf.Operation],
  groups: colocation.ColocationGroups,
  config: sharding_config.ShardingConfig,
  mesh: mesh_lib.Mesh,
  purpose: Purpose = TRAINING,
  model: Sequence[tf.Operation] = (),
) -> dict[tf.Operation, int]:
  """Decides the stages of the forward graph, by marks or a strategy.

  Args:
    ops: The ops of the forward graph, in the order in which they were made.
    targets: The targets of gradients, or the results.
    groups: The colocation groups of the ops.
    config: How the model is placed.
    mesh: The mesh.
    purpose: The purpose of the graph.
    model: All ops of the model; by default, those of the forward graph.

  Raises:
    ValueError: If the model cannot be placed as the configuration says.
  """
  stages = _marked(ops, mesh)
  of_savers = savers.saver_ops(ops)
  of_model = [op for op in ops if op not in of_savers]
  graph_checks.check_no_marks(of_model, mesh)
  graph_checks.check_loops(ops, stages)
  # A user who places by name may place parts himself, too.
  by_name = not placement_lib.is_strategy(config.placement)
  without_stage = [op for op in ops if op not in stages]
  if by_name or len(set(stages.values())) <= 1:
    placed = {groups.of(op) for op in stages}
    stages |= strategies.stages_of(
      Unplaced(
        [op for op in of_model if groups.of(op) not in placed],
        targets,
        groups,
        model or ops,
      ),
      config,
      mesh.axis_size("stage"),
      purpose.saved,
      purpose.mode,
      purpose.unmatched,
    )
  latest = propagation.Follows.LATEST_INPUT
  return stages | propagation.propagate(without_stage, groups, stages, latest)


def _marked(
  ops: Sequence[tf.Operation], mesh: mesh_lib.Mesh
) -> dict[tf.Operation, int]:
  """Returns the stages of ops that have a device of the mesh already."""
  of_savers = savers.saver_ops(ops)
  devices = [
    mesh.model_devices(stage=k) for k in range(mesh.axis_size("stage"))
  ]
  of_model = [op for op in ops if op not in of_savers]
  return device_assignment.stages_of_devices(of_model, devices)


def _warn_of_one_stage(
  ops: Sequence[tf.Operation], stages: Stages, mesh: mesh_lib.Mesh
) -> None:
  """Warns if one stage has the variables and the work of the whole model.

  That of the other stages could be a table: then it has the variables alone.
  """
  num_stages = mesh.axis_size("stage")
  num_bytes, seconds = [0.0] * num_stages, [0.0] * num_stages
  for op in op_types.variables_of(ops):
    if op in stages:
      num_bytes[stages[op]] += shapes.variable_bytes(op)
  stage = evenness.has_all(num_bytes)
  if stage is None:
    return
  forward = [
    op for op in ops if op in stages and graph_reads.differentiated(op) is None
  ]
  for op, cost in costs.op_costs(forward).items():
    seconds[stages[op]] += cost.seconds
  if evenness.has_all(seconds) == stage:
    tf.compat.v1.logging.warning(
      "stage %d has all of the model, so the other stages of mesh=%r only "
      "wait; give layers to each of them by rules of placement, or use "
      'placement="auto" or a data axis',
      *(stage, str(mesh)),
    )


def plan_stages(
  ops: Sequence[tf.Operation],
  backward: Collection[tf.Operation],
  config: sharding_config.ShardingConfig,
  mesh: mesh_lib.Mesh,
  purpose: Purpose = TRAINING,
) -> dict[tf.Operation, int]:
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
  groups = colocation.ColocationGroups()
  groups.add(forward)
  stages = plan_forward(forward, targets, groups, config, mesh, purpose, ops)
  groups.add(others)
  stages |= _marked(others, mesh)
  for op in others:
    of_op = graph_reads.differentiated(op)
    while of_op is not None and of_op not in stages:
      of_op = graph_reads.differentiated(of_op)
    if of_op is None:
      of_op = _variable(op)
    if of_op in stages:
      stages.setdefault(op, stages[of_op])
  largest = propagation.Follows.LARGEST_INPUT
  stages |= propagation.propagate(others, groups, stages, largest)
  unplaced = [op for op in (*forward, *others) if op not in stages]
  stages |= propagation.propagate(unplaced, groups, stages, largest)
  for op in others:
    variable = _variable(op)
    # No handle is sent to another device.
    if op.type in op_types.PASSES_HANDLE and variable in stages:
      stages[op] = stages[variable]
    if op_types.is_call(op) and _spans_stages(op, stages):
      # TensorFlow takes it apart, and places each op beside its variable.
      stages.pop(op, None)
  if purpose.trains and mesh.axis_size("stage") > 1:
    _warn_of_one_stage(ops, stages, mesh)
  return stages


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
