"""Less common public names, in addition to those of `estimator_mp`.

- Hooks, with what belongs to them: `ProgressHook` and `EvaluationReport`,
  `PlacementVerificationHook` and `PlacementError`, `InputPositionHook`.
- For a model_fn that places its own towers, as `model_fns.batch_split` does:
  `barrier`, `with_placement_verification`, `with_deviceless_export`.
- `StagePipeline`, the client of stages that `estimator_mp.export_stages`
  exports, and `StageError`, which it raises.
- `join_cluster`, for programs whose cluster TF_CONFIG does not name: it writes
  the cluster of Slurm, Kubernetes or another cluster resolver there.
- Classes that functions return or take: `Comparison`, `MeasuredCosts`,
  `ModelPlan`, `Placement`.

Horovod's helpers are in `estimator_mp.replicas.horovod`.
"""

import typing

from compat.lazy_names import lazy_names

if typing.TYPE_CHECKING:  # Each is imported when it is first used.
  from estimator_mp.collectives.towers import barrier as barrier
  from estimator_mp.comparison.comparison import Comparison as Comparison
  from estimator_mp.comparison.differences import ComparedStep as ComparedStep
  from estimator_mp.config.measured_costs import MeasuredCosts as MeasuredCosts
  from estimator_mp.config.placement import Placement as Placement
  from estimator_mp.config.placement import StagePlacement as StagePlacement
  from estimator_mp.distributed.join_cluster import join_cluster as join_cluster
  from estimator_mp.observe.model_plan import ModelPlan as ModelPlan
  from estimator_mp.observe.progress import EvaluationReport as EvaluationReport
  from estimator_mp.observe.progress import ProgressHook as ProgressHook
  from estimator_mp.observe.verification import PlacementError as PlacementError
  from estimator_mp.observe.verification import (
    PlacementVerificationHook as PlacementVerificationHook,
  )
  from estimator_mp.observe.verification import (
    with_placement_verification as with_placement_verification,
  )
  from estimator_mp.serving.stage_pipeline import StageError as StageError
  from estimator_mp.serving.stage_pipeline import StagePipeline as StagePipeline
  from estimator_mp.session.export import (
    with_deviceless_export as with_deviceless_export,
  )
  from estimator_mp.session.input_position import (
    InputPositionHook as InputPositionHook,
  )

__getattr__, __dir__, __all__ = lazy_names(
  __name__, "the most common functions are in estimator_mp"
)
