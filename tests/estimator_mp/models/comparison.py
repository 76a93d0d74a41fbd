"""Comparison of an ordinary model's sharded run with its plain one."""

import dataclasses
import math
import os
import tempfile
import traceback
from collections.abc import Mapping

import estimator_mp
from tests.estimator_mp import runs
from tests.estimator_mp.models import registry

import numpy as np
import tensorflow as tf

UNSTABLE = "unstable"
VERDICTS = (
  *("equal", "close", "another", "random", "refused", "crash"),
  UNSTABLE,
)
_EQUAL, _CLOSE = 1e-5, 1e-4
_OF_ESTIMATOR_MP = os.path.dirname(estimator_mp.__file__) + os.sep


@dataclasses.dataclass(frozen=True)
class Trained:
  """What training gave.

  Attributes:
    losses: The loss of each step.
    variables: Every variable of the last checkpoint.
  """

  losses: list[float]
  variables: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What came of a sharded run beside the plain one.

  Attributes:
    verdict: One of `VERDICTS`.
    what: The largest difference, or the error; empty if it is equal.
  """

  verdict: str
  what: str = ""


class RefusedError(Exception):
  """estimator_mp raised a ValueError before a session started."""


def sharding_of(text: str) -> estimator_mp.ShardingConfig:
  """Returns what a mesh of --meshes means.

  Args:
    text: A mesh, and its number of micro-batches: "data:2,stage:2*2".
  """
  mesh, _, micro_batches = text.partition("*")
  return estimator_mp.ShardingConfig(
    mesh, num_micro_batches=int(micro_batches or 1)
  )


def train(
  model: registry.Model,
  size: str,
  steps: int,
  config: estimator_mp.ShardingConfig | None = None,
) -> Trained:
  """Trains a model.

  Args:
    model: The model.
    size: One of its inputs.
    steps: How many steps.
    config: How to shard it; None for the plain run.

  Raises:
    RefusedError: If estimator_mp does not shard it, and says so in time.
  """
  model_fn = model.model_fn
  if config is not None:
    model_fn = estimator_mp.shard_model_fn(model_fn, config)
  with tempfile.TemporaryDirectory() as folder:
    try:
      losses = runs.train(
        model_fn,
        config,
        model.params,
        folder,
        steps,
        lambda: model.input_fn(size),
      )
    except ValueError as error:
      # A session that starts writes a checkpoint.
      is_early = tf.train.latest_checkpoint(folder) is None
      if is_early and _raised_by(error).startswith(_OF_ESTIMATOR_MP):
        raise RefusedError(str(error)) from error
      raise
    return Trained(losses, runs.variables_of(folder))


def _raised_by(error: BaseException) -> str:
  """Returns the file that raised an error."""
  return traceback.extract_tb(error.__traceback__)[-1].filename


def differences(run: Trained, plain: Trained) -> dict[str, float]:
  """Returns how far a run is from the plain one.

  Args:
    run: A run.
    plain: The plain run.

  Returns:
    For the losses and each variable the largest difference of an entry, as a
    part of the plain one where that is above 1; infinite where there is none.
  """
  found = {"losses": _largest(run.losses, plain.losses)}
  for name in sorted({*run.variables, *plain.variables}):
    pair = run.variables.get(name), plain.variables.get(name)
    found[name] = math.inf if pair[0] is None else _largest(*pair)
  return found


def _largest(values, expected) -> float:
  """Returns the largest difference of two arrays."""
  values, expected = np.asarray(values), np.asarray(expected)
  if expected.shape != values.shape or expected.dtype != values.dtype:
    return math.inf
  if not np.issubdtype(expected.dtype, np.number):
    return 0.0 if np.array_equal(values, expected) else math.inf
  values, expected = values.astype(np.float64), expected.astype(np.float64)
  off = np.abs(values - expected) / np.maximum(1.0, np.abs(expected))
  return float(np.max(np.nan_to_num(off, nan=math.inf), initial=0.0))


def judge(model: registry.Model, run: Trained, plain: Trained) -> Outcome:
  """Says whether a model's run is the plain one."""
  found = differences(run, plain)
  name = max(found, key=found.__getitem__)
  if found[name] <= _EQUAL:
    return Outcome("equal")
  what = f"{found[name]:.1e} of {name}"
  if found[name] <= _CLOSE:
    return Outcome("close", what)
  return Outcome("random" if model.is_random else "another", what)


def compare(
  model: registry.Model,
  size: str,
  plain: Trained,
  config: estimator_mp.ShardingConfig | None,
) -> Outcome:
  """Trains a model as many steps as its plain run has, and judges it.

  Args:
    model: The model.
    size: One of its inputs.
    plain: The plain run.
    config: How to shard it; None for another plain run.
  """
  try:
    run = train(model, size, len(plain.losses), config)
  except RefusedError as error:
    return Outcome("refused", first_line(error))
  except Exception as error:  # Whatever it is, other models follow.
    return Outcome("crash", f"{type(error).__name__}: {first_line(error)}")
  return judge(model, run, plain)


def first_line(error: Exception) -> str:
  """Returns the first line of an error's text."""
  return str(error).strip().partition("\n")[0]
