"""What the ready-made models of tf.contrib.learn share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from compat.contrib.layers.feature_column.column import FeatureColumn
from compat.contrib.learn.constants import PredictionKey
from compat.contrib.learn.estimator import Estimator
from compat.contrib.learn.metric_spec import MetricSpec

import tensorflow as tf

v1 = tf.compat.v1

MIN_SLICE_SIZE = 64 << 20

Optimizer = Any  # A string, an Optimizer, or what makes one.
FeatureEngineeringFn = Callable[[Any, Any], tuple[Any, Any]]


def features_by_name(features: Any) -> Mapping[str, Any]:
  """Returns features as tensors by name; a single one is called ""."""
  return features if isinstance(features, dict) else {"": features}


def partitioner(config: Any, min_slice_size: int = 256 << 10) -> Any:
  """Returns what splits variables over parameter servers.

  Args:
    config: a RunConfig; without parameter servers nothing is split.
    min_slice_size: of a part, in bytes.
  """
  return v1.min_max_variable_partitioner(
    config.num_ps_replicas if config else 0, min_slice_size=min_slice_size
  )


def are_of_contrib(columns: Sequence[Any]) -> bool:
  """Whether columns are of tf.contrib.layers, not of tf.feature_column."""
  return all(isinstance(column, FeatureColumn) for column in columns)


def made(optimizer: Optimizer) -> Any:
  """Returns an optimizer, or its name, that may have to be made yet."""
  return optimizer() if callable(optimizer) else optimizer


class Classifier(Estimator):
  """A model that predicts classes, unless other outputs are asked for."""

  def predict(
    self,
    x: Any = None,
    input_fn: Callable[[], Any] | None = None,
    batch_size: int | None = None,
    outputs: Iterable[str] | None = None,
    as_iterable: bool = True,
    iterate_batches: bool = False,
  ) -> Any:
    """Predicts classes, or the outputs; see Estimator.predict."""
    if not outputs:
      return self.predict_classes(x, input_fn, batch_size, as_iterable)
    return super().predict(
      x, input_fn, batch_size, outputs, as_iterable, iterate_batches
    )

  def predict_classes(
    self,
    x: Any = None,
    input_fn: Callable[[], Any] | None = None,
    batch_size: int | None = None,
    as_iterable: bool = True,
  ) -> Any:
    """Predicts the class of each example; see Estimator.predict."""
    return _only(
      PredictionKey.CLASSES, super(), x, input_fn, batch_size, as_iterable
    )

  def predict_proba(
    self,
    x: Any = None,
    input_fn: Callable[[], Any] | None = None,
    batch_size: int | None = None,
    as_iterable: bool = True,
  ) -> Any:
    """Predicts the probability of each class; see Estimator.predict."""
    return _only(
      PredictionKey.PROBABILITIES,
      super(),
      x,
      input_fn,
      batch_size,
      as_iterable,
    )


class Regressor(Estimator):
  """A model that predicts numbers."""

  def evaluate(
    self,
    x: Any = None,
    y: Any = None,
    input_fn: Callable[..., Any] | None = None,
    feed_fn: Callable[[], dict[Any, Any]] | None = None,
    batch_size: int | None = None,
    steps: int | None = None,
    metrics: Mapping[Any, Any] | None = None,
    name: str | None = None,
    checkpoint_path: str | None = None,
    hooks: Iterable[Any] | None = None,
    log_progress: bool = True,
  ) -> Any:
    """Evaluates the model; functions among metrics are given the scores.

    See Estimator.evaluate.
    """
    of_scores = {
      key
      if isinstance(one, MetricSpec) or isinstance(key, tuple)
      else (key, PredictionKey.SCORES): one
      for key, one in (metrics or {}).items()
    }
    return super().evaluate(
      x,
      y,
      input_fn,
      feed_fn,
      batch_size,
      steps,
      of_scores,
      name,
      checkpoint_path,
      hooks,
      log_progress,
    )

  def predict(
    self,
    x: Any = None,
    input_fn: Callable[[], Any] | None = None,
    batch_size: int | None = None,
    outputs: Iterable[str] | None = None,
    as_iterable: bool = True,
    iterate_batches: bool = False,
  ) -> Any:
    """Predicts scores, or the outputs; see Estimator.predict."""
    if not outputs:
      return self.predict_scores(x, input_fn, batch_size, as_iterable)
    return super().predict(
      x, input_fn, batch_size, outputs, as_iterable, iterate_batches
    )

  def predict_scores(
    self,
    x: Any = None,
    input_fn: Callable[[], Any] | None = None,
    batch_size: int | None = None,
    as_iterable: bool = True,
  ) -> Any:
    """Predicts the numbers of each example; see Estimator.predict."""
    return _only(
      PredictionKey.SCORES, super(), x, input_fn, batch_size, as_iterable
    )


def _only(
  key: str,
  model: Any,
  x: Any,
  input_fn: Callable[[], Any] | None,
  batch_size: int | None,
  as_iterable: bool,
) -> Any:
  """One of a model's predictions."""
  found = model.predict(x, input_fn, batch_size, [key], as_iterable)
  return (one[key] for one in found) if as_iterable else found[key]
