"""Contents of each stage of a model, and of each device of its replicas.

A stage of a model is on one device of every replica, or on as many as the
`model` axis has. Their contents differ: mirrors of weights, slots that one
replica has for all, or no variable at all if replicas share those of the first
one; shards, and whole variables, which the first device of a stage has.
"""

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from estimator_mp import devices as devices_lib
from estimator_mp import mesh as mesh_lib
from estimator_mp.config.placement import (
  Placement,
  ReplicaDevice,
  StagePlacement,
)
from estimator_mp.graph import op_types, shapes

import tensorflow as tf

_MAX_LAYERS = 5


def placement_of_stages(
  mesh: mesh_lib.Mesh,
  stages: Mapping[tf.Operation, int],
  replicas: Sequence[ReplicaDevice] = (),
) -> Placement:
  """Returns the placement of the default graph, by the stages of its ops.

  Args:
    mesh: The mesh.
    stages: The stages of ops.
    replicas: The contents of each device, if the graph has several replicas.

  Returns:
    A placement whose layers are the scopes of the stage's variables.
  """
  scopes: list[list[str]] = [[] for _ in range(mesh.axis_size("stage"))]
  for variable in tf.compat.v1.trainable_variables():
    if variable.op in stages:
      name = whole_of(variable).name
      scope = name.rpartition("/")[0] or name
      of_stage = scopes[stages[variable.op]]
      if scope not in of_stage:
        of_stage.append(scope)
  layers = [_shortened(names) for names in scopes]
  return Placement(
    _contents(mesh, layers, stages),
    MappingProxyType({op.name: k for op, k in stages.items()}),
    replicas=tuple(replicas),
  )


def _shortened(names: Sequence[str]) -> list[str]:
  """Returns names, or the first and last of very many."""
  if len(names) <= _MAX_LAYERS:
    return list(names)
  return [names[0], f"... {len(names) - 2} more ...", names[-1]]


def _contents(
  mesh: mesh_lib.Mesh,
  layers_of_stages: Sequence[Sequence[str]],
  stages: Mapping[tf.Operation, int],
) -> tuple[StagePlacement, ...]:
  """Returns the contents of stages, by the stages of variables."""
  trainable = {v.name for v in tf.compat.v1.trainable_variables()}
  parameters = [0] * len(layers_of_stages)
  variable_bytes = [0] * len(layers_of_stages)
  for variable in tf.compat.v1.global_variables():
    stage = stages.get(variable.op)
    if stage is not None:
      elements = variable.shape.num_elements() or 0
      variable_bytes[stage] += elements * variable.dtype.base_dtype.size
      if variable.name in trainable:
        parameters[stage] += elements
  return tuple(
    StagePlacement(
      stage=k,
      device=mesh.device(stage=k),
      layers=tuple(layers),
      parameters=parameters[k],
      variable_bytes=variable_bytes[k],
    )
    for k, layers in enumerate(layers_of_stages)
  )


def whole_of(variable: tf.Variable) -> tf.Operation:
  """Returns the op of the variable that a shard is of; of others, their own.

  Args:
    variable: A variable. One that model_fn itself has partitioned is whole.
  """
  op: tf.Operation = variable.op
  whole, shard, _ = op.name.rpartition("/part_")
  if shard:
    # Where model_fn partitions a variable, there is none of the whole name.
    with contextlib.suppress(KeyError):
      whole_op = op.graph.get_operation_by_name(whole)
      return whole_op if op_types.is_variable(whole_op) else op
  return op


def contents_of_devices(
  mesh: mesh_lib.Mesh,
  num_replicas: int,
  mirrors: Mapping[str, Sequence[str]],
) -> tuple[ReplicaDevice, ...]:
  """Returns the contents of devices in the default graph.

  Args:
    mesh: The mesh.
    num_replicas: How many replicas the graph has.
    mirrors: The names of the tensors of mirrors, by the name of their variable.

  Returns:
    An entry for each device, replica after replica, stage after stage, part
    after part; none if each stage has one.
  """
  sizes = num_replicas, mesh.axis_size("stage"), mesh.axis_size("model")
  if num_replicas * mesh.axis_size("model") == 1:
    return ()
  graph = tf.compat.v1.get_default_graph()
  # An unused variable takes no memory, nor does one that is in shards.
  unused = _split_variables()
  variable_bytes: dict[str, int] = {}
  for op in op_types.variables_of(graph.get_operations()):
    if op.outputs[0].consumers() and op.name not in unused:
      _add(variable_bytes, op, shapes.variable_bytes(op))
  parameters: dict[str, int] = {}
  for variable in tf.compat.v1.trainable_variables():
    elements = variable.shape.num_elements() or 0
    handles = mirrors.get(variable.op.name, ())
    others = [graph.get_tensor_by_name(name).op for name in handles]
    for op in (variable.op, *others):
      _add(parameters, op, elements)
  stages: dict[tuple[int, int, str], list[int]] = {}
  for replica, stage, part in itertools.product(*map(range, sizes)):
    device = mesh.device(data=replica, stage=stage, model=part)
    stages.setdefault((replica, part, device), []).append(stage)
  return tuple(
    ReplicaDevice(
      replica,
      tuple(of_device),
      device,
      parameters.get(device, 0),
      variable_bytes.get(device, 0),
      part,
    )
    for (replica, part, device), of_device in stages.items()
  )


def _split_variables() -> set[str]:
  """Returns the names of the variables that others are the shards of."""
  variables = tf.compat.v1.global_variables() + tf.compat.v1.local_variables()
  names = {variable.op.name for variable in variables}
  return {whole_of(variable).name for variable in variables} - names


def _add(amounts: dict[str, int], op: tf.Operation, amount: int) -> None:
  """Adds an amount to that of an op's device."""
  device = devices_lib.full_device(op.device)
  if device is not None:
    amounts[device] = amounts.get(device, 0) + amount
