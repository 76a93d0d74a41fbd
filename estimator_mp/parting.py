"""Parting: why a sharded model is not the plain one, as far as one can tell."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from estimator_mp import config as config_lib
from estimator_mp import training_graph

import numpy as np
import tensorflow as tf

_RANDOM = frozenset(
  [
    "Multinomial",
    "ParameterizedTruncatedNormal",
    "RandomGammaV2",
    "RandomGamma",
    "RandomPoissonV2",
    "RandomShuffle",
    "RandomStandardNormal",
    "RandomUniform",
    "RandomUniformInt",
    "StatefulStandardNormalV2",
    "StatefulUniform",
    "StatefulUniformFullInt",
    "StatefulUniformInt",
    "StatelessMultinomial",
    "StatelessRandomNormal",
    "StatelessRandomNormalV2",
    "StatelessRandomUniform",
    "StatelessRandomUniformV2",
    "StatelessTruncatedNormal",
    "StatelessTruncatedNormalV2",
    "TruncatedNormal",
  ]
)
_FUSED_NORMS = frozenset(
  ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"]
)
_MOST_NAMES = 3
# Sums in another order differ by so little, in float32.
_ROUNDING = 1e-4
# How near to a whole number of slices a ratio is, if that is no accident.
_NEAR = 1e-3


@dataclasses.dataclass(frozen=True)
class Facts:
  """The step in which two models part.

  Attributes:
    plain: What it gave, plain.
    sharded: What it gave, sharded.
    gradients: The differences of gradients, by variables' names.
    variables: The differences of variables.
    loss_difference: That of the losses.
    tolerance: What is no difference.
  """

  plain: training_graph.Step
  sharded: training_graph.Step
  gradients: Mapping[str, float]
  variables: Mapping[str, float]
  loss_difference: float
  tolerance: float

  def wrong_variables(self) -> list[str]:
    """Returns the variables that differ, the most different first."""
    wrong = [x for x in self.variables.items() if not x[1] <= self.tolerance]
    return [name for name, _ in sorted(wrong, key=lambda x: -x[1])]

  def only_state_differs(self) -> bool:
    """Whether all is equal but variables that have no gradient."""
    wrong = self.wrong_variables()
    trained = tuple(f"{name}/" for name in self.plain.gradients)
    return (
      self.loss_difference <= self.tolerance
      and all(x <= self.tolerance for x in self.gradients.values())
      and bool(wrong)
      and not any(f"{name}/".startswith(trained) for name in wrong)
    )


def reason(
  facts: Facts,
  graph: training_graph.TrainingGraph,
  config: config_lib.ShardingConfig,
) -> str:
  """Returns the likely reason why a step differs.

  Args:
    facts: The step.
    graph: The plain model's graph.
    config: How the other one is sharded.
  """
  mesh = config.create_mesh()
  count = (
    config.num_micro_batches
    * config.gradient_accumulation_steps
    * mesh.axis_size("data")
  )
  ops = _ops_of_step(graph.spec.train_op, graph.spec.loss)
  found = _by_size(facts) or next(
    filter(None, (rule(facts, ops, config, count) for rule in _RULES)), ""
  )
  return found or (
    "no reason is known, as nothing is cut into slices; please report it with "
    "the model_fn"
  )


def _by_size(facts: Facts) -> str:
  """Returns a reason if differences are those of rounding."""
  sizes = [facts.loss_difference, *facts.gradients.values()]
  if max(sizes) > _ROUNDING or facts.only_state_differs():
    return ""
  worst = (
    facts.variables[facts.wrong_variables()[0]]
    if (facts.wrong_variables())
    else 0.0
  )
  if worst > _ROUNDING:
    return (
      "the loss and the gradients differ by rounding only, but the optimizer "
      "makes large steps of gradients that are nearly zero, as Adam does; "
      "compare with a larger epsilon or another optimizer"
    )
  return (
    "sums in another order round differently, and training lets that grow; "
    "compare with restart_each_step, from a trained checkpoint, or with a "
    "larger tolerance"
  )


def _compression(
  facts: Facts,
  ops: Collection[tf.Operation],
  config: config_lib.ShardingConfig,
  count: int,
) -> str:
  if config.compression == "none":
    return ""
  return (
    f"compression={config.compression!r} does not send all of a gradient; "
    'use compression="none"'
  )


def _batch_norm(
  facts: Facts,
  ops: Collection[tf.Operation],
  config: config_lib.ShardingConfig,
  count: int,
) -> str:
  """Batch normalisation: own statistics of slices, averages of their means."""
  norms = [
    op.name
    for op in ops
    if (op.type in _FUSED_NORMS and op.get_attr("is_training"))
    or "AssignMovingAvg" in op.name
  ]
  if count == 1 or not norms:
    return ""
  return (
    f"batch normalisation ({_names(norms)}) normalises each of {count} slices "
    "by its own statistics; with no micro-batches and one replica it does as "
    "the plain model"
  )


def _random(
  facts: Facts,
  ops: Collection[tf.Operation],
  config: config_lib.ShardingConfig,
  count: int,
) -> str:
  """Random ops: each slice draws its own numbers."""
  names = [op.name for op in ops if op.type in _RANDOM]
  if not names:
    return ""
  if count == 1:
    return (
      f"random ops ({_names(names)}) draw other numbers, as they have no seed "
      "of their own; give them one"
    )
  return (
    f"random ops ({_names(names)}) draw new numbers for each of {count} slices;"
    " compare without them, such as with a dropout rate of 0"
  )


def _state(
  facts: Facts,
  ops: Collection[tf.Operation],
  config: config_lib.ShardingConfig,
  count: int,
) -> str:
  if not facts.only_state_differs():
    return ""
  names = facts.wrong_variables()
  return (
    f"variables that are written from the batch, off the way to the loss "
    f"({_names(names)}), do not see all of it as the plain model's do"
  )


def _sum(
  facts: Facts,
  ops: Collection[tf.Operation],
  config: config_lib.ShardingConfig,
  count: int,
) -> str:
  """A sum over examples taken for a mean, or a mean for a sum."""
  if count == 1 or not facts.plain.gradients:
    return ""
  ratios = [
    _ratio(facts.sharded.gradients.get(name), gradient)
    for name, gradient in facts.plain.gradients.items()
    if np.any(gradient)
  ]
  given = config.loss_reduction
  ratio, right = (1 / count, "sum") if given == "mean" else (count, "mean")
  if ratios and all(abs(x / ratio - 1) < _NEAR for x in ratios):
    return (
      f"all gradients are {ratio:g} of the plain ones: the loss is a {right} "
      f'over examples; use loss_reduction="{right}", not "{given}"'
    )
  return ""


def _ratio(found: np.ndarray | None, expected: np.ndarray) -> float:
  """Returns how many times as large as another a gradient is."""
  if found is None or np.shape(found) != np.shape(expected):
    return np.inf
  return float(np.vdot(expected, found) / np.vdot(expected, expected))


def _nonlinear(
  facts: Facts,
  ops: Collection[tf.Operation],
  config: config_lib.ShardingConfig,
  count: int,
) -> str:
  if count == 1:
    return ""
  return (
    f"the loss of a batch is perhaps no mean of those of its {count} slices, "
    "but a sum, a mean over something else than examples, or a function of "
    "such means; see docs/differences.md"
  )


_Rule = Callable[
  [Facts, Collection[tf.Operation], config_lib.ShardingConfig, int], str
]
# The first one that has something to say is right.
_RULES: Sequence[_Rule] = (
  _compression,
  _sum,
  _random,
  _state,
  _batch_norm,
  _nonlinear,
)


def _ops_of_step(*fetches: tf.Tensor | tf.Operation) -> list[tf.Operation]:
  """Returns the ops that a training step runs."""
  waiting = [getattr(x, "op", x) for x in fetches]
  seen = dict.fromkeys(waiting)
  while waiting:
    op = waiting.pop()
    for before in (*op.control_inputs, *(x.op for x in op.inputs)):
      if before not in seen:
        seen[before] = None
        waiting.append(before)
  return list(seen)


def _names(names: Sequence[str]) -> str:
  more = len(names) - _MOST_NAMES
  text = ", ".join(sorted(names)[:_MOST_NAMES])
  return f"{text} and {more} more" if more > 0 else text
