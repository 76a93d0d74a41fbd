"""The table of all rules."""

from estimator_mp.model_axis import decisions
from estimator_mp.model_axis.rules import (
  elementwise,
  pieces,
  shapes,
)

TABLE = decisions.joined(
  [
    elementwise.TABLE,
    pieces.TABLE,
    shapes.TABLE,
  ]
)
