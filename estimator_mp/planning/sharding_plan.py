"""The sharding plan of one graph, with the names of the ops made by it.

`lower` edits the graph by the plan of a step; `observe` reads that, and the
names of new ops. Ops and tensors go by their names, so that a plan does not
keep its graph alive.
"""

import dataclasses
import weakref
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from estimator_mp import mesh as mesh_lib
from estimator_mp.config import placement as placement_lib
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.placement import transfers
from estimator_mp.planning.batch_report import BatchReport
from estimator_mp.planning.gradient_sums import GradientSum
from estimator_mp.planning.split_plan import SplitPlan
from estimator_mp.planning.step_plan import StepPlan

import tensorflow as tf

# Not a graph collection: those are written into checkpoints' meta graphs.
_plans: weakref.WeakKeyDictionary[tf.Graph, "ShardingPlan"] = (
  weakref.WeakKeyDictionary()
)


@dataclasses.dataclass(frozen=True)
class PipelinePlan:
  """How the replicas of a graph run their micro-batches.

  Attributes:
    mesh: The devices; row k of the schedule is stage k of the mesh.
    schedule: The order of the cells of each replica.
    cells: For each replica, the cell of each op that belongs to one, by the
      op's name.
    recomputed: The stages for which ops of the first micro-batch compute
      activations again, by the ops' names.
  """

  mesh: mesh_lib.Mesh
  schedule: schedule_lib.Schedule
  cells: tuple[Mapping[str, schedule_lib.Cell], ...]
  recomputed: Mapping[str, int] = dataclasses.field(
    default_factory=lambda: MappingProxyType({})
  )


@dataclasses.dataclass(frozen=True)
class ShardingPlan:
  """How a graph is sharded.

  Attributes:
    placement: The stage of each op.
    pipeline: How micro-batches and replicas run; None if the graph has one
      slice of the batch.
    gradient_sums: For each round of updates, its sums over replicas.
    mirrors: The names of the handles (or references) of each mirrored
      variable's mirrors, by the name of the variable's op.
    train_op: The name of the op that a training step runs; None if there is
      none, or if all of the graph's writes of variables are parts of a step.
    step: The plan of a step; None if model_fn has placed its ops itself.
  """

  placement: placement_lib.Placement
  pipeline: PipelinePlan | None = None
  gradient_sums: tuple[tuple[GradientSum, ...], ...] = ()
  mirrors: Mapping[str, tuple[str, ...]] = dataclasses.field(
    default_factory=lambda: MappingProxyType({})
  )
  train_op: str | None = None
  step: StepPlan | None = None

  @property
  def splits(self) -> SplitPlan | None:
    """The variables that are split over the model axis; None without one."""
    return None if self.step is None else self.step.splits

  @property
  def segments(self) -> BatchReport | None:
    """How slices of the batch wait for each other; None if there is one."""
    return None if self.step is None else self.step.segments

  def __str__(self) -> str:
    parts = [self.placement.table()]
    if self.segments is not None:
      parts.append(str(self.segments))
    return "\n\n".join(parts)


def record_plan(graph: tf.Graph, plan: ShardingPlan) -> None:
  """Attaches a plan to a graph, for `get_plan`.

  Args:
    graph: The graph.
    plan: Its plan; it replaces an earlier one.
  """
  _plans[graph] = plan


def get_plan(graph: tf.Graph) -> ShardingPlan | None:
  """Returns the plan of a graph; None if no sharded model_fn built it.

  Args:
    graph: The graph.
  """
  return _plans.get(graph)


def pipeline_of(graph: tf.Graph) -> PipelinePlan | None:
  """Returns how a graph runs micro-batches; None if it has none.

  Args:
    graph: The graph.
  """
  plan = get_plan(graph)
  return None if plan is None else plan.pipeline


def get_placement(graph: tf.Graph) -> placement_lib.Placement:
  """Returns the placement of a graph that a sharded model_fn built.

  A `SessionRunHook` may call it from `begin()` on, with the default graph.

  Args:
    graph: The graph.

  Returns:
    Its placement.

  Raises:
    ValueError: If no sharded model_fn built the graph.
  """
  plan = get_plan(graph)
  if plan is None:
    raise ValueError(
      "the graph has no placement: no model_fn of estimator_mp or model_fns "
      "built it; call get_placement with the graph that the Estimator trains"
    )
  placement = plan.placement
  if placement.ops and not placement.transfers:
    # Not when the graph is built: that would take longer for all who do not
    # ask, and more may be sent once the Estimator has added its own ops.
    ops: Sequence[tf.Operation] = graph.get_operations()
    if plan.train_op is not None:
      ops = transfers.ops_of_step(graph.get_operation_by_name(plan.train_op))
    sent = transfers.planned_transfers(ops)
    placement = dataclasses.replace(placement, transfers=tuple(sent))
    record_plan(graph, dataclasses.replace(plan, placement=placement))
  return placement
