"""Placing: from stages to devices, and back."""

from collections.abc import Mapping, Sequence

from compat.private import graph_edits
from estimator_mp import devices
from estimator_mp import mesh as mesh_lib
from estimator_mp.graph import op_device

import tensorflow as tf


def place(stages: Mapping[tf.Operation, int], mesh: mesh_lib.Mesh) -> None:
  """Puts ops without a device on the device of their stage, or its host.

  Args:
    stages: The stages of ops of a graph that no session has run yet.
    mesh: The mesh.
  """
  places = [
    op_device.placing_function(mesh.device(stage=k))
    for k in range(mesh.axis_size("stage"))
  ]
  for op, stage in stages.items():
    if not op.device:
      graph_edits.set_device(op, places[stage](op))


def stages_of_devices(
  ops: Sequence[tf.Operation], mesh: mesh_lib.Mesh
) -> dict[tf.Operation, int]:
  """Returns the stages of ops that have a device of the mesh.

  Args:
    ops: Ops of a graph; those without a device, or with one that the mesh does
      not have, or that several stages share, are left out.
    mesh: The mesh.
  """
  names = [mesh.device(stage=k) for k in range(mesh.axis_size("stage"))]
  stage_of = {name: k for k, name in enumerate(names) if names.count(name) == 1}
  canonical: dict[str, int | None] = {"": None}
  stages = {}
  for op in ops:
    if op.device not in canonical:
      spec = tf.compat.v1.DeviceSpec.from_string(op.device)
      is_full = None not in (spec.device_type, spec.device_index)
      name = devices.canonical_device(op.device) if is_full else ""
      canonical[op.device] = stage_of.get(name)
    stage = canonical[op.device]
    if stage is not None:
      stages[op] = stage
  return stages
