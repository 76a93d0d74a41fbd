"""Planned memory of a training step on each device, by static shapes.

The graph of one micro-batch says what its ops make, and who reads it last: run
in the order of the graph, each tensor takes memory from the op that makes it to
its last reader on the device. A tensor that is sent counts on both devices; a
variable that another device reads is sent once, and there for all
micro-batches (with ZeRO, those that another replica updates). How many
micro-batches a stage keeps at a time is in the schedule.

What is left out is what a graph does not show: a kernel's scratch memory, and
the program itself.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from estimator_mp import devices as devices_lib
from estimator_mp import mesh as mesh_lib
from estimator_mp.config import placement as placement_lib
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.graph import op_types, shapes, traversal
from estimator_mp.observe import step_trace
from estimator_mp.pipeline import recomputation

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class DeviceMemory:
  """The bytes that a training step needs on a device.

  Attributes:
    device: Its canonical name.
    variables: Its variables, with statistics and optimizer slots.
    gradients: The sums of its gradients over micro-batches, while one more is
      computed; 0 if there is one micro-batch.
    tensors: The other bytes at a time: activations, and gradients.
  """

  device: str
  variables: int
  gradients: int
  tensors: int

  @property
  def total(self) -> int:
    """All together."""
    return self.variables + self.gradients + self.tensors


@dataclasses.dataclass(frozen=True)
class _Use:
  """How long a device has a tensor.

  Attributes:
    start: The position of the op that makes it.
    end: That of its last reader on the device.
    num_bytes: Its bytes.
    is_forward: Whether an op of the forward pass makes it.
    is_kept: Whether it is so, and the backward pass reads it.
    is_made: Whether an op of the device makes it, and could once more.
  """

  start: int
  end: int
  num_bytes: int
  is_forward: bool
  is_kept: bool
  is_made: bool


def planned_memory(
  step: Collection[tf.Operation],
  loss: tf.Operation,
  mesh: mesh_lib.Mesh,
  placement: placement_lib.Placement,
  schedule: schedule_lib.Schedule,
  recompute: str,
) -> tuple[DeviceMemory, ...]:
  """Returns what a training step needs on each device of a mesh.

  Args:
    step: The ops of a training step with one micro-batch, in the order of the
      graph, which is the default graph.
    loss: The one that computes the loss.
    mesh: A mesh of stages and replicas, where each device is one stage of one
      replica.
    placement: The contents of stages, and devices.
    schedule: The order of the micro-batches that there are in truth.
    recompute: As in `ShardingOptions`.
  """
  ordered = traversal.in_order(step)
  forward = frozenset(traversal.ancestors([loss], ordered))
  uses = _uses(ordered, forward)
  policy = recomputation.make_policy(recompute, schedule)
  held = _held_variables(placement)
  held_at_once = schedule_lib.live_micro_batches(schedule)
  gradients = _dense_gradients(placement, forward)
  found = []
  for replica in range(mesh.axis_size("data")):
    for stage in range(mesh.axis_size("stage")):
      device = mesh.device(data=replica, stage=stage)
      again = stage in policy.stages
      here = uses.get(device, ())
      peak = step_trace.peak([(x.start, x.end + 1, x.num_bytes) for x in here])
      kept = _kept(here, again=again)
      others = held_at_once[stage] - 1
      summed = gradients[stage] if schedule.num_micro_batches > 1 else 0
      found.append(
        DeviceMemory(device, held[device], summed, peak + others * kept)
      )
  return tuple(found)


def _uses(
  ordered: Sequence[tf.Operation], forward: frozenset[tf.Operation]
) -> dict[str, list[_Use]]:
  """Returns the tensors that each device has for some time."""
  place = {op: index for index, op in enumerate(ordered)}
  device_of = {op: _device(op) for op in ordered}
  readers: dict[tuple[tf.Tensor, str], list[tf.Operation]] = {}
  sources: dict[tuple[tf.Tensor, str], tf.Tensor] = {}
  for op in ordered:
    for tensor in op.outputs:
      key = (tensor, device_of[op])
      sources[key] = _buffer(tensor, device_of[op], sources)
      readers.setdefault((sources[key], device_of[op]), []).append(op)
    for tensor in op.inputs:
      if tensor.op in place:
        source = sources.get((tensor, device_of[tensor.op]), tensor)
        readers.setdefault((source, device_of[op]), []).append(op)
  found: dict[str, list[_Use]] = {}
  for (tensor, device), reading in readers.items():
    is_sent = device_of[tensor.op] != device
    num_bytes = _bytes_on_device(tensor, is_sent)
    if not num_bytes:
      continue
    start, end = place[tensor.op], max(map(place.__getitem__, reading))
    is_forward = tensor.op in forward
    if tensor.op.type in op_types.LASTING:
      # One copy is sent for all micro-batches.
      if not forward.isdisjoint(reading):
        start, end = 0, len(ordered)
      is_forward = False
    found.setdefault(device, []).append(
      _Use(
        start,
        end,
        num_bytes,
        is_forward,
        is_forward and any(op not in forward for op in reading),
        not is_sent
        and bool(tensor.op.inputs)
        and not tensor.op.op_def.is_stateful,
      )
    )
  return found


def _buffer(
  tensor: tf.Tensor,
  device: str,
  sources: Mapping[tuple[tf.Tensor, str], tf.Tensor],
) -> tf.Tensor:
  """Returns the tensor whose memory a tensor has: what it is a view of."""
  if tensor.op.type in op_types.VIEWS:
    return sources.get((tensor.op.inputs[0], device), tensor)
  return tensor


def _bytes_on_device(tensor: tf.Tensor, is_sent: bool) -> int:
  """Returns a tensor's bytes on a device; 0 for what it holds between steps.

  Args:
    tensor: The tensor.
    is_sent: Whether the device gets it of another one.
  """
  lasts = tensor.op.type in op_types.LASTING and not is_sent
  is_small = tensor.op.type in op_types.CONSTANTS
  is_handle = tensor.dtype in (tf.resource, tf.variant)
  return 0 if lasts or is_small or is_handle else shapes.tensor_bytes(tensor)


def _kept(uses: Collection[_Use], again: bool) -> int:
  """Returns the bytes of a micro-batch that waits for its backward pass.

  Args:
    uses: The tensors of its device.
    again: Whether its activations are computed again.
  """
  return sum(
    use.num_bytes
    for use in uses
    if (use.is_forward and not use.is_made if again else use.is_kept)
  )


def _held_variables(placement: placement_lib.Placement) -> dict[str, int]:
  """Returns the bytes of the variables on each device."""
  held = placement.replicas or placement.stages
  return {x.device: x.variable_bytes for x in held}


def _dense_gradients(
  placement: placement_lib.Placement, forward: Collection[tf.Operation]
) -> list[int]:
  """Returns the bytes of each stage's gradients that are no rows of tables."""
  found = [0] * len(placement.stages)
  for variable in tf.compat.v1.trainable_variables():
    readers = [x for x in variable.handle.consumers() if x in forward]
    if any(x.type not in op_types.GATHERS for x in readers):
      stage = placement.ops.get(variable.op.name, 0)
      found[stage] += shapes.variable_bytes(variable.op)
  return found


def _device(op: tf.Operation) -> str:
  """Returns the canonical name of an op's device; "" if it has none."""
  spec = tf.compat.v1.DeviceSpec.from_string(op.device)
  if None in (spec.device_type, spec.device_index):
    return ""
  return devices_lib.canonical_device(op.device)
