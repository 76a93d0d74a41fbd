"""The plan of a pipeline: which cell each op of a graph belongs to."""

import dataclasses
import weakref
from collections.abc import Mapping

from estimator_mp import mesh as mesh_lib
from estimator_mp import schedule as schedule_lib

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
    schedule: The order of the cells.
    cells: The cell of each op that belongs to one, by the op's name.
  """

  mesh: mesh_lib.Mesh
  schedule: schedule_lib.Schedule
  cells: Mapping[str, schedule_lib.Cell] = dataclasses.field(hash=False)


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
