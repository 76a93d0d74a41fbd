"""Log lines about the sharding plan of a run."""

from estimator_mp import mesh as mesh_lib
from estimator_mp import notices
from estimator_mp.planning import sharding_plan

import tensorflow as tf


def log(
  plan: sharding_plan.ShardingPlan,
  mode: str,
  mesh: mesh_lib.Mesh,
  asked: str,
) -> None:
  """Logs a plan where Estimator logs, so that users see it.

  Args:
    plan: The plan of a graph.
    mode: The purpose of the graph: a `tf.estimator.ModeKeys`.
    mesh: The devices.
    asked: The mesh as the user wrote it.
  """
  to = tf.compat.v1.logging
  if plan.segments is not None:
    to.info("Slices of the batch: %s", plan.segments)
    if plan.segments.warning():
      to.warning("mesh=%r: %s", asked, plan.segments.warning())
  is_idle = plan.splits is not None and not plan.splits.variables
  if is_idle and mesh.axis_size("model") > 1:
    to.warning(
      "mesh=%r: no variable of the model is split over the model axis, so that "
      "its first device does all the work; give rules of split, or leave the "
      "axis out",
      asked,
    )
  say = notices.show if mode == tf.estimator.ModeKeys.TRAIN else to.info
  say(f"Placement to {mode} on mesh {mesh}:\n{plan.placement.table()}")
