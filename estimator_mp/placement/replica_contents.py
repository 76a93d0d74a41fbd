"""Replica contents: what each device of each replica holds, as planned.

A stage of a model is on one device of every replica. What these hold differs:
mirrors of weights, slots that one replica has for all, or no variable at all
if replicas share those of the first one.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from estimator_mp import devices as devices_lib
from estimator_mp import mesh as mesh_lib
from estimator_mp.graph import op_types, tensor_size

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class ReplicaDevice:
  """What one device of one replica holds.

  Attributes:
    replica: The replica's coordinate on the mesh.
    stages: The coordinates of the stages that are on the device; with virtual
      stages, several.
    device: Its canonical name.
    parameters: How many numbers of trainable variables, or of copies of these,
      are there.
    variable_bytes: The bytes of all variables there: copies, slots, statistics
      and residuals too.
  """

  replica: int
  stages: tuple[int, ...]
  device: str
  parameters: int
  variable_bytes: int

  def stage_names(self) -> str:
    """Returns the stages for people: "0", or "0+2" if there are several."""
    return "+".join(map(str, self.stages))


def contents_of_replicas(
  mesh: mesh_lib.Mesh, mirrors: Mapping[str, Sequence[str]]
) -> tuple[ReplicaDevice, ...]:
  """Returns what the devices of replicas hold in the default graph.

  Args:
    mesh: The mesh.
    mirrors: The names of the tensors of mirrors, by the name of their variable.

  Returns:
    An entry for each device, replica after replica, stage after stage.
  """
  graph = tf.compat.v1.get_default_graph()
  variable_bytes: dict[str, int] = {}
  for op in op_types.variables_of(graph.get_operations()):
    if op.outputs[0].consumers():  # What nobody uses takes no memory.
      _add(variable_bytes, op, tensor_size.variable_bytes(op))
  parameters: dict[str, int] = {}
  for variable in tf.compat.v1.trainable_variables():
    elements = variable.shape.num_elements() or 0
    handles = mirrors.get(variable.op.name, ())
    others = [graph.get_tensor_by_name(name).op for name in handles]
    for op in (variable.op, *others):
      _add(parameters, op, elements)
  stages: dict[tuple[int, str], list[int]] = {}
  for replica in range(mesh.axis_size("data")):
    for stage in range(mesh.axis_size("stage")):
      device = mesh.device(data=replica, stage=stage)
      stages.setdefault((replica, device), []).append(stage)
  return tuple(
    ReplicaDevice(
      replica,
      tuple(of_device),
      device,
      parameters.get(device, 0),
      variable_bytes.get(device, 0),
    )
    for (replica, device), of_device in stages.items()
  )


def _add(amounts: dict[str, int], op: tf.Operation, amount: int) -> None:
  """Adds an amount to that of an op's device."""
  spec = tf.compat.v1.DeviceSpec.from_string(op.device)
  if None not in (spec.device_type, spec.device_index):
    device = devices_lib.canonical_device(op.device)
    amounts[device] = amounts.get(device, 0) + amount
