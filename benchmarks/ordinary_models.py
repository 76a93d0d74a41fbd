"""How many ordinary model_fns train sharded as they do plain.

Each model of `tests/estimator_mp/models` is trained for some steps by a
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

  ./bazelw run //benchmarks:ordinary_models
  ./bazelw run //benchmarks:ordinary_models -- --models='^cox$|dice' \
      --meshes='stage:2*4 data:2' --input=open
"""

import collections
import re
import time
import warnings
from collections.abc import Iterator, Mapping

import estimator_mp
from benchmarks import figures
from tests.estimator_mp.models import catalogue, comparison, registry

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

UNSTABLE = comparison.UNSTABLE
VERDICTS = comparison.VERDICTS
_PLAIN = "plain"
_ROW = "{:<30} {:<18} {:<7} {:<9} {}"
_COUNTS = "{:<18} {:<7}" + 7 * " {:>8}" + " {:>8}"


def rows(
  name: str,
  size: str,
  steps: int,
  shardings: Mapping[str, estimator_mp.ShardingConfig],
) -> Iterator[tuple[str, comparison.Outcome]]:
  """Yields what comes of a model: plain, and then on each mesh.

  Args:
    name: The model's name.
    size: One of its inputs.
    steps: How many steps.
    shardings: How to shard it, by the names of meshes.
  """
  model = catalogue.MODELS[name]
  try:
    plain = comparison.train(model, size, steps)
  except Exception as error:  # As above.
    what = f"{type(error).__name__}: {comparison.first_line(error)}"
    yield _PLAIN, comparison.Outcome(UNSTABLE, what)
    return
  again = comparison.compare(model, size, plain, None)
  if again.verdict != "equal":
    yield _PLAIN, comparison.Outcome(UNSTABLE, again.what)
    return
  yield _PLAIN, again
  for text, config in shardings.items():
    yield text, comparison.compare(model, size, plain, config)


def main(argv: list[str]) -> int:
  """Compares them; the exit code is 1 if a model is unstable."""
  del argv
  tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
  warnings.filterwarnings("ignore", r"`tf\.(layers|nn)\.")
  shardings = {
    text: comparison.sharding_of(text) for text in _MESHES.value.split()
  }
  counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
  seconds: dict[tuple[str, str], float] = collections.defaultdict(float)
  for name, model in catalogue.tagged("ordinary").items():
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
