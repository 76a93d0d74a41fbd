"""tf.contrib.predictor: predicts with a SavedModel or an Estimator."""

from typing import Any

from compat.contrib import absent
from compat.contrib.predictor.predictors import (
  Predictor,
  from_contrib_estimator,
  from_estimator,
  from_saved_model,
)

__path__: list[str] = __path__
__getattr__: Any = absent.getter(__name__)

__all__ = [
  "Predictor",
  "from_contrib_estimator",
  "from_estimator",
  "from_saved_model",
]
