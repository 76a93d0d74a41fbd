"""All ordinary models, by name: each module enters its own."""

from tests.estimator_mp.ordinary import (
  gradients,
  inputs,
  losses,
  places,
  registry,
  sizes,
  states,
  training,
  unusual,
)

MODULES = (
  *(places, inputs, losses, sizes, states, gradients, training),
  unusual,
)
MODELS = registry.MODELS
