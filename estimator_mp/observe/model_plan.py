"""The plan of a model: computation, contents and transfers of its stages.

No session runs: costs and transfers are those of the shapes of a graph, which
`comparison.plan_model` builds.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from estimator_mp import amounts
from estimator_mp import mesh as mesh_lib
from estimator_mp.config import options, placement_file
from estimator_mp.config import placement as placement_lib
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.graph import shapes
from estimator_mp.machines.machine import Machine
from estimator_mp.observe.step_trace import Kernel, StepTrace
from estimator_mp.placement import costs
from estimator_mp.planning import sharding_plan
from estimator_mp.planning.batch_report import BatchReport
from estimator_mp.planning.gradient_sums import TO_EACH, TO_ONE, GradientSum
from estimator_mp.planning.split_plan import SplitPlan
from estimator_mp.simulator import lowered_step
from estimator_mp.simulator.step import SimulatedStep

import tensorflow as tf

_PLANNED = 0  # The number of a step that did not run.
# How gradients are summed, unless by an all-reduce.
_WORDS = MappingProxyType(
  {
    TO_EACH: "on each device, which gets those of all others",
    TO_ONE: "where the variables are updated",
  }
)


@dataclasses.dataclass(frozen=True)
class Boundary:
  """The planned traffic from one device to another in a training step.

  Attributes:
    source: The canonical name of the device that sends.
    destination: That of the device that receives.
    num_tensors: How many tensors.
    num_bytes: Their bytes.
  """

  source: str
  destination: str
  num_tensors: int
  num_bytes: int

  def summary(self) -> str:
    """Returns the traffic for people: "2 tensors, 1.20 kB"."""
    return _sent(self.num_tensors, self.num_bytes)


@dataclasses.dataclass(frozen=True)
class ReplicasPlan:
  """The replicas of a model: their variables, and the sums over them.

  Attributes:
    variables: "mirrored" or "shared".
    optimizer_state: "replicated" or "sharded".
    sums: The sums of a training step over them, in the order of the backward
      pass.
  """

  variables: str
  optimizer_state: str
  sums: tuple[GradientSum, ...]

  @property
  def num_bytes(self) -> int:
    """The bytes of one replica that are summed with those of others."""
    return sum(total.num_bytes or 0 for total in self.sums)

  def lines(self, devices: Sequence[placement_lib.ReplicaDevice]) -> list[str]:
    """Returns lines for people.

    Args:
      devices: The contents of each device of each replica.
    """
    count = devices[-1].replica + 1
    return [
      f"{count} replicas; their variables are {self.variables}, the "
      f"optimizer's state is {self.optimizer_state}",
      *_lines_of_devices(devices),
      "gradients summed over replicas each training step: "
      f"{amounts.amount(self.num_bytes, 'B')} of each replica",
      *_lines_of_sums(self.sums),
    ]


@dataclasses.dataclass(frozen=True)
class ModelPlan:
  """The plan of a model: its partition, and the costs of a batch.

  Attributes:
    model: The name of the model.
    mesh: The mesh.
    placement: The contents of each stage, and all transfers.
    boundaries: The transfers, added up by pairs of devices.
    machine: The machine that the mesh is of.
    step: The step, as it is simulated on that.
    replicas: The variables of replicas; None if there is one replica.
    splits: The split over the model axis; None on a mesh without one.
    segments: The segments of slices of the batch, and the ops that are executed
      once; None if the batch has one slice.
    num_examples: How many examples the batch has; None if it is a nominal one.
    ranking: The ranking that the mesh was chosen by; None if it was given.
  """

  model: str
  mesh: mesh_lib.Mesh
  placement: placement_lib.Placement
  boundaries: tuple[Boundary, ...]
  machine: Machine
  step: SimulatedStep
  replicas: ReplicasPlan | None = None
  splits: SplitPlan | None = None
  segments: BatchReport | None = None
  num_examples: int | None = None
  ranking: Any = None

  @property
  def title(self) -> str:
    """The model, the mesh and the batch, in a line."""
    batch = f"a nominal batch of {shapes.NOMINAL_BATCH} examples"
    if self.num_examples is not None:
      batch = f"a batch of {amounts.counted(self.num_examples, 'example')}"
    return f"{self.model} on {self.mesh}, {batch}"

  def to_dict(self) -> dict[str, Any]:
    """Returns everything for JSON; `load_placement` can read it."""
    values = placement_file.dict_of_placement(self.placement, self.mesh)
    optional = {
      "replication": self.replicas,
      "splits": self.splits,
      "segments": self.segments,
      "num_examples": self.num_examples,
    }
    values |= {
      name: options.to_plain(value)
      for name, value in optional.items()
      if value is not None
    }
    return values | {
      "model": self.model,
      "machine": options.to_plain(self.machine),
      "step": self.step.to_dict(),
      "boundaries": options.to_plain(self.boundaries),
    }

  def columns(self) -> dict[str, list[str]]:
    """Returns the columns of the table: by its title, a text for each stage.

    What a device does is in the line of its first stage.
    """
    stages = self.placement.stages
    texts = {
      "stage": [str(x.stage) for x in stages],
      "device": [x.device for x in stages],
      "layers": [", ".join(x.layers) for x in stages],
      "parameters": [f"{x.parameters:,}" for x in stages],
    }
    of_devices = self.step.columns()
    firsts = [x.stages[0] for x in self.step.devices]
    for title, column in of_devices.items():
      by_stage = dict(zip(firsts, column, strict=True))
      texts[title] = [by_stage.get(x.stage, "") for x in stages]
    return texts

  def table(self) -> str:
    """Returns a readable table: a line per stage, and transfers."""
    columns = self.columns()
    rows = [[*columns], *zip(*columns.values(), strict=True)]
    lines = [] if self.ranking is None else [self.ranking.table(), ""]
    lines += [*amounts.columns(rows, 3), ""]
    lines += [f"on {self.machine.name}: {self.step.summary()}", ""]
    devices = self.placement.replicas
    if self.replicas is not None:
      lines += [*self.replicas.lines(devices), ""]
    elif devices:
      lines += [*_lines_of_devices(devices), ""]
    if self.splits is not None:
      lines += [*self.splits.lines(), ""]
    if self.segments is not None:
      lines += [*self.segments.lines(), ""]
    sent = self.sent() if self.placement.transfers else "nothing"
    lines.append(f"sent between devices each training step: {sent}")
    lines += [
      f"  {x.source} -> {x.destination}: {x.summary()}" for x in self.boundaries
    ]
    return "\n".join(lines)

  def trace(self) -> StepTrace:
    """Returns the simulated cells of the first replica, to be drawn."""
    step, names = self.step, self.mesh.devices_by_stage
    of_stage = self.mesh.axis_size("model")
    leaders = names[: of_stage * step.schedule.num_devices : of_stage]
    starts, ends = step.timeline.starts, step.timeline.ends
    kernels = [
      Kernel(
        str(cell),
        cell.phase.name,
        step.schedule.device_of(cell.stage),
        1e6 * start,
        1e6 * ends[cell],
        cell,
      )
      for cell, start in starts.items()
    ]
    return StepTrace(
      _PLANNED,
      leaders,
      tuple(sorted(kernels, key=lambda x: x.start)),
      step.schedule,
      {(x.source, x.destination): x.num_bytes for x in self.boundaries},
      tuple(round(x.live_bytes) for x in step.devices),
    )

  def sent(self) -> str:
    """Returns the transfers between devices in a step: "2 tensors, 1.20 kB"."""
    sent = self.placement.transfers
    return _sent(len(sent), sum(x.num_bytes for x in sent))


def plan_of_graph(
  graph: tf.Graph,
  config: sharding_config_lib.ShardingConfig,
  machine: Machine,
  **fields: Any,
) -> ModelPlan:
  """Returns the plan of a graph that a sharded model_fn built to train.

  Args:
    graph: The graph.
    config: How it was sharded.
    machine: What its step is simulated on.
    **fields: Fields of the plan that the graph does not say.
  """
  mesh = config.create_mesh()
  placement = sharding_plan.get_placement(graph)
  plan = sharding_plan.get_plan(graph)
  replicas = None
  if any(device.replica for device in placement.replicas):
    replicas = ReplicasPlan(
      config.variables, config.optimizer_state, tuple(_sums_of_step(graph))
    )
  return ModelPlan(
    mesh=mesh,
    placement=placement,
    boundaries=boundaries(placement.transfers, mesh),
    machine=machine,
    step=lowered_step.simulate(graph, config, machine),
    replicas=replicas,
    segments=None if plan is None else plan.segments,
    **fields,
  )


def _lines_of_devices(
  contents: Sequence[placement_lib.ReplicaDevice],
) -> list[str]:
  """Returns a table of the contents of devices."""
  titles, *positions = placement_lib.positions(contents)
  rows = [[*titles, "device", "parameters", "variables"]]
  for position, device in zip(positions, contents, strict=True):
    amount = amounts.amount(device.variable_bytes, "B")
    rows.append([*position, device.device, f"{device.parameters:,}", amount])
  return amounts.columns(rows, len(titles) + 1)


def _sums_of_step(graph: tf.Graph) -> list[GradientSum]:
  """Returns the sums of a training step over replicas.

  A gradient of unknown size has the bytes of a nominal batch.
  """
  plan = sharding_plan.get_plan(graph)
  sums = [
    total
    for request in (plan.gradient_sums if plan is not None else ())
    for total in request
  ]
  if all(total.num_bytes is not None for total in sums):
    return sums
  sizes = costs.nominal_bytes(graph.get_operations())
  return [
    total.of_size(sum(sizes[name] for name in total.tensors))
    if total.num_bytes is None
    else total
    for total in sums
  ]


def _lines_of_sums(sums: Sequence[GradientSum]) -> list[str]:
  """Returns a line for the sums of the same devices by one algorithm."""
  groups: dict[tuple[tuple[str, ...], str], list[GradientSum]] = {}
  for total in sums:
    groups.setdefault((total.devices, total.algorithm), []).append(total)
  return [
    f"  {', '.join(devices)}: {_line_of_sums(algorithm, group)}"
    for (devices, algorithm), group in groups.items()
  ]


def _line_of_sums(algorithm: str, group: Sequence[GradientSum]) -> str:
  """Returns the line of sums of the same devices by one algorithm."""
  count = len({name for total in group for name in total.variables})
  num_bytes = sum(total.num_bytes or 0 for total in group)
  text = (
    f"{amounts.counted(count, 'gradient')}, {amounts.amount(num_bytes, 'B')}, "
    f"in {amounts.counted(len(group), 'sum')} "
    f"{_WORDS.get(algorithm, f'by {algorithm}')}"
  )
  links: collections.Counter[tuple[str, str]] = collections.Counter()
  for total in group:
    if total.links is None:
      return f"{text}; TensorFlow's own ops send"
    links.update(total.links)
  return (
    f"{text}; {amounts.amount(sum(links.values()), 'B')} sent, at most "
    f"{amounts.amount(max(links.values(), default=0), 'B')} from one device to "
    "another"
  )


def boundaries(
  sent: Sequence[placement_lib.Transfer],
  mesh: mesh_lib.Mesh,
  same: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Boundary, ...]:
  """Adds transfers up by pairs of devices, in the order of the mesh.

  Args:
    sent: The transfers.
    mesh: The mesh.
    same: Devices that count as another one, each with that.
  """
  groups: dict[tuple[str, str], list[int]] = {}
  for x in sent:
    source, destination = (same.get(d, d) for d in (x.source, x.destination))
    groups.setdefault((source, destination), []).append(x.num_bytes)
  order = {device: index for index, device in enumerate(mesh.devices)}
  pairs = sorted(groups, key=lambda pair: [order.get(d, -1) for d in pair])
  return tuple(
    Boundary(*pair, len(groups[pair]), sum(groups[pair])) for pair in pairs
  )


def _sent(num_tensors: int, num_bytes: int) -> str:
  tensors = amounts.counted(num_tensors, "tensor")
  return f"{tensors}, {amounts.amount(num_bytes, 'B')}"
