"""The last evaluation of a run that lost a task in the midst of it.

`tf.estimator.train_and_evaluate` evaluates while it trains. Where all steps
have been done before, it does neither, and returns nothing.
"""

import os
from typing import Any

import tensorflow as tf


def evaluate_last(
  estimator: tf.estimator.Estimator, eval_spec: tf.estimator.EvalSpec
) -> tuple[Any, Any]:
  """Evaluates and exports the newest checkpoint, as after the last step.

  Args:
    estimator: The Estimator.
    eval_spec: As for `tf.estimator.train_and_evaluate`.

  Returns:
    The metrics, and what the exporters return.
  """
  path = tf.train.latest_checkpoint(estimator.model_dir)
  metrics = estimator.evaluate(
    eval_spec.input_fn,
    eval_spec.steps,
    eval_spec.hooks,
    path,
    eval_spec.name,
  )
  # Where tf.estimator has its exports.
  folder = os.path.join(estimator.model_dir, "export")
  exports = [
    exporter.export(
      estimator,
      os.path.join(folder, exporter.name),
      path,
      metrics,
      is_the_final_export=True,
    )
    for exporter in eval_spec.exporters
  ]
  return metrics, exports
