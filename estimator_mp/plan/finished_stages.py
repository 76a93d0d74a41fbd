"""The stages of a finished graph: each op of a step on one of them."""

from collections.abc import Sequence

from compat.private import graph_reads
from estimator_mp import mesh as mesh_lib
from estimator_mp.config import sharding_config
from estimator_mp.graph import traversal
from estimator_mp.graph.ledger import Ledger
from estimator_mp.placement import propagation
from estimator_mp.plan.stages import StagePlanner, Stages

import tensorflow as tf


def backward_of(ops: Sequence[tf.Operation]) -> list[tf.Operation]:
  """Returns the ops that come after the forward pass.

  TensorFlow keeps for each op of a gradient what it is the gradient of. All
  that depends on one is the backward pass, and the update in the end. But the
  lists that a loop keeps its activations in were made for its gradient, too:
  what something is the gradient of, and all that leads to it, is forward.

  Args:
    ops: The ops of a step, each after those that it reads.
  """
  of_ops = {op: graph_reads.differentiated(op) for op in ops}
  gradients = {op for op, of_op in of_ops.items() if of_op is not None}
  differentiated = {x for x in of_ops.values() if x not in gradients}
  forward = {*traversal.ancestors(differentiated - {None}, ops)}
  after = traversal.descendants(gradients - forward, ops)
  return [op for op in after if op not in forward]


def plan_stages(
  ops: Sequence[tf.Operation],
  backward: Sequence[tf.Operation],
  target: tf.Operation,
  config: sharding_config.ShardingConfig,
  mesh: mesh_lib.Mesh,
) -> Stages:
  """Decides the stage of each op.

  The forward pass is placed by the user's marks, or a strategy; ops of
  gradients are where what they are the gradients of is; the rest follows what
  it reads.

  Args:
    ops: The ops of the graph but those of the input, in its order.
    backward: Those that come after the forward pass.
    target: The op of the loss.
    config: How the model is placed.
    mesh: The mesh.

  Raises:
    ValueError: If the model cannot be placed as the configuration says.
  """
  planner = StagePlanner(
    config, mesh, tf.estimator.ModeKeys.TRAIN, Ledger(target.graph)
  )
  leading = traversal.ops_run_with(target) - set(backward)
  forward = [op for op in ops if op in leading]
  planner.add(forward)
  planner.plan_forward(forward, [target])
  rest = [op for op in ops if op not in leading]
  planner.add(rest)
  planner.adopt_devices(rest)
  for op in rest:
    of_op = graph_reads.differentiated(op)
    while of_op is not None and of_op not in planner.stages:
      of_op = graph_reads.differentiated(of_op)
    if of_op is not None:
      planner.stages.setdefault(op, planner.stages[of_op])
  planner.propagate(rest, propagation.Follows.LARGEST_INPUT)
  planner.plan_rest()
  planner.check()
  return planner.stages
