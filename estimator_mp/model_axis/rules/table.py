"""The table of all rules."""

from estimator_mp.model_axis import decisions
from estimator_mp.model_axis.rules import elementwise

TABLE = decisions.joined([elementwise.TABLE])
