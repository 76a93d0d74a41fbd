"""All models of tests, by name and by tag: each module enters its own.

"network" are those that Estimators train, evaluate and export; "pairs" those
that are tried with all options; "ordinary" those that users might write, and
that are counted in `//benchmarks:ordinary_models`. Other tags are what a
model is made of: "conv", "table", "rnn" (and other loops), "keras", "state" (of
variables that no optimizer trains).
"""

import itertools
from collections.abc import Iterable, Iterator

from tests.estimator_mp.models import (
  gradients,
  inputs,
  losses,
  networks,
  places,
  registry,
  shapes,
  sizes,
  states,
  training,
  unusual,
  whole_variables,
)

MODULES = (
  *(places, inputs, losses, sizes, states, gradients, training),
  *(unusual, networks, shapes, whole_variables),
)
MODELS = registry.MODELS
tagged = registry.tagged
NETWORKS = tagged("network")
# Those that draw nothing: on another mesh a draw is another one.
PURE_NETWORKS = NETWORKS | {
  "cnn": MODELS["cnn_without_randomness"],
  "transformer": MODELS["transformer_without_dropout"],
}


def in_turns(
  configs: Iterable[str], skipped: int = 0
) -> Iterator[tuple[str, str, str, str]]:
  """Yields what tests do with models that draw nothing, a case after another.

  Args:
    configs: Names of configurations, taken in turns.
    skipped: How many of them are left out from one model to the next.

  Yields:
    The name of a case, that of a model, one of its batches, a configuration.
  """
  turns = itertools.cycle(configs)
  for name, model in MODELS.items():
    if model.is_random or not model.tags & {"ordinary", "network"}:
      continue
    for size in model.inputs:
      config = next(turns)
      yield f"{name}_{size}_{config}", name, size, config
    for _ in range(skipped):
      next(turns)
