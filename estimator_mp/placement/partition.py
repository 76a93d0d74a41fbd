"""Partition: cutting a sequence of ops into stages, exactly.

The ops of a model in the order they were made are cut into consecutive stages,
so that the slowest stage is as fast as possible and no stage needs more memory
than a device has; among the cuts that are equally fast, those are taken whose
fullest stage has the least memory, of these the ones that send least between
devices, and of these the most equal ones. All steps are dynamic programming
over all cuts, as in PipeDream's partitioning (Narayanan et al., 2019,
doi:10.1145/3341301.3359646): nothing here is greedy or random.

This file knows numbers only: no graph, no TensorFlow.
"""

import dataclasses
from collections.abc import Sequence

from estimator_mp import amounts

import numpy as np


@dataclasses.dataclass(frozen=True)
class SequenceCosts:
  """The costs of a sequence's elements, and of cuts between them.

  Attributes:
    seconds: [n], the time of each element.
    memory_bytes: [n], the bytes that each element occupies on its device.
    transfer_seconds: [n + 1], the time of sends over the cut before element i;
      the first and the last are 0.
    layers: [n], whether an element holds weights; a stage holds at least one
      that does.
  """

  seconds: Sequence[float]
  memory_bytes: Sequence[float]
  transfer_seconds: Sequence[float]
  layers: Sequence[bool]


def stage_seconds(costs: SequenceCosts, begin: int, end: int) -> float:
  """Returns the time of a stage: its elements, and both of its boundaries.

  Args:
    costs: The sequence.
    begin: The stage's first element.
    end: The element after its last one.
  """
  return (
    sum(costs.seconds[begin:end])
    + costs.transfer_seconds[begin]
    + costs.transfer_seconds[end]
  )


def partition(
  costs: SequenceCosts,
  num_stages: int,
  memory_limit: float | None = None,
  slack: float = 0.0,
) -> tuple[int, ...]:
  """Returns the cuts of a sequence into stages.

  Args:
    costs: The sequence of n elements.
    num_stages: How many stages, each with at least one layer.
    memory_limit: Bytes that a stage may occupy; None for no limit.
    slack: How much slower than the best the slowest stage may be, as a
      fraction, where that saves memory of the fullest stage; and how much
      fuller than the best this may be, where that saves sending.

  Returns:
    `num_stages + 1` indices from 0 to n; stage k goes from index k to index
    k + 1.

  Raises:
    ValueError: If there are fewer layers than stages, or no cut keeps within
      the memory limit; the message says by how much the best one misses.
  """
  check_layers(sum(map(bool, costs.layers)), num_stages)
  memory = _between(costs.memory_bytes)
  transfer = np.asarray(costs.transfer_seconds, dtype=np.float64)
  seconds = _between(costs.seconds) + transfer[:, None] + transfer[None, :]
  has_layer = _between(costs.layers) > 0
  allowed = has_layer
  if memory_limit is not None:
    allowed = has_layer & (memory <= memory_limit)
  cuts = _best_cuts(seconds, memory, transfer, allowed, num_stages, slack)
  if cuts is None and memory_limit is not None:
    needed = _smallest_maximum(memory, has_layer, num_stages)
    check_memory(needed, num_stages, memory_limit)
  if cuts is None:
    raise ValueError(
      f"the model cannot be cut into {num_stages} stages that each hold a "
      "layer with weights; use fewer stages"
    )
  return cuts


def check_memory(needed: float, num_stages: int, memory_limit: float) -> None:
  """Raises if the fullest stage does not fit its device.

  Args:
    needed: Its bytes.
    num_stages: How many stages.
    memory_limit: The bytes of a device.

  Raises:
    ValueError: With the bytes that are missing.
  """
  if needed > memory_limit:
    raise ValueError(
      f"memory_limit={memory_limit:.0f} bytes is too small: cut into "
      f"{num_stages} stages the model needs at least "
      f"{amounts.amount(needed, 'B')} on one device, "
      f"{amounts.amount(needed - memory_limit, 'B')} more; raise the limit or "
      "use more stages"
    )


def check_layers(num_layers: int, num_stages: int) -> None:
  """Raises if a model has fewer layers than stages.

  Args:
    num_layers: How many layers with weights it has.
    num_stages: How many stages the mesh has.

  Raises:
    ValueError: With the most stages that it can have.
  """
  if num_layers < num_stages:
    raise ValueError(
      f"the model has {num_layers} layer(s) with weights, fewer than the "
      f"{num_stages} stages of the mesh; use at most {max(num_layers, 1)}, "
      "counting each virtual stage"
    )


def _between(values: Sequence[float]) -> np.ndarray:
  """Returns [n + 1, n + 1] sums of the values from row up to column.

  Sums that do not go forward are negative infinity, so that none is ever taken
  for a stage with a layer.
  """
  prefix = np.concatenate([[0.0], np.cumsum(np.asarray(values, np.float64))])
  sums = prefix[None, :] - prefix[:, None]
  sums[np.tril_indices(len(prefix))] = -np.inf
  return sums


def _smallest_maximum(
  values: np.ndarray, allowed: np.ndarray, num_stages: int
) -> float:
  """Returns the least possible maximum of a value over all stages."""
  best = np.where(allowed[0], values[0], np.inf)
  masked = np.where(allowed, values, np.inf)
  for _ in range(num_stages - 1):
    best = np.min(np.maximum(best[:, None], masked), axis=0)
  return float(best[-1])


def _best_cuts(
  seconds: np.ndarray,
  memory: np.ndarray,
  transfer: np.ndarray,
  allowed: np.ndarray,
  num_stages: int,
  slack: float,
) -> tuple[int, ...] | None:
  """Returns the cuts that send least among the fast ones of little memory."""
  bottleneck = _smallest_maximum(seconds, allowed, num_stages)
  if not np.isfinite(bottleneck):
    return None
  # Sums in another order differ in the last bits.
  tolerance = 1.0 + slack + 1e-9
  allowed = allowed & (seconds <= bottleneck * tolerance)
  fullest = _smallest_maximum(memory, allowed, num_stages)
  allowed &= memory <= fullest * tolerance
  # Among cuts that send the same, equal stages are better than unequal ones.
  unequal = np.square(seconds / bottleneck) if bottleneck > 0 else 0 * seconds
  step = transfer[:, None] + unequal * max(transfer.max(), 1e-30) * 1e-9
  step = np.where(allowed, step, np.inf)
  total = step[0]
  choices = []
  for _ in range(num_stages - 1):
    candidates = total[:, None] + step
    choices.append(np.argmin(candidates, axis=0))
    total = np.min(candidates, axis=0)
  cuts = [len(total) - 1]
  for choice in reversed(choices):
    cuts.append(int(choice[cuts[-1]]))
  return (0, *reversed(cuts))
