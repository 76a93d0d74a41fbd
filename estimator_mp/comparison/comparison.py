"""Comparison: the plain and the sharded model, step by step, side by side.

Both start from one checkpoint and train on the same batches, in turns. What a
user is promised, that sharding changes nothing, is so tried on his own program.
"""

import contextlib
import dataclasses
import functools
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from estimator_mp import amounts, sharding
from estimator_mp import mesh as mesh_lib
from estimator_mp.comparison import parting, training_graph
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.config import sharding_options
from estimator_mp.graph import traversal
from estimator_mp.session import session_config

import numpy as np
import tensorflow as tf

# Of a variable that is small beside others of its kind, no less is compared
# than this part of their largest entry: it may be a sum that cancels out.
_SMALL = 1e-3
# A gradient that is smaller than this part of the largest one is rounding.
_ROUNDING = 1e-6
_MOST_ROWS = 15
_MOST_LETTERS = 200


@dataclasses.dataclass(frozen=True)
class ComparedStep:
  """What a training step gave, plain and sharded.

  A difference of two arrays is the largest of an entry, as a part of the
  plain one's largest entry, or of 1/1000 of the largest entry of all variables
  of the same kind (trainable, or slots of one name) if that is more.

  Attributes:
    number: The step, from 1.
    plain_loss: The loss of the plain model.
    sharded_loss: That of the sharded model.
    plain_gradient_norm: The global norm of the gradients of variables that
      model_fn got in the plain model; None if it asked for none.
    sharded_gradient_norm: The same of the sharded model.
    gradients: The differences of the gradients, by their variables' names.
    variables: The differences of all variables after the step, by their names;
      slots, statistics and counters are among them.
  """

  number: int
  plain_loss: float
  sharded_loss: float
  plain_gradient_norm: float | None
  sharded_gradient_norm: float | None
  gradients: Mapping[str, float]
  variables: Mapping[str, float]

  @property
  def loss_difference(self) -> float:
    """The difference of the losses, as a part of the plain one."""
    return _difference(self.sharded_loss, self.plain_loss)

  @property
  def gradient_difference(self) -> float:
    """The difference of the norms, as a part of the plain one."""
    if self.plain_gradient_norm is None or self.sharded_gradient_norm is None:
      return 0.0
    return _difference(self.sharded_gradient_norm, self.plain_gradient_norm)

  def largest(self) -> float:
    """Returns the largest difference of the step."""
    return max(
      self.loss_difference, self.gradient_difference, *self.variables.values()
    )


@dataclasses.dataclass(frozen=True)
class Comparison:
  """What `compare` found.

  Attributes:
    sharding: The mesh of the sharded model, and its micro-batches.
    start: Where both began: a checkpoint, or "initial values".
    steps: One entry for each step, at least one.
    tolerance: The largest difference that counts as equal.
    only_rounding: Trainable variables whose gradient is zero but for rounding,
      with their slots. An optimizer may make steps of any size of that, so
      they are not among the variables of the steps.
    reason: Why the models probably part, in a line; "" if they are equal.
  """

  sharding: str
  start: str
  steps: tuple[ComparedStep, ...]
  tolerance: float
  only_rounding: tuple[str, ...]
  reason: str

  @property
  def ok(self) -> bool:
    """Whether every loss, gradient norm and variable is equal."""
    return self.parted is None

  @property
  def parted(self) -> ComparedStep | None:
    """The first step with a difference above the tolerance, if there is one."""
    for step in self.steps:
      if not step.largest() <= self.tolerance:
        return step
    return None

  def variables(self) -> dict[str, float]:
    """Returns the largest difference of each variable, largest first."""
    largest = {
      name: max(step.variables[name] for step in self.steps)
      for name in self.steps[0].variables
    }
    return dict(sorted(largest.items(), key=lambda x: -x[1]))

  def text(self) -> str:
    """Returns the comparison for people."""
    lines = [
      f"plain and sharded on {self.sharding}, from {self.start}, on the same"
      f" {len(self.steps)} batch(es)",
      "",
      *amounts.columns(_step_rows(self.steps), 9),
      "",
      *amounts.columns(_variable_rows(self.variables()), 2),
    ]
    if self.only_rounding:
      lines += [
        "",
        "not compared, as their gradients are zero but for rounding: "
        + ", ".join(self.only_rounding),
      ]
    return "\n".join([*lines, "", self.verdict()])

  def verdict(self) -> str:
    """Returns whether they are equal, and why they are not, in one line."""
    parted = self.parted
    if parted is None:
      largest = max(step.largest() for step in self.steps)
      return (
        f"equal: losses, gradient norms and {len(self.steps[0].variables)}"
        f" variables of {len(self.steps)} step(s), to {largest:.1e}"
        f" (tolerance {self.tolerance:g})"
      )
    return (
      f"not equal: from step {parted.number} on they part, by"
      f" {parted.largest():.1e} (tolerance {self.tolerance:g}); {self.reason}"
    )


def _step_rows(steps: Sequence[ComparedStep]) -> Iterator[Sequence[str]]:
  yield (
    *("step", "plain loss", "sharded", "differs by"),
    *("gradient norm", "sharded", "differs by"),
    *("variables differ by", "most of all"),
  )
  for step in steps:
    name, largest = max(step.variables.items(), key=lambda x: x[1])
    yield (
      str(step.number),
      _value(step.plain_loss),
      _value(step.sharded_loss),
      _part(step.loss_difference),
      _value(step.plain_gradient_norm),
      _value(step.sharded_gradient_norm),
      _part(step.gradient_difference),
      _part(largest),
      name if largest else "",
    )


def _variable_rows(variables: Mapping[str, float]) -> Iterator[Sequence[str]]:
  yield "variable", "differs by"
  rows = [(name, _part(x)) for name, x in variables.items()]
  yield from rows[:_MOST_ROWS]
  if len(rows) > _MOST_ROWS:
    yield f"{len(rows) - _MOST_ROWS} others", f"at most {rows[_MOST_ROWS][1]}"


def _value(value: float | None) -> str:
  return "none" if value is None else f"{value:.7g}"


def _part(difference: float) -> str:
  return f"{difference:.1e}" if difference else "0"


def compare(
  model_fn: Callable[..., tf.estimator.EstimatorSpec],
  input_fn: Callable[..., Any],
  config: sharding_config_lib.ShardingConfig,
  steps: int = 5,
  *,
  tolerance: float = 1e-5,
  params: Mapping[str, Any] | None = None,
  run_config: tf.estimator.RunConfig | None = None,
  checkpoint: str | None = None,
  restart_each_step: bool = False,
) -> Comparison:
  """Trains a model plain and sharded, in turns, and compares every step.

  Both start from one checkpoint, so that it does not matter how initial values
  are drawn, and get the same batches, which are read from `input_fn` once. The
  spec's Scaffold and training hooks work as they do for an Estimator. Nothing
  is written but in a temporary folder. Layers of tf_keras stay seeded by the
  RunConfig's seed afterwards.

  Args:
    model_fn: The model_fn of your Estimator, not sharded; `estimator.model_fn`
      will do.
    input_fn: Its input_fn for training.
    config: How to shard it.
    steps: How many training steps; fewer if `input_fn` ends before.
    tolerance: The largest difference that counts as equal; see `ComparedStep`.
    params: The Estimator's params.
    run_config: The Estimator's RunConfig: its seed and the plain model's
      session are as it says. None for one of defaults.
    checkpoint: A checkpoint, or a model_dir with one, to start from; None for
      the plain model's initial values.
    restart_each_step: Whether the sharded model begins every step with the
      plain one's variables, so that no difference can grow. It is built anew
      each time.

  Raises:
    ValueError: If an argument is wrong, the checkpoint is not of this model,
      `input_fn` has no batch, or model_fn cannot be sharded.
  """
  _check_arguments(config, steps, tolerance)
  given = run_config or tf.estimator.RunConfig()
  batches = training_graph.read_batches(input_fn, steps, given, params)
  if not batches.values:
    raise ValueError(
      "input_fn gave no batch, so nothing was compared; give one that does"
    )
  session = session_config.session_config(config, given.session_config)
  with tempfile.TemporaryDirectory() as folder:

    def described(name: str, **changed: Any) -> tf.estimator.RunConfig:
      return given.replace(model_dir=os.path.join(folder, name), **changed)

    plain = _Model(
      _without_marks(model_fn, config.create_mesh()),
      batches.inputs,
      described("plain"),
      params,
    )
    sharded = _Model(
      sharding.shard_model_fn(model_fn, config),
      batches.inputs,
      described("sharded", session_config=session),
      params,
    )
    begin = (
      plain.build().initialize(os.path.join(folder, "initial"))
      if checkpoint is None
      else _find_checkpoint(checkpoint)
    )
    plain_run = plain.start(begin)
    with contextlib.closing(plain_run), contextlib.ExitStack() as stack:
      sharded_run = sharded.start(begin)
      stack.callback(sharded_run.close)
      found = []
      for number, values in enumerate(batches.values, start=1):
        if plain_run.is_over() or sharded_run.is_over():
          break
        if restart_each_step and number > 1:
          stack.close()
          path = plain_run.save(os.path.join(folder, f"step_{number}"))
          sharded_run = sharded.start(path)
          stack.callback(sharded_run.close)
        found.append((plain_run.step(values), sharded_run.step(values)))
  if not found:
    raise ValueError(
      "a training hook of the model stopped before the first step, so nothing "
      "was compared; leave it out"
    )
  return judge(found, plain_run.graph, config, tolerance, checkpoint)


@dataclasses.dataclass(frozen=True)
class _Model:
  """One of the two models, of which graphs are made.

  Attributes:
    model_fn: The model_fn, sharded or not.
    inputs: As in `training_graph.Batches`.
    run_config: What it is called with.
    params: What it is called with.
  """

  model_fn: Callable[..., tf.estimator.EstimatorSpec]
  inputs: tuple[Any, Any]
  run_config: tf.estimator.RunConfig
  params: Mapping[str, Any] | None

  def build(self) -> training_graph.TrainingGraph:
    """Returns a new graph."""
    return training_graph.TrainingGraph(
      self.model_fn, self.inputs, self.run_config, self.params
    )

  def start(self, checkpoint: str) -> training_graph.TrainingRun:
    """Returns a run of a new graph, from a checkpoint.

    Args:
      checkpoint: The path of the checkpoint.
    """
    graph = self.build()
    try:
      return graph.start(checkpoint)
    except (
      tf.errors.DataLossError,
      tf.errors.InvalidArgumentError,
      tf.errors.NotFoundError,
    ) as error:
      reason = " ".join(error.message.split())[:_MOST_LETTERS]
      raise ValueError(
        f"checkpoint={checkpoint!r} is not of this model ({reason}); give one "
        "that this model_fn was trained to, or none for initial values"
      ) from error


def _without_marks(
  model_fn: Callable[..., tf.estimator.EstimatorSpec], mesh: mesh_lib.Mesh
) -> Callable[..., tf.estimator.EstimatorSpec]:
  """Returns a model_fn in which `estimator_mp.stage` places nothing."""
  unplaced = mesh_lib.UnplacedMesh(mesh.axes, mesh.devices)

  @functools.wraps(model_fn)
  def plain(*args: Any, **kwargs: Any) -> tf.estimator.EstimatorSpec:
    with mesh_lib.current_mesh(unplaced):
      return model_fn(*args, **kwargs)

  return plain


def _check_arguments(
  config: sharding_config_lib.ShardingConfig, steps: int, tolerance: float
) -> None:
  sharding_config_lib.check_config(config)
  if config.aggregation == sharding_options.HOROVOD:
    raise ValueError(
      'aggregation="horovod" sums over processes, and compare is one process; '
      'compare with a data axis, such as mesh="data:2"'
    )
  if type(steps) is not int or steps < 1:
    raise ValueError(
      f"steps={steps!r} would compare nothing; use a whole number from 1 on"
    )
  if not 0 <= tolerance < 1:
    raise ValueError(
      f"tolerance={tolerance!r} is no part of a number; use one from 0 up to 1,"
      " such as 1e-5"
    )


def _find_checkpoint(given: str) -> str:
  """Returns the path of a checkpoint."""
  if tf.io.gfile.isdir(given):
    found = tf.train.latest_checkpoint(given)
  else:
    found = given if tf.io.gfile.exists(f"{given}.index") else None
  if found is None:
    raise ValueError(
      f"checkpoint={given!r} is no checkpoint, and no model_dir with one; give "
      "the path of one, or none for initial values"
    )
  return str(found)


def judge(
  found: Sequence[tuple[training_graph.Step, training_graph.Step]],
  plain_graph: training_graph.TrainingGraph,
  config: sharding_config_lib.ShardingConfig,
  tolerance: float,
  checkpoint: str | None,
) -> Comparison:
  """Returns what steps, plain and sharded, say.

  Args:
    found: Each step, plain and sharded; at least one.
    plain_graph: The plain model's graph.
    config: How the other one was sharded.
    tolerance: As for `compare`.
    checkpoint: As for `compare`.
  """
  kinds = _kinds(plain_graph)
  noise = _only_rounding(found, kinds)
  steps = [
    _compared(number, plain, sharded, kinds, noise)
    for number, (plain, sharded) in enumerate(found, start=1)
  ]
  comparison = Comparison(
    f"{config.create_mesh()} with {config.num_micro_batches} micro-batch(es)",
    checkpoint or "initial values",
    tuple(steps),
    tolerance,
    noise,
    "",
  )
  parted = comparison.parted
  if parted is None:
    return comparison
  spec = plain_graph.spec
  fetches = (getattr(x, "op", x) for x in (spec.train_op, spec.loss))
  facts = parting.Facts(
    *found[parted.number - 1],
    parted.gradients,
    parted.variables,
    parted.loss_difference,
    tolerance,
    config,
    traversal.ops_run_with(*fetches),
  )
  return dataclasses.replace(comparison, reason=parting.reason(facts))


def _kinds(graph: training_graph.TrainingGraph) -> dict[str, str]:
  """Returns for each variable what variables it is compared beside.

  They are "trainable", "slot NAME", or its own name.
  """
  trainable = {v.op.name for v in graph.trainable_variables()}
  kinds = {}
  for name in graph.variables:
    variable, slash, slot = name.rpartition("/")
    kinds[name] = f"slot {slot}" if slash and variable in trainable else name
    if name in trainable:
      kinds[name] = "trainable"
  return kinds


def _only_rounding(
  found: Sequence[tuple[training_graph.Step, training_graph.Step]],
  kinds: Mapping[str, str],
) -> tuple[str, ...]:
  """Returns variables whose gradients are zero but for rounding, and slots."""
  largest = {
    name: max(
      _largest(step.gradients.get(name, np.inf))
      for pair in found
      for step in pair
    )
    for name in found[0][0].gradients
  }
  limit = _ROUNDING * max(largest.values(), default=0.0)
  return tuple(
    name
    for name, kind in kinds.items()
    if kind == "trainable" or kind.startswith("slot ")
    if 0 < largest.get(_variable_of(name, kind), np.inf) <= limit
  )


def _variable_of(name: str, kind: str) -> str:
  return name.removesuffix(kind.replace("slot ", "/", 1))


def _compared(
  number: int,
  plain: training_graph.Step,
  sharded: training_graph.Step,
  kinds: Mapping[str, str],
  noise: Sequence[str],
) -> ComparedStep:
  """Returns the differences of a step."""
  gradients = {
    name: "gradient" for name in {**plain.gradients, **sharded.gradients}
  }
  variables = {
    name: kinds.get(name, name)
    for name in {**plain.variables, **sharded.variables}
    if name not in noise
  }
  return ComparedStep(
    number,
    plain.loss,
    sharded.loss,
    _norm(plain.gradients),
    _norm(sharded.gradients),
    _differences(sharded.gradients, plain.gradients, gradients),
    _differences(sharded.variables, plain.variables, variables),
  )


def _differences(
  found: Mapping[str, np.ndarray],
  expected: Mapping[str, np.ndarray],
  kinds: Mapping[str, str],
) -> dict[str, float]:
  """Returns the differences of arrays, by names and kinds."""
  of_kind: dict[str, float] = {}
  for name, kind in kinds.items():
    size = _largest(expected[name]) if name in expected else 0.0
    of_kind[kind] = max(of_kind.get(kind, 0.0), size)
  return {
    name: _difference(found[name], expected[name], _SMALL * of_kind[kind])
    if name in found and name in expected
    else np.inf
    for name, kind in kinds.items()
  }


def _difference(found: Any, expected: Any, least: float = 0.0) -> float:
  """Returns the largest difference of an entry, as a part of the largest."""
  found, expected = np.asarray(found), np.asarray(expected)
  if found.shape != expected.shape:
    return math.inf
  if np.array_equal(found, expected):
    return 0.0
  if not np.issubdtype(expected.dtype, np.number):
    return math.inf
  with np.errstate(invalid="ignore", over="ignore"):
    gap = np.abs(_wide(found) - _wide(expected))
  # What is not finite is equal to what is neither, in the same places.
  same = ~np.isfinite(_wide(found)) & ~np.isfinite(_wide(expected))
  gap = float(np.max(np.where(same, 0.0, gap)))
  if not np.isfinite(gap):
    return math.inf
  return gap / max(_largest(expected), least, sys.float_info.min)


def _wide(values: np.ndarray) -> np.ndarray:
  is_complex = np.iscomplexobj(values)
  return values.astype(np.complex128 if is_complex else np.float64)


def _largest(values: Any) -> float:
  """Returns the size of the largest entry that is finite."""
  values = np.asarray(values)
  if not np.issubdtype(values.dtype, np.number):
    return 0.0
  sizes = np.abs(_wide(values))
  return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def _norm(gradients: Mapping[str, np.ndarray]) -> float | None:
  if not gradients:
    return None
  squares = [
    np.sum(np.square(np.abs(_wide(np.asarray(g))))) for g in gradients.values()
  ]
  return float(np.sqrt(sum(squares)))
