"""Model parallelism for tf.estimator programs.

The names below are public, and so are those of `estimator_mp.toolbox`, which
fewer programs need. Each is imported when it is first used, and TensorFlow with
it: until then a command can check its flags, at once.
"""

import typing

import compat
from compat.lazy_names import lazy_names
from estimator_mp import toolbox as toolbox

if typing.TYPE_CHECKING:  # Each is imported when it is first used.
  from estimator_mp.collectives.towers import (
    aggregate_gradients as aggregate_gradients,
  )
  from estimator_mp.comparison.compare import compare as compare
  from estimator_mp.comparison.plan_model import plan as plan
  from estimator_mp.config.sharding_config import (
    ShardingConfig as ShardingConfig,
  )
  from estimator_mp.config.sharding_config import (
    define_sharding_flags as define_sharding_flags,
  )
  from estimator_mp.distributed.train_and_evaluate import (
    train_and_evaluate as train_and_evaluate,
  )
  from estimator_mp.mesh import Mesh as Mesh
  from estimator_mp.mesh import get_mesh as get_mesh
  from estimator_mp.mesh import stage as stage
  from estimator_mp.observe.trace_hook import TraceHook as TraceHook
  from estimator_mp.placement.profiling import (
    measure_costs as measure_costs,
  )
  from estimator_mp.planning.sharding_plan import get_placement as get_placement
  from estimator_mp.serving.export_stages import export_stages as export_stages
  from estimator_mp.session.export import (
    export_saved_model as export_saved_model,
  )
  from estimator_mp.session.session_config import run_config as run_config
  from estimator_mp.sharded_estimator import shard_estimator as shard_estimator
  from estimator_mp.sharding import shard_model_fn as shard_model_fn

__version__ = "1.0.0rc1"

compat.install_when_imported()
__getattr__, __dir__, __all__ = lazy_names(
  __name__, f"less common functions are in {__name__}.toolbox"
)
