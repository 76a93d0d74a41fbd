"""The plan of a pipeline: which cell each op of a graph belongs to."""

import dataclasses
import weakref
from collections.abc import Mapping

from estimator_mp import mesh as mesh_lib
from estimator_mp.pipeline import schedule as schedule_lib
from estimator_mp.plan import summed_gradients

import tensorflow as tf

# Not a graph collection: those are written into checkpoints' meta graphs.
_plans: weakref.WeakKeyDictionary[tf.Graph, "PipelinePlan"] = (
  weakref.WeakKeyDictionary()
)


@dataclasses.dataclass(frozen=True)
class PipelinePlan:
  """How a graph runs its micro-batches.

  Attributes:
    mesh: The devices; row k of the schedule is stage k of the mesh.
    schedule: The order of the cells of each replica.
    cells: The cell of each op of replica 0 that belongs to one, by the op's
      name.
    further_cells: The same for each further replica.
    requests: What each request for gradients sums over replicas.
  """

  mesh: mesh_lib.Mesh
  schedule: schedule_lib.Schedule
  cells: Mapping[str, schedule_lib.Cell] = dataclasses.field(hash=False)
  further_cells: tuple[Mapping[str, schedule_lib.Cell], ...] = (
    dataclasses.field(default=(), hash=False)
  )
  requests: tuple[tuple[summed_gradients.SummedGradient, ...], ...] = ()

  @property
  def cells_of_replicas(self) -> tuple[Mapping[str, schedule_lib.Cell], ...]:
    """The cells of each replica's ops, by the ops' names."""
    return (self.cells, *self.further_cells)

  @property
  def devices(self) -> tuple[str, ...]:
    """The devices of the mesh, replica after replica, stage after stage."""
    return tuple(
      self.mesh.device(data=replica, stage=stage)
      for replica in range(self.mesh.axis_size("data"))
      for stage in range(self.schedule.num_devices)
    )


def record_plan(graph: tf.Graph, plan: PipelinePlan) -> None:
  """Attaches a plan to a graph, for `get_plan`.

  Args:
    graph: The graph.
    plan: Its plan; it replaces an earlier one.
  """
  _plans[graph] = plan


def get_plan(graph: tf.Graph) -> PipelinePlan | None:
  """Returns the plan of a graph; None if it has no pipeline.

  Args:
    graph: The graph.
  """
  return _plans.get(graph)
