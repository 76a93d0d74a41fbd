"""Outputs: a model_fn's return value has whole tensors only."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

_export = tf.estimator.export

# The fields of an EstimatorSpec, or a TPUEstimatorSpec, that name tensors.
_TENSORS = (
  "predictions",
  "loss",
  "train_op",
  "eval_metric_ops",
  "eval_metrics",
  "export_outputs",
  "host_call",
)


def with_wholes(
  spec: tf.estimator.EstimatorSpec,
  whole: Callable[[tf.Tensor], tf.Tensor],
) -> tf.estimator.EstimatorSpec:
  """Returns a spec with whole tensors in place of those that are split.

  Args:
    spec: The spec that a model_fn returned.
    whole: Returns the whole of a tensor that is split.
  """

  def replaced(value: Any) -> Any:
    if isinstance(value, tf.Tensor):
      return whole(value)
    if isinstance(value, _export.PredictOutput):
      return _export.PredictOutput(tree(value.outputs))
    if isinstance(value, _export.ClassificationOutput):
      return _export.ClassificationOutput(
        scores=tree(value.scores), classes=tree(value.classes)
      )
    if isinstance(value, _export.RegressionOutput):
      return _export.RegressionOutput(value=tree(value.value))
    return value

  def tree(values: Any) -> Any:
    return tf.nest.map_structure(replaced, values)

  named = [name for name in _TENSORS if hasattr(spec, name)]
  return spec._replace(**{name: tree(getattr(spec, name)) for name in named})
