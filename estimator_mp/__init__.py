"""Model parallelism for tf.estimator programs.

The names below are public. The first use of one imports them all, and
TensorFlow: `public` is the table of contents. Until then a command can check
its flags, at once.
"""

import importlib
import typing

import compat

if typing.TYPE_CHECKING:
  from estimator_mp.public import *

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

compat.install_when_imported()


def __getattr__(name: str) -> typing.Any:
  if name not in __all__:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  public = importlib.import_module(f"{__name__}.public")
  globals().update(
    {public_name: getattr(public, public_name) for public_name in __all__}
  )
  return globals()[name]


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
