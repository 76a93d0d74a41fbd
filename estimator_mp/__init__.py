"""Model parallelism for tf.estimator programs: the table of contents."""

import compat

compat.install()

from estimator_mp.aggregation import aggregate_gradients  # noqa: E402
from estimator_mp.config import ShardingConfig  # noqa: E402
from estimator_mp.export import export_saved_model  # noqa: E402
from estimator_mp.mesh import Mesh  # noqa: E402
from estimator_mp.placement import Placement  # noqa: E402
from estimator_mp.placement import StagePlacement  # noqa: E402
from estimator_mp.placement import get_placement  # noqa: E402
from estimator_mp.placement import placement_of_graph  # noqa: E402
from estimator_mp.placement import record_placement  # noqa: E402
from estimator_mp.run_config import run_config  # noqa: E402
from estimator_mp.sync import barrier  # noqa: E402
from estimator_mp.verification import PlacementError  # noqa: E402
from estimator_mp.verification import PlacementVerificationHook  # noqa: E402
from estimator_mp.verification import (  # noqa: E402
  with_placement_verification,
)

__all__ = [
  "Mesh",
  "Placement",
  "PlacementError",
  "PlacementVerificationHook",
  "ShardingConfig",
  "StagePlacement",
  "aggregate_gradients",
  "barrier",
  "export_saved_model",
  "get_placement",
  "placement_of_graph",
  "record_placement",
  "run_config",
  "with_placement_verification",
]
