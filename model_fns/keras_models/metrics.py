"""The metrics that `compile` asked for, as an Estimator evaluates them."""

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from model_fns.keras_models import losses, masks
from model_fns.keras_models import outputs as outputs_lib

import tensorflow as tf

_BY_SHAPE = {
  "accuracy": (
    tf.keras.metrics.binary_accuracy,
    tf.keras.metrics.sparse_categorical_accuracy,
    tf.keras.metrics.categorical_accuracy,
  ),
  "crossentropy": (
    tf.keras.metrics.binary_crossentropy,
    tf.keras.metrics.sparse_categorical_crossentropy,
    tf.keras.metrics.categorical_crossentropy,
  ),
}
_SHORT = {"acc": "accuracy", "ce": "crossentropy"}


def check_metrics(*given: Any) -> None:
  """Raises if a metric cannot be made again in a graph.

  Args:
    *given: The metrics and weighted_metrics that `compile` was given.

  Raises:
    ValueError: If a metric's class takes arguments of which `get_config` tells
      nothing.
  """
  for metric in tf.nest.flatten(given):
    if isinstance(metric, tf.keras.metrics.Metric):
      _check_config(metric)


def eval_metrics(
  outputs: outputs_lib.Outputs,
  labels: Any,
  sample_weights: Any,
  metrics: Any,
  weighted_metrics: Any,
) -> dict[str, tf.keras.metrics.Metric]:
  """Returns the metrics of a batch, with the names that Keras gives them.

  Args:
    outputs: The outputs of the model.
    labels: The targets of each output.
    sample_weights: The weights of its examples; None for 1.
    metrics: The metrics that are not weighted: names, functions, objects; for
      all outputs, or for each.
    weighted_metrics: The metrics that are weighted, in the same form.

  Returns:
    Metrics that were updated with the batch.

  Raises:
    ValueError: If two have the same name.
  """
  rows = zip(
    outputs.names,
    outputs.flat,
    outputs.of_each(labels, "labels"),
    outputs.of_each(sample_weights, "sample_weight"),
    _of_each(outputs, metrics, "metrics"),
    _of_each(outputs, weighted_metrics, "weighted_metrics"),
    strict=True,
  )
  found: dict[str, tf.keras.metrics.Metric] = {}
  for name, output, target, weight, plain, weighted in rows:
    prefix = f"{name}_" if len(outputs.names) > 1 else ""
    if target is None or not (plain or weighted):
      continue
    target, weight = losses.conform(target, output, weight)
    mask = masks.mask_of(output)
    for given in plain:
      metric = _make_metric(given, target, output)
      _add(found, prefix + metric.name, metric)
      metric.update_state(target, output, sample_weight=mask)
    for given in weighted:
      metric = _make_metric(given, target, output)
      called = prefix + metric.name
      if called in found:
        called = f"{prefix}weighted_{metric.name}"
      _add(found, called, metric)
      metric.update_state(
        target, output, sample_weight=_masked(weight, mask, output)
      )
  return found


def _add(
  found: dict[str, tf.keras.metrics.Metric],
  name: str,
  metric: tf.keras.metrics.Metric,
) -> None:
  if name in found:
    raise ValueError(f"two metrics have the name {name!r}; name one of them")
  found[name] = metric


def _of_each(
  outputs: outputs_lib.Outputs, given: Any, what: str
) -> Iterator[list[Any]]:
  """Yields a list of metrics for each output; a flat list is for all."""
  is_flat = isinstance(given, list | tuple) and not any(
    isinstance(entry, list | tuple | dict) for entry in given
  )
  each = (
    [given] * len(outputs.names) if is_flat else outputs.of_each(given, what)
  )
  for entry in each:
    listed = entry if isinstance(entry, list | tuple) else [entry]
    yield [metric for metric in listed if metric is not None]


def _make_metric(
  given: Any, target: tf.Tensor, output: tf.Tensor
) -> tf.keras.metrics.Metric:
  """Returns a new metric in the current graph."""
  if isinstance(given, tf.keras.metrics.Metric):
    return type(given).from_config(given.get_config())
  if isinstance(given, str) and given.lower() in {*_BY_SHAPE, *_SHORT}:
    kinds = _BY_SHAPE[_SHORT.get(given.lower(), given.lower())]
    function = kinds[_kind(target, output)]
    return tf.keras.metrics.MeanMetricWrapper(function, name=given)
  found = tf.keras.metrics.get(given)
  if isinstance(found, tf.keras.metrics.Metric):
    return found
  name = given if isinstance(given, str) else _name_of(given)
  return tf.keras.metrics.MeanMetricWrapper(found, name=name)


def _kind(target: tf.Tensor, output: tf.Tensor) -> int:
  """Returns whether classes are two, numbers or one-hot: 0, 1 or 2."""
  if output.shape[-1] == 1:
    return 0
  is_sparse = target.shape.rank < output.shape.rank or target.shape[-1] == 1
  return 1 if is_sparse else 2


def _name_of(given: Any) -> str:
  for name in ("name", "__name__"):
    if hasattr(given, name):
      return str(getattr(given, name))
  return type(given).__name__


def _masked(
  weight: tf.Tensor | None, mask: tf.Tensor | None, output: tf.Tensor
) -> tf.Tensor | None:
  """Returns a weight that is 0 for what does not count."""
  if mask is None or weight is None:
    return weight if mask is None else tf.cast(mask, output.dtype)
  mask = tf.cast(mask, weight.dtype)
  return masks.like(weight, mask) * mask


def _check_config(metric: tf.keras.metrics.Metric) -> None:
  """Raises if a metric's config does not say how it was made."""
  arguments = [*inspect.signature(type(metric).__init__).parameters][1:]
  unknown = [name for name in arguments if name not in _KNOWN_ARGUMENTS]
  if unknown and type(metric).get_config is tf.keras.metrics.Metric.get_config:
    raise ValueError(
      f"the metric {metric.name!r} takes {', '.join(unknown)}, but "
      f"{type(metric).__name__} has no get_config that tells them, so that it "
      "cannot be made again in a graph; add get_config, or give a function"
    )


_KNOWN_ARGUMENTS: Sequence[str] = ("name", "dtype", "args", "kwargs")
