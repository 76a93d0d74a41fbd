"""tf.contrib.learn.MetricSpec: which tensors a metric is computed of."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

# Names of arguments by which metrics of tf.contrib and tf take their tensors.
_PREDICTIONS = ("predictions", "prediction")
_LABELS = ("labels", "label", "targets", "target")
_WEIGHTS = ("weights", "weight")


def _unwrapped(metric_fn: Any) -> Any:
  while hasattr(metric_fn, "func"):
    metric_fn = metric_fn.func
  return metric_fn


def _argument(metric_fn: Any, names: tuple[str, ...]) -> str | None:
  """The argument of a metric that takes one of the three tensors."""
  try:
    parameters = inspect.signature(metric_fn).parameters
  except (TypeError, ValueError):
    return names[0]
  found = [name for name in names if name in parameters]
  return found[0] if found else None


def _takes_anything(metric_fn: Any) -> bool:
  try:
    parameters = inspect.signature(metric_fn).parameters.values()
  except (TypeError, ValueError):
    return False
  return any(one.kind is one.VAR_KEYWORD for one in parameters)


class MetricSpec:
  """A metric, and the keys of the prediction, label and weight it is given."""

  def __init__(
    self,
    metric_fn: Callable[..., Any],
    prediction_key: str | None = None,
    label_key: str | None = None,
    weight_key: str | None = None,
  ):
    """Describes a metric.

    Args:
      metric_fn: makes the metric's ops of predictions, labels and weights, each
        by keyword if it has an argument of that name ("targets" serves for
        labels), as those of tf.metrics and tf.contrib.metrics have.
      prediction_key: of the predictions, if they are a dictionary.
      label_key: of the labels, if they are a dictionary.
      weight_key: of the features; None is no weight.
    """
    self._metric_fn = metric_fn
    self._prediction_key = prediction_key
    self._label_key = label_key
    self._weight_key = weight_key

  @property
  def metric_fn(self) -> Callable[..., Any]:
    """The function that makes the metric's ops."""
    return self._metric_fn

  @property
  def prediction_key(self) -> str | None:
    """The key of the predictions."""
    return self._prediction_key

  @property
  def label_key(self) -> str | None:
    """The key of the labels."""
    return self._label_key

  @property
  def weight_key(self) -> str | None:
    """The key of the weights among the features."""
    return self._weight_key

  def __str__(self) -> str:
    function = _unwrapped(self._metric_fn)
    name = getattr(function, "__name__", repr(function))
    return (
      f"MetricSpec(metric_fn={name}, prediction_key={self._prediction_key}, "
      f"label_key={self._label_key}, weight_key={self._weight_key})"
    )

  def create_metric_ops(
    self, inputs: Any, labels: Any, predictions: Any
  ) -> Any:
    """Makes the metric's ops.

    Args:
      inputs: the features, where the weight is.
      labels: a tensor, or tensors by name.
      predictions: a tensor, or tensors by name.

    Returns:
      The result of metric_fn: the value and the update op.

    Raises:
      ValueError: if a key is missing, or not needed.
    """
    prediction = self._chosen(predictions, self._prediction_key, "prediction")
    label = self._chosen(labels, self._label_key, "label")
    weight = self._weight(inputs)
    return self._call(prediction, label, weight)

  def _call(self, prediction: Any, label: Any, weight: Any) -> Any:
    function = self._metric_fn
    given: dict[str, Any] = {}
    name = _argument(function, _LABELS)
    if name is not None:
      given[name] = label
    elif _takes_anything(function):
      given["labels"] = label
    name = _argument(function, _WEIGHTS)
    if weight is not None:
      if name is None and not _takes_anything(function):
        raise ValueError(
          f"{self} has a weight_key, but its metric takes no weights."
        )
      given[name or "weights"] = weight
    name = _argument(function, _PREDICTIONS)
    if name is None and not _takes_anything(function):
      return function(prediction, **given)
    return function(**{name or "predictions": prediction}, **given)

  def _chosen(self, tensors: Any, key: str | None, kind: str) -> Any:
    if not isinstance(tensors, Mapping):
      if key is not None:
        raise ValueError(
          f"{self}: {kind}_key={key!r} is given, but there is one {kind} only. "
          f"Leave {kind}_key out."
        )
      return tensors
    if key is not None:
      if key not in tensors:
        raise ValueError(
          f"{self}: {kind}_key={key!r} is none of "
          f"{', '.join(sorted(map(str, tensors)))}."
        )
      return tensors[key]
    if len(tensors) != 1:
      raise ValueError(
        f"{self}: {kind}_key is missing; it is one of "
        f"{', '.join(sorted(map(str, tensors)))}."
      )
    return next(iter(tensors.values()))

  def _weight(self, inputs: Any) -> Any:
    if self._weight_key is None:
      return None
    if not isinstance(inputs, Mapping) or self._weight_key not in inputs:
      raise ValueError(f"{self}: the features have no {self._weight_key!r}.")
    return inputs[self._weight_key]
