"""Elastic meshes: a mesh that fits the tasks that are left of a cluster.

A launcher that starts a run again with fewer tasks says in TF_CONFIG for how
many it was planned:

    {"cluster": ..., "task": ..., "elastic": {"tasks": 8}}

Checkpoints do not depend on the mesh, and so the run goes on with its losses,
over less. All processes are started again, as TorchElastic does it.
"""

import math
from collections.abc import Mapping

from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.config.mesh_axes import parse_axes


def elastic_mesh(mesh: str) -> str:
  """Returns a mesh that fits the tasks that are left.

  Each task gets as many devices as it would have had. Replicas go first: to a
  divisor of their number, so that the batch still divides. Then stages become
  fewer, and hold more of the model. Parts of layers (`model`) stay as many.

  Args:
    mesh: The mesh that was planned, such as "data:4,stage:2".

  Returns:
    The same text, unless TF_CONFIG says that tasks are missing.

  Raises:
    ValueError: If the mesh or TF_CONFIG is malformed, or no such mesh fits.
  """
  axes = parse_axes(mesh)
  cluster = tasks_lib.from_environment()
  if cluster is None or cluster.num_planned <= len(cluster.tasks):
    return mesh
  per_task = math.ceil(math.prod(axes.values()) / cluster.num_planned)
  found = fitted(axes, per_task * len(cluster.tasks))
  return ",".join(f"{axis}:{size}" for axis, size in found.items())


def fitted(axes: Mapping[str, int], most: int) -> dict[str, int]:
  """Returns the axes of the largest mesh with at most so many devices.

  Args:
    axes: The size of each axis.
    most: How many devices there are.

  Raises:
    ValueError: If they do not suffice for one stage of one replica.
  """
  model, stages, replicas = (
    axes.get(axis, 1) for axis in ("model", "stage", "data")
  )
  if model > most:
    text = ",".join(f"{axis}:{size}" for axis, size in axes.items())
    raise ValueError(
      f"{most} device(s) are left for mesh {text}, whose model axis needs "
      f"{model}; start more tasks"
    )
  stages = min(stages, most // model)
  replicas = max(
    count
    for count in range(1, replicas + 1)
    if replicas % count == 0 and (count == 1 or count * stages * model <= most)
  )
  sizes = {"model": model, "stage": stages, "data": replicas}
  return {axis: sizes[axis] for axis in axes}
