"""keras: a compiled tf_keras model as a model_fn.

`tf.keras.estimator.model_to_estimator` does the like for functional and
Sequential models with an optimizer of TensorFlow 1 or a legacy one. Here the
loss and the updates are those of `Model.fit`, for other optimizers, too, and
`config` says how the layers are spread over devices.
"""

from collections.abc import Mapping
from typing import Any

from compat.private import keras as keras_lib
from model_fns import sharded
from model_fns.keras_models import (
  built,
  classes,
  features,
  initial_values,
  losses,
  metrics,
  optimizers,
)

import tensorflow as tf

_TRAIN = tf.estimator.ModeKeys.TRAIN
_PREDICT = tf.estimator.ModeKeys.PREDICT


def keras(
  model: Any,
  config: sharded.Config = None,
  *,
  class_weight: Mapping[int, float] | None = None,
  sample_weight: Any = None,
) -> sharded.ModelFn:
  """Returns a model_fn that trains a Keras model as `Model.fit` does.

  From the same weights, on the same batches, the losses and weights are those
  of `fit`, except for rounding and for random ops, such as dropout, which draw
  other numbers.

  The loss, loss weights, metrics, weighted metrics and optimizer are those that
  `compile` was given. Losses of regularizers, layers and `add_loss` are added.
  Metrics are those of evaluation. Predictions have the names of the outputs.

  The features are what `fit` takes as x: a tensor, a list, or a dict by the
  names of the inputs; the labels what it takes as y.

  Args:
    model: A compiled model, made eagerly: functional, Sequential, or of a class
      with a `get_config`. The weights that it has now are where training
      starts; its optimizer starts without state. Or a function without
      arguments that returns a compiled model, of any class, and is called in
      each graph; let it give `compile` an optimizer, as by a name Keras takes a
      legacy one there.
    config: A mesh, its text such as "stage:2", or a `ShardingConfig`. None for
      the model on one device.
    class_weight: The weight of each class, from 0, in training: as in `fit`.
    sample_weight: The name of the feature that has the weight of each example;
      for several outputs also a list or a dict of names. A dict of features
      with the entries "features" and "sample_weights" needs no name.

  Returns:
    A model_fn with the arguments features, labels, mode and config.

  Raises:
    TypeError: If model is neither a model nor a function.
    ValueError: If the model is not compiled, trains in its own way
      (`train_step`), or cannot be made again in a graph; or if `class_weight`
      leaves out a class.
  """
  weights = _class_weights(class_weight)
  source = built.source_of(model)

  def model_fn(
    features: Any, labels: Any, mode: str
  ) -> tf.estimator.EstimatorSpec:
    with classes.kept(), initial_values.independent():
      return _spec(source, features, labels, mode, weights, sample_weight)

  return sharded.model_fn(model_fn, config)


def _spec(
  source: built.Source,
  given: Any,
  labels: Any,
  mode: str,
  class_weights: list[float] | None,
  sample_weight: Any,
) -> tf.estimator.EstimatorSpec:
  """Returns what a model_fn returns."""
  inputs, weights = features.split_sample_weights(given, sample_weight)
  with keras_lib.equality_of_values(tf):
    model = source.build(inputs, mode == _TRAIN)
  outputs = model.outputs
  predictions = dict(zip(outputs.names, outputs.flat, strict=True))
  if mode == _PREDICT:
    return tf.estimator.EstimatorSpec(
      mode,
      predictions,
      export_outputs={
        "serving_default": tf.estimator.export.PredictOutput(predictions)
      },
    )
  compiled = model.compiled
  if mode == _TRAIN and class_weights is not None:
    weights = losses.with_class_weight(outputs, labels, weights, class_weights)
  with keras_lib.equality_of_values(tf):
    loss, by_output = losses.total_loss(
      outputs,
      labels,
      weights,
      compiled.loss,
      compiled.loss_weights,
      model.losses,
    )
  if mode == _TRAIN:
    train_op = optimizers.make_train_op(
      loss, model.trainable, compiled.make_optimizer(), model.updates
    )
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)
  with keras_lib.equality_of_values(tf):
    found = metrics.eval_metrics(
      outputs, labels, weights, compiled.metrics, compiled.weighted_metrics
    )
  for name, value in by_output.items():
    if len(outputs.names) > 1:
      found[f"{name}_loss"] = _mean(value, outputs)
  return tf.estimator.EstimatorSpec(
    mode, predictions, loss, eval_metric_ops=found
  )


def _mean(value: tf.Tensor, outputs: Any) -> tf.keras.metrics.Metric:
  """Returns the mean of a batch's number over all examples."""
  mean = tf.keras.metrics.Mean()
  mean.update_state(value, sample_weight=tf.shape(outputs.flat[0])[0])
  return mean


def _class_weights(given: Mapping[int, float] | None) -> list[float] | None:
  """Returns the weights of classes as a list."""
  if given is None:
    return None
  if sorted(given) != list(range(len(given))):
    raise ValueError(
      f"class_weight is {dict(given)!r}; it needs a weight for each class from "
      "0 to the last one"
    )
  return [float(given[number]) for number in range(len(given))]
