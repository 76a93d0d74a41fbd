"""The stages of a finished graph: each op of a step on one of them."""

import itertools
from collections.abc import Collection, Sequence

from compat.private import graph_reads
from estimator_mp import mesh as mesh_lib
from estimator_mp.config import sharding_config
from estimator_mp.graph import op_types, traversal, variables
from estimator_mp.graph.ledger import Ledger
from estimator_mp.placement import propagation
from estimator_mp.plan.purpose import TRAINING, Purpose
from estimator_mp.plan.stages import StagePlanner, Stages

import tensorflow as tf


def backward_of(
  ops: Sequence[tf.Operation], depends: Collection[tf.Operation]
) -> list[tf.Operation]:
  """Returns the ops that come after the forward pass.

  That is what depends on an op of a gradient: the backward pass, and the update
  in the end. The lists in which a loop keeps its activations were made for its
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
  gradients are where what they are the gradients of is; the rest follows what
  it reads.

  Args:
    ops: The ops of the graph but those of the input, in its order.
    backward: Those that come after the forward pass.
    config: How the model is placed.
    mesh: The mesh.
    purpose: What the graph is for.

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
  # What was there before there were gradients, such as metrics, is of the
  # forward pass, too.
  leading.update(
    itertools.takewhile(lambda op: not graph_reads.is_of_gradient(op), ops)
  )
  forward = [op for op in ops if op in leading]
  rest = [op for op in ops if op not in leading]
  planner = StagePlanner(
    config, mesh, purpose.mode, Ledger(ops[0].graph), purpose.saved
  )
  planner.add(forward)
  planner.plan_forward(forward, targets)
  planner.add(rest)
  planner.adopt_devices(rest)
  for op in rest:
    of_op = graph_reads.differentiated(op)
    while of_op is not None and of_op not in planner.stages:
      of_op = graph_reads.differentiated(of_op)
    if of_op is None:
      of_op = _variable(op)
    if of_op in planner.stages:
      planner.stages.setdefault(op, planner.stages[of_op])
  planner.propagate(rest, propagation.Follows.LARGEST_INPUT)
  planner.plan_rest()
  for op in rest:
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
  handles = [x for x in call.inputs if x.dtype == tf.resource]
  found = {stages.get(variables.variable_of(x)) for x in handles}
  return len(found - {None}) > 1


def _variable(op: tf.Operation) -> tf.Operation | None:
  """Returns the variable whose handle an op gets, in a branch as well.

  A call may get those of many, and is where most of what it reads is. A
  reference is one where it is written; who reads it gets its value.
  """
  if op_types.is_call(op):
    return None
  written = set(variables.written_states(op))
  handles = (x for x in op.inputs if x.dtype == tf.resource or x in written)
  handle = next(handles, None)
  return None if handle is None else variables.variable_of(handle)


def differentiated(op: tf.Operation) -> list[tf.Operation]:
  """Returns what an op takes the gradient of; of a tape's what it reads.

  Args:
    op: An op of a gradient, or any other one.
  """
  of_op = graph_reads.differentiated(op)
  if of_op is not None:
    return [of_op]
  return traversal.inputs(op) if graph_reads.is_of_gradient(op) else []
