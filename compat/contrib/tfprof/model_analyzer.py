"""tf.contrib.tfprof.model_analyzer: prints how large and slow a graph is."""

from typing import Any

from compat.contrib import absent

import tensorflow as tf

__path__: list[str] = []
__getattr__ = absent.getter(__name__)

_Builder = tf.compat.v1.profiler.ProfileOptionBuilder

Profiler = tf.compat.v1.profiler.Profiler

TRAINABLE_VARS_PARAMS_STAT_OPTIONS = _Builder.trainable_variables_parameter()
FLOAT_OPS_OPTIONS = _Builder.float_operation()
PRINT_ALL_TIMING_MEMORY = _Builder.time_and_memory()
ALL_ADVICE: dict[str, Any] = {
  "ExpensiveOperationChecker": {},
  "AcceleratorUtilizationChecker": {},
  "JobChecker": {},
  "OperationChecker": {},
}


def _options(options: Any, default: Any) -> Any:
  return default if options == 0 else options


def print_model_analysis(
  graph: tf.Graph,
  run_meta: Any = None,
  op_log: Any = None,
  tfprof_cmd: str = "scope",
  tfprof_options: Any = 0,
) -> Any:
  """Prints the parameters, or the time and memory, of a graph.

  Args:
    graph: the graph.
    run_meta: a RunMetadata of a traced step, for time and memory.
    op_log: must be left out; there is one kind of log.
    tfprof_cmd: "scope", "graph", "op" or "code".
    tfprof_options: one of this module's OPTIONS; trainable parameters by
      default.

  Returns:
    The tree of what was printed.
  """
  return tf.compat.v1.profiler.profile(
    graph,
    run_meta,
    op_log,
    tfprof_cmd,
    _options(tfprof_options, TRAINABLE_VARS_PARAMS_STAT_OPTIONS),
  )


def advise(
  graph: tf.Graph, run_meta: Any = None, tfprof_options: Any = 0
) -> Any:
  """Prints what could be faster in a graph; see tf.profiler.advise."""
  return tf.compat.v1.profiler.advise(
    graph, run_meta, _options(tfprof_options, ALL_ADVICE)
  )
