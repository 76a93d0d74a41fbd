"""Old names of the networks in `models`, for tests that have not changed."""

from tests.estimator_mp.models import catalogue
from tests.estimator_mp.models.data import (
  EXAMPLES,
  FEATURES,
  LABELS,
  input_fn,
)
from tests.estimator_mp.models.networks import (
  NET_RULES,
  OPTIMIZERS,
  TRAIN,
  cnn,
  minimize,
  mlp,
  net,
  spec,
)
from tests.estimator_mp.models.registry import Model

__all__ = [
  "BATCH_NORM_CNN",
  "EXAMPLES",
  "FEATURES",
  "LABELS",
  "MODELS",
  "NET_RULES",
  "OPTIMIZERS",
  "PURE_MODELS",
  "TRAIN",
  "Model",
  "cnn",
  "input_fn",
  "minimize",
  "mlp",
  "net",
  "spec",
]
MODELS = catalogue.tagged("network")
PURE_MODELS = MODELS | {
  "cnn": catalogue.MODELS["cnn_without_randomness"],
  "transformer": catalogue.MODELS["transformer_without_dropout"],
}
BATCH_NORM_CNN = catalogue.MODELS["cnn_with_batch_norm"]
