"""The table of all rules."""

from estimator_mp.rules import (
  control_flow,
  elementwise,
  images,
  indexing,
  products,
  reductions,
  shapes,
  variables,
)
from estimator_mp.rules.table import Table

TABLE = Table().join(
  control_flow.TABLE,
  elementwise.TABLE,
  images.TABLE,
  indexing.TABLE,
  products.TABLE,
  reductions.TABLE,
  shapes.TABLE,
  variables.TABLE,
)
