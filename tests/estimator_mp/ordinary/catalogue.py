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
)

MODULES = (places, inputs, losses, sizes, states, gradients, training)
MODELS = registry.MODELS
