"""The table of all rules."""

from estimator_mp.model_axis import decisions, sources
from estimator_mp.model_axis.rules import (
  branches,
  channels,
  convolutions,
  cross_entropy,
  elementwise,
  pieces,
  products,
  reductions,
  selections,
  shapes,
  softmax,
  variables,
)

TABLE = decisions.joined(
  [
    branches.TABLE,
    channels.TABLE,
    convolutions.TABLE,
    cross_entropy.TABLE,
    elementwise.TABLE,
    pieces.TABLE,
    products.TABLE,
    reductions.TABLE,
    selections.TABLE,
    shapes.TABLE,
    softmax.TABLE,
    sources.TABLE,
    variables.TABLE,
  ]
)
