"""The table of all rules."""

from estimator_mp.model_axis import decisions
from estimator_mp.model_axis.rules import (
  cross_entropy,
  elementwise,
  pieces,
  shapes,
  softmax,
  variables,
)

TABLE = decisions.joined(
  [
    cross_entropy.TABLE,
    elementwise.TABLE,
    pieces.TABLE,
    shapes.TABLE,
    softmax.TABLE,
    variables.TABLE,
  ]
)
