"""Placement: what each stage of a model holds, as planned."""

import dataclasses
import weakref
from collections.abc import Sequence

from estimator_mp import devices
from estimator_mp import mesh as mesh_lib

import tensorflow as tf

_MEGABYTE = 1e6

# Not a graph collection: those are written into checkpoints' meta graphs.
_placements: weakref.WeakKeyDictionary[tf.Graph, "Placement"] = (
  weakref.WeakKeyDictionary()
)


@dataclasses.dataclass(frozen=True)
class StagePlacement:
  """What one stage holds.

  Attributes:
    stage: The stage's coordinate on the mesh.
    device: Its canonical device name.
    layers: The names of its layers, in order.
    parameters: How many numbers its trainable variables hold.
    variable_bytes: The bytes of all its variables: the trainable ones,
      statistics and optimizer slots.
  """

  stage: int
  device: str
  layers: tuple[str, ...]
  parameters: int
  variable_bytes: int


@dataclasses.dataclass(frozen=True)
class Placement:
  """What every stage of a model holds.

  Attributes:
    stages: One entry per stage, in order.
  """

  stages: tuple[StagePlacement, ...]

  def table(self) -> str:
    """Returns a table for people: a line per stage, and the sum."""
    rows = [("stage", "device", "layers", "parameters", "MB")]
    for stage in self.stages:
      rows.append(
        (
          str(stage.stage),
          stage.device,
          ", ".join(stage.layers),
          f"{stage.parameters:,}",
          f"{stage.variable_bytes / _MEGABYTE:.2f}",
        )
      )
    parameters = sum(stage.parameters for stage in self.stages)
    total_bytes = sum(stage.variable_bytes for stage in self.stages)
    rows.append(
      ("all", "", "", f"{parameters:,}", f"{total_bytes / _MEGABYTE:.2f}")
    )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
  """Returns one line of the table: words to the left, numbers to the right."""
  cells = list(zip(row, widths, strict=True))
  words = [cell.ljust(width) for cell, width in cells[:3]]
  numbers = [cell.rjust(width) for cell, width in cells[3:]]
  return "  ".join(words + numbers)


def placement_of_graph(
  mesh: mesh_lib.Mesh, layers_of_stages: Sequence[Sequence[str]]
) -> Placement:
  """Reads from the default graph what each stage of a mesh holds.

  Args:
    mesh: A mesh with a `stage` axis.
    layers_of_stages: The names of the layers of each stage.

  Returns:
    The placement of the variables that the graph has now.
  """
  trainable = {v.name for v in tf.compat.v1.trainable_variables()}
  parameters = dict.fromkeys(mesh.devices, 0)
  variable_bytes = dict.fromkeys(mesh.devices, 0)
  for variable in tf.compat.v1.global_variables():
    if not _has_full_device(variable):
      continue
    device = devices.canonical_device(variable.device)
    if device not in parameters:
      continue
    elements = variable.shape.num_elements() or 0
    variable_bytes[device] += elements * variable.dtype.base_dtype.size
    if variable.name in trainable:
      parameters[device] += elements
  return Placement(
    tuple(
      StagePlacement(
        stage=k,
        device=mesh.device(stage=k),
        layers=tuple(layers),
        parameters=parameters[mesh.device(stage=k)],
        variable_bytes=variable_bytes[mesh.device(stage=k)],
      )
      for k, layers in enumerate(layers_of_stages)
    )
  )


def _has_full_device(variable: tf.Variable) -> bool:
  spec = tf.compat.v1.DeviceSpec.from_string(variable.device)
  return spec.device_type is not None and spec.device_index is not None


def record_placement(placement: Placement) -> None:
  """Attaches a placement to the default graph, for `get_placement`.

  Args:
    placement: The placement; it replaces an earlier one.
  """
  _placements[tf.compat.v1.get_default_graph()] = placement


def get_placement(graph: tf.Graph) -> Placement:
  """Returns the placement of a graph that a sharded model_fn built.

  A `SessionRunHook` may call it from `begin()` on, with the default graph.

  Args:
    graph: The graph.

  Returns:
    Its placement.

  Raises:
    ValueError: If no sharded model_fn built the graph.
  """
  placement = _placements.get(graph)
  if placement is None:
    raise ValueError(
      "the graph has no placement: no model_fn of estimator_mp or model_fns "
      "built it; call get_placement with the graph that the Estimator trains"
    )
  return placement
