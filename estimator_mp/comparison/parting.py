"""Parting: the likely reason why a sharded model differs from the plain one."""

import dataclasses
from collections.abc import Callable, Sequence

from estimator_mp.comparison import differences, training_graph
from estimator_mp.config import sharding_config as sharding_config_lib

_MOST_NAMES = 3
# The largest difference of sums in another order, in float32; and the largest
# growth of a difference in a step in which training diverges.
_ROUNDING = 1e-4
_GROWTH = 100.0


@dataclasses.dataclass(frozen=True)
class PartedStep:
  """The step in which two models part.

  Attributes:
    plain: The results of the plain model's step.
    compared: The differences of the other model's step.
    before: Those of the step before; None if there is none from which it goes
      on, as where each step starts from the plain model's variables.
    tolerance: The largest number that counts as no difference.
    config: How the one model is sharded.
    noise: Variables whose gradients are zero up to rounding, with their slots.
    draws: The names of random ops that drew other numbers in the first step.
  """

  plain: training_graph.Step
  compared: differences.ComparedStep
  before: differences.ComparedStep | None
  tolerance: float
  config: sharding_config_lib.ShardingConfig
  noise: Sequence[str]
  draws: Sequence[str]

  @property
  def count(self) -> int:
    """The number of slices of a batch."""
    return (
      self.config.num_micro_batches
      * self.config.gradient_accumulation_steps
      * self.config.create_mesh().axis_size("data")
    )


def reason(step: PartedStep) -> str:
  """Returns the likely reason why a step differs.

  Args:
    step: The step.
  """
  reasons = filter(None, (rule(step) for rule in _RULES))
  return next(reasons, "no reason is known; please report it with the model_fn")


def _later(step: PartedStep) -> str:
  """A step after one that is equal: both may be right."""
  if step.before is None:
    return ""
  return (
    "all steps before are equal, so training may have amplified the difference "
    f"of {step.before.largest():.1e} that they ended with; restart_each_step "
    "tells whether each step is equal by itself"
  )


def _rounding(step: PartedStep) -> str:
  """Returns a reason if differences are those of rounding."""
  compared, variables = step.compared, step.compared.variables
  sizes = [compared.loss_difference, *compared.gradients.values()]
  wrong = [x for x, size in variables.items() if not size <= step.tolerance]
  trained = tuple(f"{name}/" for name in step.plain.gradients)
  # All is equal but variables that have no gradient.
  only_state_differs = (
    all(x <= step.tolerance for x in sizes)
    and bool(wrong)
    and not any(f"{name}/".startswith(trained) for name in wrong)
  )
  if only_state_differs and step.noise and step.before is not None:
    return (
      f"the gradients of {_names(step.noise)} are zero up to rounding, of "
      "which the optimizer makes steps of full size, and what only their "
      "values change, such as moving averages, differs as well; compare with "
      "restart_each_step"
    )
  rounding = _ROUNDING
  if step.before is not None:
    rounding = max(rounding, _GROWTH * max(step.before.variables.values()))
  if max(sizes) > rounding or only_state_differs:
    return ""
  if max(variables.values()) > rounding:
    return (
      "the loss and the gradients differ by rounding only, but the optimizer "
      "makes large steps of gradients that are nearly zero, as Adam does; "
      "compare with a larger epsilon or another optimizer"
    )
  return (
    "sums in another order round differently, and training amplifies the "
    "difference; compare with restart_each_step, from a trained checkpoint, or "
    "with a larger tolerance"
  )


def _compression(step: PartedStep) -> str:
  if step.config.compression == "none":
    return ""
  return (
    f"compression={step.config.compression!r} does not send all of a "
    'gradient; use compression="none"'
  )


def _batch_norm(step: PartedStep) -> str:
  """Batch normalization: slices' own moments, if asked for."""
  if step.config.batch_norm == "whole" or step.count == 1:
    return ""
  return (
    f"batch_norm={step.config.batch_norm!r} normalizes each of {step.count} "
    'slices by its own moments; use batch_norm="whole"'
  )


def _transfers(step: PartedStep) -> str:
  """Stages that send half precision."""
  dtype = step.config.transfer_dtype
  if dtype == "float32":
    return ""
  return (
    f"transfer_dtype={dtype!r} rounds what stages send each other; use "
    'transfer_dtype="float32"'
  )


def _random(step: PartedStep) -> str:
  """Random ops that drew other numbers in the first step."""
  if not step.draws:
    return ""
  return (
    f"random ops ({_names(step.draws)}) drew other numbers in the first step, "
    "as those without a seed do; give them one, or compare without them"
  )


# The first one that returns a reason counts.
_RULES: Sequence[Callable[[PartedStep], str]] = (
  _rounding,
  _compression,
  _batch_norm,
  _transfers,
  _random,
  _later,
)


def _names(names: Sequence[str]) -> str:
  more = len(names) - _MOST_NAMES
  text = ", ".join(sorted(names)[:_MOST_NAMES])
  return f"{text} and {more} more" if more > 0 else text
