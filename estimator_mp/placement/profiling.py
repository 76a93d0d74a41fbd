"""Measured costs: the measured time of each op of a model.

The automatic placement estimates the time of an op from its FLOPs and bytes.
Where that misleads (a slow op of one's own, a device unlike the nominal one), a
few steps of the plain model can be measured instead, as PipeDream's profiler
does (Narayanan et al., 2019, doi:10.1145/3341301.3359646).
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from estimator_mp.config.measured_costs import MeasuredCosts

import tensorflow as tf


def measure_costs(
  model_fn: Callable[..., tf.estimator.EstimatorSpec],
  input_fn: Callable[..., Any],
  params: dict[str, Any] | None = None,
  steps: int = 5,
) -> MeasuredCosts:
  """Trains a plain model for a few steps, and measures its ops.

  All ops run one after the other on one device: this machine's first GPU, or
  else its CPU. The first step is not counted; of the others, the median is
  taken. TensorFlow does not fuse ops here, so that each is seen. Then whole
  steps are timed as they run without that.

  Args:
    model_fn: The model_fn of an Estimator, as it is: not a sharded one.
    input_fn: The Estimator's input_fn for training, with batches as large as in
      a real run.
    params: The Estimator's params; None for none.
    steps: Number of measured steps.

  Returns:
    The costs, for `ShardingConfig(measured_costs=...)`.

  Raises:
    ValueError: If `steps` is below 1, or input_fn has too few batches.
  """
  if steps < 1:
    raise ValueError(f"steps={steps} is too small; use 1 or more")
  hook, times = _TraceHook(), _TimeHook()
  for each, session_config in ((hook, _one_device()), (times, None)):
    with tempfile.TemporaryDirectory() as model_dir:
      run_config = tf.estimator.RunConfig(
        model_dir=model_dir,
        session_config=session_config,
        save_checkpoints_steps=None,
        save_checkpoints_secs=None,
        save_summary_steps=None,
        log_step_count_steps=None,
      )
      estimator = tf.estimator.Estimator(
        model_fn, config=run_config, params=params
      )
      estimator.train(input_fn, steps=steps + 1, hooks=[each])
  measured = hook.steps[1:]
  if len(measured) < steps:
    raise ValueError(
      f"input_fn has {len(hook.steps)} batch(es), but measuring steps={steps} "
      f"takes {steps + 1}; repeat() its data, or use fewer steps"
    )
  names = sorted({name for step in measured for name in step})
  return MeasuredCosts(
    MappingProxyType(
      {n: statistics.median(s.get(n, 0.0) for s in measured) for n in names}
    ),
    statistics.median(times.steps[1:]),
  )


def _one_device() -> tf.compat.v1.ConfigProto:
  """Returns a session's settings: one op at a time, and none made of several.

  Ops that run at the same time would slow each other down.
  """
  config = tf.compat.v1.ConfigProto(
    device_count={"CPU": 1, "GPU": 1},
    allow_soft_placement=True,
    inter_op_parallelism_threads=1,
    use_per_session_threads=True,
  )
  rewriter = config.graph_options.rewrite_options
  rewriter.remapping = rewriter.OFF
  return config


class _TimeHook(tf.estimator.SessionRunHook):
  """Collects the time of each step.

  Attributes:
    steps: The seconds of steps.
  """

  def __init__(self) -> None:
    self.steps: list[float] = []

  def before_run(
    self, run_context: tf.estimator.SessionRunContext
  ) -> tf.estimator.SessionRunArgs | None:
    self._start = time.perf_counter()
    return None

  def after_run(
    self,
    run_context: tf.estimator.SessionRunContext,
    run_values: tf.estimator.SessionRunValues,
  ) -> None:
    self.steps.append(time.perf_counter() - self._start)


class _TraceHook(tf.estimator.SessionRunHook):
  """Collects the time of each op, step by step.

  Attributes:
    steps: For each step the seconds of ops, by name.
  """

  def __init__(self) -> None:
    self.steps: list[dict[str, float]] = []
    self._op_names: set[str] = set()

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator | None
  ) -> None:
    self._op_names = {op.name for op in session.graph.get_operations()}

  def before_run(
    self, run_context: tf.estimator.SessionRunContext
  ) -> tf.estimator.SessionRunArgs:
    options = tf.compat.v1.RunOptions(
      trace_level=tf.compat.v1.RunOptions.FULL_TRACE
    )
    return tf.estimator.SessionRunArgs(None, options=options)

  def after_run(
    self,
    run_context: tf.estimator.SessionRunContext,
    run_values: tf.estimator.SessionRunValues,
  ) -> None:
    total: dict[str, float] = {}
    executed = _seconds(run_values.run_metadata.step_stats)
    for name, seconds in executed.items():
      op = self._op_of(name)
      if op is not None:
        total[op] = total.get(op, 0.0) + seconds
    self.steps.append(total)

  def _op_of(self, name: str) -> str | None:
    """Returns the op of the graph that an executed one belongs to.

    That of `rnn/while/body/_12/MatMul` is the loop `rnn/while`.
    """
    while name and name not in self._op_names:
      name = name.rpartition("/")[0]
    return name or None


def _seconds(step_stats: tf.compat.v1.RunMetadata) -> dict[str, float]:
  """Returns the seconds of executed ops by name; those in loops add up."""
  slowest: dict[str, float] = {}
  for device in step_stats.dev_stats:
    total: dict[str, float] = {}
    for node in device.node_stats:
      name = node.node_name.partition(":")[0]
      spent = max(node.op_end_rel_nanos - node.op_start_rel_nanos, 0) * 1e-9
      total[name] = total.get(name, 0.0) + spent
    # A GPU reports an op when it is launched, and its streams when it runs.
    for name, spent in total.items():
      slowest[name] = max(slowest.get(name, 0.0), spent)
  return slowest
