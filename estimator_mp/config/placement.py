"""Placement: the planned contents of each stage of a model, as plain data.

Also the strategies that find one: to add a strategy, write a module of
`estimator_mp.placement` and add its row to `STRATEGIES`. The words of
`ShardingConfig.placement` and `--placement`, their checks and their help follow
from the row.
"""

import dataclasses
import itertools
import typing
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from estimator_mp import amounts, json_values
from estimator_mp.config import options

if typing.TYPE_CHECKING:  # Options are checked before TensorFlow is imported.
  from estimator_mp import mesh as mesh_lib


@dataclasses.dataclass(frozen=True)
class Strategy:
  """A named way to place a model.

  Attributes:
    summary: Where it puts ops, as the help of `--placement` says it.
    module: The module that has it, by its whole name: a function
      `stages_of(unplaced, num_stages, memory_limit, measured_seconds)`, which
      returns stages of ops; see `placement.unplaced.Unplaced`.
  """

  summary: str
  module: str


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
  {
    "auto": Strategy(
      "cut into stages of balanced cost", "estimator_mp.placement.auto"
    ),
  }
)


def is_strategy(placement: Any) -> bool:
  """Whether a placement is the name of a strategy.

  Args:
    placement: As in `ShardingConfig.placement`.
  """
  return isinstance(placement, str) and placement in STRATEGIES


def names_of_strategies() -> str:
  """Returns them for messages: `"auto"`."""
  return " or ".join(f'"{name}"' for name in STRATEGIES)


@dataclasses.dataclass(frozen=True)
class StagePlacement:
  """The contents of one stage.

  Attributes:
    stage: The stage's coordinate on the mesh.
    device: Its canonical device name.
    layers: The names of its layers, in order.
    parameters: The number of parameters of its trainable variables.
    variable_bytes: The bytes of all its variables: the trainable ones,
      statistics and optimizer slots.
  """

  stage: int
  device: str
  layers: tuple[str, ...]
  parameters: int
  variable_bytes: int


@dataclasses.dataclass(frozen=True)
class ReplicaDevice:
  """The contents of one device, where a stage has several.

  Attributes:
    replica: The coordinate of its replica on the mesh.
    stages: The coordinates of the stages that are on the device; with virtual
      stages, several.
    device: Its canonical name.
    parameters: How many numbers of trainable variables, or of copies of these,
      are there.
    variable_bytes: The bytes of all variables there: copies, slots, statistics
      and residuals too.
    part: Its coordinate on the `model` axis.
  """

  replica: int
  stages: tuple[int, ...]
  device: str
  parameters: int
  variable_bytes: int
  part: int = 0

  def stage_names(self) -> str:
    """Returns the stages for people: "0", or "0+2" if there are several."""
    return "+".join(map(str, self.stages))


@dataclasses.dataclass(frozen=True)
class Transfer:
  """A tensor that one device sends to another in every step.

  Attributes:
    tensor: Its name.
    source: The device that makes it.
    destination: The device that reads it.
    num_bytes: Its bytes, for a nominal batch where the batch is unknown.
  """

  tensor: str
  source: str
  destination: str
  num_bytes: int


@dataclasses.dataclass(frozen=True)
class Placement:
  """The contents of every stage of a model.

  Attributes:
    stages: One entry per stage, in order.
    ops: The stages of ops and variables, by name; empty where the layers of a
      stage say all.
    transfers: The planned transfers between devices in a step; empty where they
      are not known.
    replicas: The contents of each device of each replica; empty where each
      stage has one device: there is no `model` axis, and the graph has one
      replica, as those for evaluation and prediction have.
  """

  stages: tuple[StagePlacement, ...]
  ops: Mapping[str, int] = dataclasses.field(
    default_factory=lambda: MappingProxyType({}), hash=False
  )
  transfers: tuple[Transfer, ...] = ()
  replicas: tuple[ReplicaDevice, ...] = ()

  def check_mesh(self, mesh: "mesh_lib.Mesh") -> None:
    """Raises if this placement is for another mesh.

    Args:
      mesh: The mesh that it is to be used on.

    Raises:
      ValueError: If the mesh has more or fewer stages.
    """
    size = mesh.axis_size("stage")
    if len(self.stages) != size:
      raise ValueError(
        f"the placement is for {len(self.stages)} stage(s), but mesh {mesh} "
        f"has {size}; give a placement made for this mesh, or "
        'placement="auto"'
      )

  def to_dict(self) -> dict[str, Any]:
    """Returns the placement as JSON can write it."""
    return options.fields_to_plain(self)

  @classmethod
  def from_dict(cls, values: Mapping[str, Any]) -> "Placement":
    """Returns the placement that `to_dict` wrote.

    Args:
      values: The result of `to_dict`; keys that it does not have are ignored.

    Raises:
      ValueError: If something of it is missing or malformed.
    """
    placement: Placement = json_values.load(cls, values)
    if "ops" not in values:  # Only one of model_fn's own stages has none.
      raise ValueError("it has no 'ops'")
    stages, ops = placement.stages, placement.ops
    numbers = [x.stage for x in stages]
    if numbers != list(range(len(stages))):
      raise ValueError(
        f"its stages are {', '.join(map(str, numbers))}, which should be 0 to "
        f"{len(stages) - 1}"
      )
    for name, stage in ops.items():
      if not 0 <= stage < len(stages):
        raise ValueError(
          f"{name!r} is on stage {stage}, but it has {len(stages)} stage(s)"
        )
    return dataclasses.replace(placement, ops=MappingProxyType(ops))

  def table(self) -> str:
    """Returns a readable table: stages, their sum, and transfers.

    Where stages have several devices it has a line for each of them.
    """
    titles = ["stage", "device", "layers", "parameters", "variables"]
    rows = [[str(s.stage), s.device, ", ".join(s.layers)] for s in self.stages]
    entries: Sequence[Any] = self.stages
    if self.replicas:
      columns = positions(self.replicas)
      titles = [*columns[0], *titles[1:]]
      rows = [
        [*position, r.device, ", ".join(self.layers_of(r))]
        for position, r in zip(columns[1:], self.replicas, strict=True)
      ]
      entries = self.replicas
    rows = [row + _numbers([x]) for row, x in zip(rows, entries, strict=True)]
    blank = [""] * (len(titles) - 3)
    rows.append(["all", *blank, *_numbers(entries)])
    if self.replicas:
      rows.append(["model", *blank, *_numbers(self.stages)])
    lines = amounts.columns([titles, *rows], len(titles) - 2)
    if self.transfers:
      sent = sum(transfer.num_bytes for transfer in self.transfers)
      lines.append(
        f"sent between devices each step: {len(self.transfers)} tensors, "
        f"{amounts.amount(sent, 'B')}"
      )
    return "\n".join(lines)

  def layers_of(self, held: ReplicaDevice) -> list[str]:
    """Returns the names of the layers on a device of a replica.

    Args:
      held: An entry of `replicas`.
    """
    return [name for k in held.stages for name in self.stages[k].layers]


def positions(held: Sequence[ReplicaDevice]) -> list[list[str]]:
  """Returns the positions of devices on the mesh, as a table for people.

  Args:
    held: The contents of devices.

  Returns:
    The titles, and a row for each device: its stages, with its replica before
    and its part after them where there are several.
  """
  shown = [True] * 3
  shown[0] = any(device.replica for device in held)
  shown[2] = any(device.part for device in held)
  rows = [["replica", "stage", "part"]]
  rows += [[str(x.replica), x.stage_names(), str(x.part)] for x in held]
  return [[*itertools.compress(row, shown)] for row in rows]


def _numbers(held: Sequence[Any]) -> list[str]:
  """Returns the parameters and bytes of some devices or stages, for people."""
  parameters = sum(x.parameters for x in held)
  num_bytes = sum(x.variable_bytes for x in held)
  return [f"{parameters:,}", amounts.amount(num_bytes, "B")]
