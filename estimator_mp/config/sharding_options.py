"""The options of sharding, and checks that need no devices.

Nothing of it needs TensorFlow, so that a wrong flag is told at once. What the
words mean on a machine, `ShardingConfig` checks.

Each group of options is a dataclass in a file of its own. A new option is a
field of one of them, with a line of its docstring.
"""

import dataclasses

from estimator_mp.config import options
from estimator_mp.config.batch_options import BatchOptions
from estimator_mp.config.mesh_options import MeshOptions
from estimator_mp.config.model_axis_options import ModelAxisOptions
from estimator_mp.config.pipeline_options import PipelineOptions
from estimator_mp.config.replica_options import ReplicaOptions
from estimator_mp.config.schedules import orders

GROUPS = (
  MeshOptions,
  PipelineOptions,
  BatchOptions,
  ReplicaOptions,
  ModelAxisOptions,
)


@dataclasses.dataclass(frozen=True)
class ShardingOptions(  # noqa: D101
  # The fields are those of the last one first.
  ModelAxisOptions,
  ReplicaOptions,
  BatchOptions,
  PipelineOptions,
):
  __doc__ = f"""How a model is sharded; checked when it is made.

{options.joined_attributes(GROUPS)}
  Raises:
    ValueError: If a field has the wrong type, the mesh cannot be made (see
      `Mesh.create`), a rule is malformed, the memory limit is not positive or
      given without automatic placement, a rule for an axis that does not
      exist, or a placement or costs cannot be read.
  """

  def __post_init__(self) -> None:
    options.check(self)
    self.check_mesh()
    self.check_batch()
    self.check_pipeline()
    schedule = self.create_schedule()
    self.check_replicas()
    self.check_split()
    unused = ["memory_limit"]
    if self.schedule != orders.AUTO:
      unused.append("measured_costs")
    self.check_placement(schedule.num_stages, unused)
