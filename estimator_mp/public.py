"""The public names: the table of contents, which imports TensorFlow."""

from estimator_mp.collectives.aggregation import aggregate_gradients
from estimator_mp.collectives.sync import barrier
from estimator_mp.comparison.comparison import ComparedStep, Comparison, compare
from estimator_mp.config.sharding_config import (
  ShardingConfig,
  define_sharding_flags,
)
from estimator_mp.export import export_saved_model, with_deviceless_export
from estimator_mp.mesh import Mesh, get_mesh, stage
from estimator_mp.observe.trace_hook import TraceHook
from estimator_mp.observe.verification import (
  PlacementError,
  PlacementVerificationHook,
  with_placement_verification,
)
from estimator_mp.placement.measured_costs import MeasuredCosts, measure_costs
from estimator_mp.placement.placement import (
  Placement,
  StagePlacement,
  placement_of_graph,
)
from estimator_mp.plan.sharding_plan import get_placement, record_placement
from estimator_mp.session.input_position import InputPositionHook
from estimator_mp.session.session_config import run_config
from estimator_mp.sharded_estimator import shard_estimator
from estimator_mp.sharding import shard_model_fn

__all__ = [
  "ComparedStep",
  "Comparison",
  "InputPositionHook",
  "MeasuredCosts",
  "Mesh",
  "Placement",
  "PlacementError",
  "PlacementVerificationHook",
  "ShardingConfig",
  "StagePlacement",
  "TraceHook",
  "aggregate_gradients",
  "barrier",
  "compare",
  "define_sharding_flags",
  "export_saved_model",
  "get_mesh",
  "get_placement",
  "measure_costs",
  "placement_of_graph",
  "record_placement",
  "run_config",
  "shard_estimator",
  "shard_model_fn",
  "stage",
  "with_deviceless_export",
  "with_placement_verification",
]
