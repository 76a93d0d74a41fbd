"""Names of tf.contrib.losses.metric_learning: tf-slim's."""

from compat.contrib import packages

_NAMES = (
  "cluster_loss",
  "contrastive_loss",
  "lifted_struct_loss",
  "npairs_loss",
  "npairs_loss_multilabel",
  "triplet_semihard_loss",
)

__getattr__ = packages.getter(
  __name__,
  {name: f"tf_slim.losses.metric_learning:{name}" for name in _NAMES},
)


def __dir__() -> list[str]:
  return list(_NAMES)
