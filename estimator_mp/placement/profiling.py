"""Measured costs: the measured time of each op of a model.

The automatic placement estimates the time of an op from its FLOPs and bytes.
Where that misleads (a slow op of one's own, a device unlike the nominal one), a
few steps of the plain model can be measured instead, as PipeDream's profiler
does (Narayanan et al., 2019, doi:10.1145/3341301.3359646).
"""

import re
import statistics
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from estimator_mp.config.measured_costs import MeasuredCosts

import tensorflow as tf

_GRADIENTS = re.compile(r"gradients(_\d+)?")
_TAPE = "gradient_tape"
_GRAD = "_grad"
_UPDATE = "update_"


def measure_costs(
  model_fn: Callable[..., tf.estimator.EstimatorSpec],
  input_fn: Callable[..., Any],
  params: dict[str, Any] | None = None,
  steps: int = 5,
) -> MeasuredCosts:
  """Trains a plain model for a few steps, and measures its ops.

  All ops run one after the other on one device: this machine's first GPU, or
  else its CPU. The first step is not counted; of the others, the median is
  taken. TensorFlow does not fuse ops here, so that each is seen.

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
  hook = _TraceHook()
  with tempfile.TemporaryDirectory() as model_dir:
    run_config = tf.estimator.RunConfig(
      model_dir=model_dir,
      session_config=_one_device(),
      save_checkpoints_steps=None,
      save_checkpoints_secs=None,
      save_summary_steps=None,
      log_step_count_steps=None,
    )
    estimator = tf.estimator.Estimator(
      model_fn, config=run_config, params=params
    )
    estimator.train(input_fn, steps=steps + 1, hooks=[hook])
  measured = hook.steps[1:]
  if len(measured) < steps:
    raise ValueError(
      f"input_fn has {len(hook.steps)} batch(es), but measuring steps={steps} "
      f"takes {steps + 1}; repeat() its data, or use fewer steps"
    )
  owners = Owners(hook.op_names)
  by_step = [owners.add_up(step) for step in measured]
  names = sorted({name for step in by_step for name in step})
  return MeasuredCosts(
    MappingProxyType(
      {n: statistics.median(s.get(n, 0.0) for s in by_step) for n in names}
    )
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


class _TraceHook(tf.estimator.SessionRunHook):
  """Collects the time of each executed op, step by step.

  Attributes:
    op_names: The names of the graph's ops.
    steps: For each step the seconds of what was executed, by name.
  """

  def __init__(self) -> None:
    self.op_names: set[str] = set()
    self.steps: list[dict[str, float]] = []

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator | None
  ) -> None:
    self.op_names = {op.name for op in session.graph.get_operations()}

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
    self.steps.append(_seconds(run_values.run_metadata.step_stats))


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


class Owners:
  """Knows which op of a model an executed op belongs to, by their names.

  - `scope/gradients/dense/MatMul_grad/MatMul` is a gradient of `dense/MatMul`,
    in whatever scope gradients were asked for.
  - `Adam/update_dense/kernel/ResourceApplyAdam` updates `dense/kernel`.
  - `gradient_tape/dense/MatMul_1` is made by a tape, which names the scope of
    the forward op only: it belongs to the slowest op of that scope.
  - `rnn/while/body/_12/MatMul` is inside of the loop `rnn/while`.
  """

  def __init__(self, op_names: Collection[str]):
    self._names = op_names

  def add_up(self, seconds: Mapping[str, float]) -> dict[str, float]:
    """Returns the seconds of a model's ops, their gradients' among them.

    Args:
      seconds: The seconds of what was executed, by name.
    """
    total: dict[str, float] = {}
    of_tape = []
    for name, spent in seconds.items():
      if _TAPE in name.split("/"):
        of_tape.append((name, spent))
        continue
      owner = self.of(name)
      if owner is not None:
        total[owner] = total.get(owner, 0.0) + spent
    slowest = _slowest_of_scopes(total)
    for name, spent in of_tape:
      scopes = [*_prefixes(name.rpartition(f"{_TAPE}/")[2].split("/"))]
      found = [slowest[scope] for scope in scopes if scope in slowest]
      if found:
        total[found[-1]] += spent
    return total

  def of(self, name: str) -> str | None:
    """Returns the op that an executed op belongs to; None for none.

    Args:
      name: The name of what was executed, not by a tape.
    """
    parts = name.split("/")
    for index, part in enumerate(parts):
      if _GRADIENTS.fullmatch(part):
        rest = parts[index + 1 :]
        found = [x.removesuffix(_GRAD) for x in _prefixes(rest, _GRAD)]
        owner = next((x for x in found if x in self._names), None)
        if owner is not None:
          return owner
      if part.startswith(_UPDATE):
        rest = [part.removeprefix(_UPDATE), *parts[index + 1 :]]
        updated = [x for x in _prefixes(rest) if x in self._names]
        if updated:
          return updated[-1]
    whole = [x for x in _prefixes(parts) if x in self._names]
    return whole[-1] if whole else None


def _prefixes(parts: list[str], ending: str = "") -> Iterable[str]:
  """Yields the scopes that a name is in, and the name itself."""
  for index, part in enumerate(parts, start=1):
    if part.endswith(ending):
      yield "/".join(parts[:index])


def _slowest_of_scopes(seconds: Mapping[str, float]) -> dict[str, str]:
  """Returns the op that takes longest in each scope."""
  slowest: dict[str, str] = {}
  for name in seconds:
    for scope in _prefixes(name.split("/")[:-1]):
      if seconds[name] > seconds.get(slowest.get(scope, ""), 0.0):
        slowest[scope] = name
  return slowest
