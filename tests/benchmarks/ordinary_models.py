"""How many ordinary model_fns train sharded as they do plain.

Each model of `tests/estimator_mp/ordinary` is trained for some steps by a
plain Estimator, and from the same seed on each mesh, under hard placement. A
line says what came of it:

- equal: all losses, and all variables of the last checkpoint, within 1e-5,
  relative or absolute;
- close: within 1e-4;
- another: with the largest difference, and what differs;
- random: another, but the model draws numbers in each step;
- refused: a ValueError of estimator_mp's, before a session starts;
- crash: any other error;
- unstable: two plain runs differ, or one fails. That is a fault of the model.

  ./bazelw run //tests/benchmarks:ordinary_models
  ./bazelw run //tests/benchmarks:ordinary_models -- --models='^cox$|dice' \
      --meshes='stage:2*4 data:2' --input=open
"""

import collections
import dataclasses
import math
import os
import re
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping

import estimator_mp
from tests.benchmarks import figures
from tests.estimator_mp import runs
from tests.estimator_mp.ordinary import catalogue, registry

import numpy as np
import tensorflow as tf
from absl import app, flags

_MODELS = flags.DEFINE_string(
  "models", "", "An expression for names of models; all without."
)
_MESHES = flags.DEFINE_string(
  "meshes",
  "stage:2*4 data:2 data:2,stage:2*2 stage:2,model:2*2 model:2",
  "Meshes with blanks between them, each with *MICRO_BATCHES if it has some.",
)
_INPUT = flags.DEFINE_multi_enum(
  "input",
  list(registry.INPUTS),
  registry.INPUTS,
  "static: the graph knows the size of the batch. open: it does not, and one "
  "batch is short.",
)
_STEPS = flags.DEFINE_integer("steps", 5, "Steps of a run.", lower_bound=1)

UNSTABLE = "unstable"
VERDICTS = (
  *("equal", "close", "another", "random", "refused", "crash"),
  UNSTABLE,
)
_EQUAL, _CLOSE = 1e-5, 1e-4
_PLAIN = "plain"
_ROW = "{:<30} {:<18} {:<7} {:<9} {}"
_COUNTS = "{:<18} {:<7}" + 7 * " {:>8}" + " {:>8}"
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
        model_fn, config, None, folder, steps, lambda: model.input_fn(size)
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
    return Outcome("refused", _first_line(error))
  except Exception as error:  # Whatever it is, other models follow.
    return Outcome("crash", f"{type(error).__name__}: {_first_line(error)}")
  return judge(model, run, plain)


def _first_line(error: Exception) -> str:
  return str(error).strip().partition("\n")[0]


def rows(
  name: str,
  size: str,
  steps: int,
  shardings: Mapping[str, estimator_mp.ShardingConfig],
) -> Iterator[tuple[str, Outcome]]:
  """Yields what comes of a model: plain, and then on each mesh.

  Args:
    name: The model's name.
    size: One of its inputs.
    steps: How many steps.
    shardings: How to shard it, by the names of meshes.
  """
  model = catalogue.MODELS[name]
  try:
    plain = train(model, size, steps)
  except Exception as error:  # As above.
    what = f"{type(error).__name__}: {_first_line(error)}"
    yield _PLAIN, Outcome(UNSTABLE, what)
    return
  again = compare(model, size, plain, None)
  if again.verdict != "equal":
    yield _PLAIN, Outcome(UNSTABLE, again.what)
    return
  yield _PLAIN, again
  for text, config in shardings.items():
    yield text, compare(model, size, plain, config)


def main(argv: list[str]) -> int:
  """Compares them; the exit code is 1 if a model is unstable."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  warnings.filterwarnings("ignore", r"`tf\.(layers|nn)\.")
  shardings = {text: sharding_of(text) for text in _MESHES.value.split()}
  counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
  seconds: dict[tuple[str, str], float] = collections.defaultdict(float)
  for name, model in catalogue.MODELS.items():
    if not re.search(_MODELS.value, name):
      continue
    for size in model.inputs:
      if size not in _INPUT.value:
        continue
      started = time.monotonic()
      for text, found in rows(name, size, _STEPS.value, shardings):
        seconds[text, size] += time.monotonic() - started
        started = time.monotonic()
        counts[text, size, found.verdict] += 1
        line = _ROW.format(name, text, size, found.verdict, found.what)
        print(line.rstrip(), flush=True)
  _finish(counts, seconds)
  return int(any(verdict == UNSTABLE for *_, verdict in counts))


def _finish(
  counts: Mapping[tuple[str, str, str], int],
  seconds: Mapping[tuple[str, str], float],
) -> None:
  """Prints how often each mesh had each verdict, and saves the figures."""
  print("\n" + _COUNTS.format("", "", *VERDICTS, "seconds"))
  found = []
  for (text, size), spent in seconds.items():
    numbers = [counts.get((text, size, verdict), 0) for verdict in VERDICTS]
    print(_COUNTS.format(text, size, *numbers, round(spent)))
    if text != _PLAIN:
      what = f"{text}, {size}: equal"
      found.append(
        figures.Figure(what, "models", (numbers[0],), (sum(numbers),))
      )
  figures.save(found)


if __name__ == "__main__":
  app.run(main)
