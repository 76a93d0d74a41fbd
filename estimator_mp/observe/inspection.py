"""Inspection: the partition that a model_fn would get, and what it costs.

The training graph is built and placed as an Estimator's would be; no session
runs it. So the partition is the one of a real run on the same mesh, and no
device of the mesh has to exist.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_mp import amounts, sharding
from estimator_mp import mesh as mesh_lib
from estimator_mp.cli import input_spec
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.observe import gradient_traffic
from estimator_mp.placement import auto, costs, placement_file, transfers
from estimator_mp.placement import placement as placement_lib
from estimator_mp.placement.replica_contents import ReplicaDevice
from estimator_mp.plan import sharding_plan
from estimator_mp.session.session_config import run_config as make_run_config

import tensorflow as tf


class InspectionError(ValueError):
  """A model_fn cannot be inspected; the one-line text says why."""


@dataclasses.dataclass(frozen=True)
class StageCosts:
  """What one stage computes and holds, for a nominal batch.

  Attributes:
    flops: Floating-point operations of its forward ops.
    seconds: The time of its forward ops on the nominal device of `costs`, of
      which only ratios between stages mean something; or, where the
      configuration has measured costs, that of forward ops and gradients.
    weight_bytes: All its variables, with statistics and optimizer slots, and
      a gradient for each trainable one.
    activation_bytes: What its forward ops make, all of it at a time.
  """

  flops: int
  seconds: float
  weight_bytes: int
  activation_bytes: int


@dataclasses.dataclass(frozen=True)
class Boundary:
  """What one device sends to another in a training step, as planned.

  Attributes:
    source: The canonical name of the device that sends.
    destination: That of the device that receives.
    num_tensors: How many tensors.
    num_bytes: Their bytes, for a nominal batch.
  """

  source: str
  destination: str
  num_tensors: int
  num_bytes: int


@dataclasses.dataclass(frozen=True)
class InspectedReplicas:
  """How several replicas of a model are kept, and what they sum.

  Attributes:
    variables: "mirrored" or "shared".
    optimizer_state: "replicated" or "sharded".
    sums: What a training step sums over them, in the order of the backward
      pass.
  """

  variables: str
  optimizer_state: str
  sums: tuple[gradient_traffic.GradientSum, ...]

  def lines(self, held: Sequence[ReplicaDevice]) -> list[str]:
    """Returns lines for people.

    Args:
      held: What each device of each replica holds.
    """
    count = held[-1].replica + 1
    rows = [("replica", "stage", "device", "parameters", "variables")]
    rows += [
      (
        str(x.replica),
        x.stage_names(),
        x.device,
        f"{x.parameters:,}",
        amounts.amount(x.variable_bytes, "B"),
      )
      for x in held
    ]
    total = sum(x.num_bytes for x in self.sums)
    return [
      f"{count} replicas; their variables are {self.variables}, the "
      f"optimizer's state is {self.optimizer_state}",
      *_columns(rows, 3),
      "gradients summed over replicas each training step: "
      f"{amounts.amount(total, 'B')} of each replica",
      *gradient_traffic.lines(self.sums),
    ]


@dataclasses.dataclass(frozen=True)
class Inspection:
  """A partition, and what it costs.

  Attributes:
    model: What people call the model.
    mesh: The mesh.
    placement: What each stage holds; its `transfers` are all that is sent.
    costs: One entry per stage, in order.
    boundaries: The transfers, added up by pairs of devices.
    replicas: How replicas are kept; None if there is one.
  """

  model: str
  mesh: mesh_lib.Mesh
  placement: placement_lib.Placement
  costs: tuple[StageCosts, ...]
  boundaries: tuple[Boundary, ...]
  replicas: InspectedReplicas | None = None

  def time_shares(self) -> list[float]:
    """Returns each stage's part of the forward time; the sum is 1."""
    return _shares([cost.seconds for cost in self.costs])

  def flop_shares(self) -> list[float]:
    """Returns each stage's part of the FLOPs; the sum is 1."""
    return _shares([cost.flops for cost in self.costs])

  def facts(self) -> dict[str, Any]:
    """Returns everything for JSON; `load_placement` can read it."""
    facts = placement_file.facts_of_placement(self.placement, self.mesh)
    if self.replicas is not None:
      facts["replication"] = {
        "variables": self.replicas.variables,
        "optimizer_state": self.replicas.optimizer_state,
        "sums": [x.facts() for x in self.replicas.sums],
      }
    return facts | {
      "model": self.model,
      "costs": [dataclasses.asdict(cost) for cost in self.costs],
      "boundaries": [dataclasses.asdict(x) for x in self.boundaries],
      "transfers": [dataclasses.asdict(x) for x in self.placement.transfers],
    }

  def table(self) -> str:
    """Returns a table for people: a line per stage, and what is sent."""
    titles = ("stage", "device", "layers", "parameters", "weights")
    rows = [(*titles, "activations", "forward", "FLOPs", "time")]
    flops, time = self.flop_shares(), self.time_shares()
    for index, (stage, cost) in enumerate(
      zip(self.placement.stages, self.costs, strict=True)
    ):
      rows.append(
        (
          str(stage.stage),
          stage.device,
          ", ".join(stage.layers),
          f"{stage.parameters:,}",
          amounts.amount(cost.weight_bytes, "B"),
          amounts.amount(cost.activation_bytes, "B"),
          amounts.amount(cost.flops, "FLOP"),
          f"{flops[index]:.0%}",
          f"{time[index]:.0%}",
        )
      )
    lines = [*_columns(rows, 3), ""]
    if self.replicas is not None:
      lines += [*self.replicas.lines(self.placement.replicas), ""]
    return "\n".join([*lines, *self._sent()])

  def _sent(self) -> list[str]:
    """Returns lines about what is sent."""
    sent = self.placement.transfers
    if not sent:
      return ["sent between devices each training step: nothing"]
    num_bytes = amounts.amount(sum(x.num_bytes for x in sent), "B")
    return [
      "sent between devices each training step: "
      f"{amounts.tensors(len(sent))}, {num_bytes}",
      *(
        f"  {x.source} -> {x.destination}: {amounts.tensors(x.num_tensors)}, "
        f"{amounts.amount(x.num_bytes, 'B')}"
        for x in self.boundaries
      ),
    ]


def inspect_model_fn(
  model_fn: Callable[..., tf.estimator.EstimatorSpec],
  features: input_spec.InputSpec,
  labels: input_spec.InputSpec | None,
  config: sharding_config_lib.ShardingConfig,
  params: dict[str, Any] | None = None,
  model: str = "",
) -> Inspection:
  """Returns the partition that a model_fn would get.

  Args:
    model_fn: The model_fn of an Estimator, as it is.
    features: What its input_fn returns as features.
    labels: The same for labels; None for none.
    config: The mesh, and how the model is placed on it.
    params: The Estimator's params; None for none.
    model: What people call the model.

  Returns:
    The partition and its costs.

  Raises:
    InspectionError: If model_fn does not take what it is given, or returns no
      EstimatorSpec.
    ValueError: If the model cannot be placed as `config` says; see
      `shard_model_fn`.
  """
  mesh = config.create_mesh()
  sharded = sharding.shard_model_fn(model_fn, config)
  arguments = _arguments(model_fn, labels is not None, params)
  with tf.Graph().as_default() as graph:
    tf.compat.v1.train.create_global_step()
    with tf.device("/cpu:0"):  # As an Estimator does.
      arguments["features"] = input_spec.placeholders(features)
      if labels is not None:
        arguments["labels"] = input_spec.placeholders(labels)
    seen = len(graph.get_operations())
    spec = sharded(**arguments, config=make_run_config(config))
    placement = sharding_plan.get_placement(graph)
    forward = auto.forward_sequence(
      graph.get_operations()[seen:], [spec.loss.op]
    )
    return Inspection(
      model,
      mesh,
      placement,
      _costs_of_stages(
        costs.op_costs(forward, config.measured_seconds), placement
      ),
      _boundaries(placement.transfers, mesh),
      _replicas(config, graph) if placement.replicas else None,
    )


def _replicas(
  config: sharding_config_lib.ShardingConfig, graph: tf.Graph
) -> InspectedReplicas:
  """Returns how the replicas of a graph are kept, and what they sum."""
  sizes = costs.nominal_bytes(graph.get_operations())
  plan = sharding_plan.get_plan(graph)
  sums = [
    found
    for request in (plan.gradient_sums if plan is not None else ())
    for found in gradient_traffic.plan_sums(request, config, sizes)
  ]
  return InspectedReplicas(
    config.variables, config.optimizer_state, tuple(sums)
  )


def _arguments(
  model_fn: Callable[..., Any], has_labels: bool, params: dict[str, Any] | None
) -> dict[str, Any]:
  """Returns what an Estimator gives to a model_fn, besides its inputs."""
  names = inspect.signature(model_fn).parameters
  if has_labels and "labels" not in names:
    raise InspectionError(
      "model_fn takes no labels, but labels were given; leave them out"
    )
  if params is not None and "params" not in names:
    raise InspectionError(
      "model_fn takes no params, but params were given; leave them out"
    )
  offered = {
    "labels": None,
    "mode": tf.estimator.ModeKeys.TRAIN,
    "params": params or {},
  }
  return {name: value for name, value in offered.items() if name in names}


def _costs_of_stages(
  op_costs: Mapping[tf.Operation, costs.OpCost],
  placement: placement_lib.Placement,
) -> tuple[StageCosts, ...]:
  """Returns the costs of each stage of the default graph."""
  trainable = {v.op.name: v for v in tf.compat.v1.trainable_variables()}
  found = []
  for stage in placement.stages:
    of_stage = [
      cost
      for op, cost in op_costs.items()
      if placement.ops.get(op.name) == stage.stage
    ]
    gradient_bytes = sum(
      (variable.shape.num_elements() or 0) * variable.dtype.base_dtype.size
      for name, variable in trainable.items()
      if placement.ops.get(name) == stage.stage
    )
    found.append(
      StageCosts(
        flops=sum(cost.flops for cost in of_stage),
        seconds=sum(cost.seconds for cost in of_stage),
        weight_bytes=stage.variable_bytes + gradient_bytes,
        activation_bytes=sum(cost.output_bytes for cost in of_stage),
      )
    )
  return tuple(found)


def _boundaries(
  sent: Sequence[transfers.Transfer], mesh: mesh_lib.Mesh
) -> tuple[Boundary, ...]:
  """Adds transfers up by pairs of devices, in the order of the mesh."""
  groups: dict[tuple[str, str], list[int]] = {}
  for transfer in sent:
    pair = (transfer.source, transfer.destination)
    groups.setdefault(pair, []).append(transfer.num_bytes)
  order = {device: index for index, device in enumerate(mesh.devices)}
  pairs = sorted(groups, key=lambda pair: [order.get(d, -1) for d in pair])
  return tuple(
    Boundary(*pair, len(groups[pair]), sum(groups[pair])) for pair in pairs
  )


def _columns(rows: Sequence[Sequence[str]], num_words: int) -> list[str]:
  """Returns rows of a table: first words to the left, then numbers."""
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  lines = []
  for row in rows:
    cells = list(zip(row, widths, strict=True))
    words = [cell.ljust(width) for cell, width in cells[:num_words]]
    numbers = [cell.rjust(width) for cell, width in cells[num_words:]]
    lines.append("  ".join(words + numbers))
  return lines


def _shares(values: Sequence[float]) -> list[float]:
  total = sum(values)
  return [value / total if total else 0.0 for value in values]
