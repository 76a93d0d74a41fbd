"""The plan of a step: how its ops are executed, as plain data.

    stages    op -> stage              parts     op -> layouts of inputs
    layouts   tensor -> layout                   and outputs
    passes    op -> stage and phase    edges     op -> control inputs

`lower.lowering` reads these; `reshards`, `segments` and `splits` are reports.
Ops and tensors go by their names, so a plan goes to JSON and back, two plans
compare, and none keeps its graph alive.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from estimator_mp import json_values
from estimator_mp import mesh as mesh_lib
from estimator_mp.config.schedules.schedule import Schedule
from estimator_mp.pipeline.batched_gradients import BatchedGradient
from estimator_mp.pipeline.cells import Pass
from estimator_mp.planning.batch_report import BatchReport
from estimator_mp.planning.reshards import Reshard
from estimator_mp.planning.split_plan import SplitPlan
from estimator_mp.propagate.layouts import Layout, Parts


@dataclasses.dataclass(frozen=True)
class StepPlan:
  """How the finished graph of a step is executed.

  Attributes:
    mesh: The devices.
    schedule: The order of a replica's micro-batches.
    num_replicas: How many replicas there are.
    num_slices: How many slices each of them has.
    split_axis: The axis that variables are split over; None if none is.
    ops: The ops of a step, each after those that it reads.
    stages: The stage of each op that has one.
    positions: Where ops are on the split axis, if not at 0.
    layouts: The layouts of tensors over slices; all others are Once.
    parts: How ops are executed over slices; all others are executed once.
    of_inputs: Ops that depend on inputs alone.
    alike: Ops that slices read and that do not depend on the batch: with
      replicas, each may have variables of its own.
    updates: Ops that no slice depends on, updates of variables among them.
    stateful: Ops that make something else whenever they are executed.
    passes: For each segment, the pass of each op of a slice.
    edges: The control inputs of ops, where they are not the graph's.
    deferred: Ops that end before the value of an op is fetched, or reaches an
      op that has state.
    batched: The gradients that several slices make at once, by the tensors.
    recomputed: From an op that computes activations again to the op that it
      repeats.
    kept_micro_batches: The micro-batches whose activations are kept anyway.
    reshards: The tensors that are cut, joined and summed for slices.
    segments: The report of slices; None if there are none.
    splits: The variables that are split over the axis, and the traffic.
  """

  mesh: mesh_lib.Mesh
  schedule: Schedule
  num_replicas: int
  num_slices: int
  split_axis: str | None
  ops: tuple[str, ...]
  stages: Mapping[str, int]
  positions: Mapping[str, int]
  layouts: Mapping[str, Layout]
  parts: Mapping[str, Parts]
  of_inputs: tuple[str, ...]
  alike: tuple[str, ...]
  updates: tuple[str, ...]
  stateful: tuple[str, ...]
  passes: tuple[Mapping[str, Pass], ...]
  edges: Mapping[str, tuple[str, ...]]
  deferred: Mapping[str, tuple[str, ...]]
  batched: Mapping[str, BatchedGradient]
  recomputed: Mapping[str, str]
  kept_micro_batches: tuple[int, ...]
  reshards: tuple[Reshard, ...]
  segments: BatchReport | None
  splits: SplitPlan | None

  def to_dict(self) -> dict[str, Any]:
    """Returns everything for JSON."""
    return dict(json_values.dump(StepPlan, self))

  @classmethod
  def from_dict(cls, value: Any) -> "StepPlan":
    """Returns the plan of a result of `to_dict`.

    Args:
      value: The result, or a copy that was read from JSON.

    Raises:
      ValueError: If it is no plan; the message names the error and the place.
    """
    plan: StepPlan = json_values.load(cls, value, "the plan")
    return plan

  @property
  def has_slices(self) -> bool:
    """Whether the batch is in slices."""
    return self.num_replicas * self.num_slices > 1

  @property
  def slices(self) -> list[range]:
    """For each replica the numbers of its slices."""
    count = self.num_slices
    return [range(i * count, (i + 1) * count) for i in range(self.num_replicas)]
