"""tf.estimator.BestExporter as it decided in 1.15.

Tested with the tensorflow-estimator 2.15.0 wheel, on TensorFlow 2.15.1 and
2.21.0. There an exporter keeps in `_has_exported` whether it has exported; as
long as it has not, it exports whatever it is given. After a restart, that is a
model that may be worse than what is exported already. 1.15 went by compare_fn
alone, so that the first of all evaluations, which is compared with itself, is
not exported.
"""

from typing import Any

import tensorflow as tf

_BestExporter: Any = tf.compat.v1.estimator.BestExporter


class BestExporter(_BestExporter):
  """Exports the models that compare_fn calls better than those before."""

  def __init__(self, *args: Any, **kwargs: Any):
    """Makes the exporter.

    Args:
      *args: as of tf.compat.v1.estimator.BestExporter.
      **kwargs: as well.
    """
    super().__init__(*args, **kwargs)
    self._has_exported = True
