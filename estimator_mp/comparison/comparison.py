"""Comparison: results of the plain and the sharded model, and whether equal."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from estimator_mp import amounts
from estimator_mp.comparison import (
  differences,
  draws,
  parting,
  training_graph,
)
from estimator_mp.comparison.differences import ComparedStep
from estimator_mp.config import sharding_config as sharding_config_lib

import numpy as np

# A gradient that is smaller than this part of the largest one is rounding.
_ROUNDING = 1e-6
_MOST_ROWS = 15


@dataclasses.dataclass(frozen=True)
class Comparison:
  """The result of `compare`.

  Attributes:
    sharding: The mesh of the sharded model, and its micro-batches.
    start: The start of both models: a checkpoint, or "initial values".
    steps: One entry for each step, at least one.
    tolerance: The largest difference that counts as equal.
    only_rounding: Trainable variables whose gradient is zero up to rounding of
      the terms that it sums, with their slots. An optimizer may make steps of
      any size of that, so they are not among the variables of the steps.
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
        "not compared, as their gradients are zero up to rounding: "
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
      f"not equal: from step {parted.number} on they differ, by"
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
      _scientific(step.loss_difference),
      _value(step.plain_gradient_norm),
      _value(step.sharded_gradient_norm),
      _scientific(step.gradient_difference),
      _scientific(largest),
      name if largest else "",
    )


def _variable_rows(variables: Mapping[str, float]) -> Iterator[Sequence[str]]:
  yield "variable", "differs by"
  rows = [(name, _scientific(x)) for name, x in variables.items()]
  yield from rows[:_MOST_ROWS]
  if len(rows) > _MOST_ROWS:
    yield f"{len(rows) - _MOST_ROWS} others", f"at most {rows[_MOST_ROWS][1]}"


def _value(value: float | None) -> str:
  return "none" if value is None else f"{value:.7g}"


def _scientific(difference: float) -> str:
  return f"{difference:.1e}" if difference else "0"


def judge(
  pairs: Sequence[tuple[training_graph.Step, training_graph.Step]],
  plain_graph: training_graph.TrainingGraph,
  config: sharding_config_lib.ShardingConfig,
  tolerance: float,
  checkpoint: str | None,
  restart_each_step: bool,
) -> Comparison:
  """Returns the comparison of steps, plain and sharded.

  Args:
    pairs: Each step, plain and sharded; at least one.
    plain_graph: The plain model's graph.
    config: How the other one was sharded.
    tolerance: As for `compare`.
    checkpoint: As for `compare`.
    restart_each_step: As for `compare`.
  """
  kinds = _kinds(plain_graph)
  noise = _only_rounding(pairs, kinds)
  steps = [
    _compared(number, plain, sharded, kinds, noise)
    for number, (plain, sharded) in enumerate(pairs, start=1)
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
  step = parting.PartedStep(
    pairs[parted.number - 1][0],
    parted,
    None
    if restart_each_step or parted.number == 1
    else steps[parted.number - 2],
    tolerance,
    config,
    noise,
    draws.other_draws(plain_graph.ops, *(step.draws for step in pairs[0])),
  )
  return dataclasses.replace(comparison, reason=parting.reason(step))


def _kinds(graph: training_graph.TrainingGraph) -> dict[str, str]:
  """Returns the kind of each variable; variables of a kind share a scale.

  It is "trainable", "slot NAME", or the variable's name.
  """
  trained = graph.graph.get_collection("trainable_variables")
  trainable = {variable.op.name for variable in trained}
  kinds = {}
  for name in graph.variables:
    variable, slash, slot = name.rpartition("/")
    kinds[name] = f"slot {slot}" if slash and variable in trainable else name
    if name in trainable:
      kinds[name] = "trainable"
  return kinds


def _only_rounding(
  pairs: Sequence[tuple[training_graph.Step, training_graph.Step]],
  kinds: Mapping[str, str],
) -> tuple[str, ...]:
  """Returns variables whose gradients are zero but for rounding, and slots."""
  largest = {
    name: max(
      differences.largest(step.gradients.get(name, np.inf))
      for pair in pairs
      for step in pair
    )
    for name in pairs[0][0].gradients
  }
  least = _ROUNDING * max(largest.values(), default=0.0)
  limits = {
    name: max(least, *(plain.rounding.get(name, 0.0) for plain, _ in pairs))
    for name in largest
  }
  only_rounding = {x for x, size in largest.items() if 0 < size <= limits[x]}
  return tuple(
    name
    for name, kind in kinds.items()
    if kind == "trainable" or kind.startswith("slot ")
    if _variable_of(name, kind) in only_rounding
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
    name: "gradient"
    for name in {**plain.gradients, **sharded.gradients}
    if name not in noise
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
    differences.norm(plain.gradients),
    differences.norm(sharded.gradients),
    differences.differences(sharded.gradients, plain.gradients, gradients),
    differences.differences(sharded.variables, plain.variables, variables),
  )
