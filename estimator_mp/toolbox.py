"""What some programs need besides the names of `estimator_mp`.

- Hooks, and what they raise: `PlacementVerificationHook`, `InputPositionHook`.
- For a model_fn that places its own towers, as `model_fns.batch_split` does:
  `barrier`, `with_placement_verification`, `with_deviceless_export`,
  `placement_of_graph`, `record_placement`.
- For a model_fn whose loss compares the examples of a batch with each other:
  `whole_batch`.
- `StagePipeline`, the client of what `estimator_mp.export_stages` exports, and
  `StageError`, which it raises.
- `join_cluster`, for programs whose cluster TF_CONFIG does not name: it writes
  what Slurm, Kubernetes or another cluster resolver says into it.
- `elastic_mesh`, for programs that `//estimator_mp:launch --elastic` starts
  again with fewer tasks: it says which mesh fits these.
- The classes of what functions return or take: `Comparison`, `Inspection`,
  `MeasuredCosts`, `Placement`.

Horovod's helpers are in `estimator_mp.replicas.horovod`.
"""

from estimator_mp.capture.whole_batches import whole_batch
from estimator_mp.collectives.towers import barrier
from estimator_mp.comparison.comparison import ComparedStep, Comparison
from estimator_mp.config.elastic_mesh import elastic_mesh
from estimator_mp.config.measured_costs import MeasuredCosts
from estimator_mp.config.placement import Placement, StagePlacement
from estimator_mp.distributed.join_cluster import join_cluster
from estimator_mp.observe.inspection import Inspection
from estimator_mp.observe.verification import (
  PlacementError,
  PlacementVerificationHook,
  with_placement_verification,
)
from estimator_mp.placement.contents import placement_of_graph
from estimator_mp.plan.sharding_plan import record_placement
from estimator_mp.serving.stage_pipeline import StageError, StagePipeline
from estimator_mp.session.export import with_deviceless_export
from estimator_mp.session.input_position import InputPositionHook

__all__ = [
  "ComparedStep",
  "Comparison",
  "InputPositionHook",
  "Inspection",
  "MeasuredCosts",
  "Placement",
  "PlacementError",
  "PlacementVerificationHook",
  "StageError",
  "StagePipeline",
  "StagePlacement",
  "barrier",
  "elastic_mesh",
  "join_cluster",
  "placement_of_graph",
  "record_placement",
  "whole_batch",
  "with_deviceless_export",
  "with_placement_verification",
]
