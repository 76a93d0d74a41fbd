"""tf.contrib.learn.Estimator, on tf.estimator.Estimator.

Checkpoints have the names and places of 1.15. `export` raises an error: its
format, SessionBundle, is gone; `export_savedmodel` serves.
"""

import inspect
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from compat.contrib.learn import feeding, saved_models
from compat.contrib.learn import monitors as monitors_lib
from compat.contrib.learn.base import Evaluable, NotFittedError, Trainable
from compat.contrib.learn.constants import ModeKeys
from compat.contrib.learn.metric_spec import MetricSpec
from compat.contrib.learn.model_fn import ModelFnOps
from compat.contrib.learn.run_config import RunConfig

import numpy as np
import tensorflow as tf

_LOG = logging.getLogger("tensorflow")
_NO_LOSS = "contrib_learn/loss"

ModelFn = Callable[..., Any]
InputFn = Callable[..., Any]


class BaseEstimator(Evaluable, Trainable):
  """A model of tf.contrib.learn; subclasses say what it computes.

  A subclass has `_get_train_ops`, `_get_eval_ops` and `_get_predict_ops`, or
  `_call_model_fn`; each returns a ModelFnOps.
  """

  def __init__(self, model_dir: str | None = None, config: Any = None):
    """Makes the model.

    Args:
      model_dir: where its checkpoints are; a new folder by default.
      config: a RunConfig, of tf.contrib.learn or tf.estimator.

    Raises:
      ValueError: if model_dir contradicts config.
    """
    config = RunConfig() if config is None else config
    if model_dir is not None and config.model_dir not in (None, model_dir):
      raise ValueError(
        f"model_dir={model_dir!r} is not {config.model_dir!r}, the model_dir "
        "of the config. Give it once."
      )
    model_dir = model_dir or config.model_dir
    if model_dir is None:
      model_dir = tempfile.mkdtemp()
      _LOG.warning("Using a temporary folder as model_dir: %s", model_dir)
    if config.model_dir is None:
      config = config.replace(model_dir=model_dir)
    self._model_dir = model_dir
    self._config = config
    self._changes: list[Callable[[Any], Any]] = []

  @property
  def model_dir(self) -> str:
    """Where its checkpoints are."""
    return self._model_dir

  @property
  def config(self) -> Any:
    """How it is run."""
    return self._config

  @property
  def model_fn(self) -> ModelFn:
    """The model's graph, of features, labels, mode and config."""

    def model_fn(
      features: Any, labels: Any, mode: str, config: Any
    ) -> ModelFnOps:
      return self._call_model_fn(features, labels, mode, config=config)

    return model_fn

  def _call_model_fn(
    self,
    features: Any,
    labels: Any,
    mode: str,
    metrics: Any = None,
    config: Any = None,
  ) -> ModelFnOps:
    del config  # For subclasses.
    if mode == ModeKeys.TRAIN:
      return _as_ops(mode, self._get_train_ops(features, labels))
    if mode == ModeKeys.EVAL:
      return _as_ops(mode, self._get_eval_ops(features, labels, metrics))
    return _as_ops(mode, self._get_predict_ops(features))

  def _get_train_ops(self, features: Any, labels: Any) -> Any:
    raise NotImplementedError(f"{type(self).__name__} cannot be trained.")

  def _get_eval_ops(self, features: Any, labels: Any, metrics: Any) -> Any:
    raise NotImplementedError(f"{type(self).__name__} cannot be evaluated.")

  def _get_predict_ops(self, features: Any) -> Any:
    raise NotImplementedError(f"{type(self).__name__} cannot predict.")

  def fit(
    self,
    x: Any = None,
    y: Any = None,
    input_fn: InputFn | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    monitors: Iterable[Any] | None = None,
    max_steps: int | None = None,
  ) -> Any:
    """Trains the model from its latest checkpoint.

    Args:
      x: features: an array, arrays by name, or an iterator over examples.
      y: labels, the same.
      input_fn: returns features and labels as tensors, in the place of x and y.
      steps: how many steps to make; None is until the input ends.
      batch_size: of x and y; None is all at once.
      monitors: monitors and hooks.
      max_steps: the step to train until, in the place of steps.

    Returns:
      The model.

    Raises:
      ValueError: if arguments contradict each other.
    """
    _check_steps(steps, max_steps)
    given = _input(x, y, input_fn, batch_size, shuffle=True, epochs=None)
    hooks = monitors_lib.replace_monitors_with_hooks(monitors, self)
    core = self._core()
    core.train(given, hooks=hooks, steps=steps, max_steps=max_steps)
    return self

  def partial_fit(
    self,
    x: Any = None,
    y: Any = None,
    input_fn: InputFn | None = None,
    steps: int | None = 1,
    batch_size: int | None = None,
    monitors: Iterable[Any] | None = None,
  ) -> Any:
    """Trains some more steps; see fit."""
    return self.fit(x, y, input_fn, steps, batch_size, monitors)

  def evaluate(
    self,
    x: Any = None,
    y: Any = None,
    input_fn: InputFn | None = None,
    feed_fn: Callable[[], dict[Any, Any]] | None = None,
    batch_size: int | None = None,
    steps: int | None = None,
    metrics: Mapping[Any, Any] | None = None,
    name: str | None = None,
    checkpoint_path: str | None = None,
    hooks: Iterable[Any] | None = None,
    log_progress: bool = True,
  ) -> Any:
    """Evaluates the model.

    Args:
      x: features, as fit takes them.
      y: labels.
      input_fn: returns both as tensors, in their place.
      feed_fn: returns what is fed in each step, with input_fn.
      batch_size: of x and y; None is all at once.
      steps: how many batches; None is all.
      metrics: MetricSpecs by name, besides those of the model.
      name: of this evaluation, in its summaries' folder.
      checkpoint_path: which checkpoint; the latest by default.
      hooks: hooks for evaluating.
      log_progress: whether each batch is logged.

    Returns:
      The metrics, "loss" and "global_step", by name.

    Raises:
      ValueError: if arguments contradict each other.
      NotFittedError: if there is no checkpoint.
    """
    del log_progress
    self._check_fitted(checkpoint_path)
    given = _input(x, y, input_fn, batch_size, shuffle=False, epochs=1)
    hooks = [*(hooks or [])]
    if feed_fn is not None:
      hooks.insert(0, tf.compat.v1.train.FeedFnHook(feed_fn))
    found = self._core(metrics).evaluate(
      given,
      steps=steps or None,
      hooks=hooks,
      checkpoint_path=checkpoint_path,
      name=name,
    )
    if _NO_LOSS in found:
      found["loss"] = found.pop(_NO_LOSS)
    return found

  def predict(
    self,
    x: Any = None,
    input_fn: InputFn | None = None,
    batch_size: int | None = None,
    outputs: Iterable[str] | None = None,
    as_iterable: bool = True,
    iterate_batches: bool = False,
  ) -> Any:
    """Predicts.

    Args:
      x: features, as fit takes them.
      input_fn: returns them as tensors, in the place of x. Without queues it
        gives one batch, as in 1.15.
      batch_size: of x; None is all at once.
      outputs: the names of the predictions to return; None is all.
      as_iterable: whether to return an iterator, and not an array of all.
      iterate_batches: whether the iterator gives whole batches.

    Returns:
      The predictions: of each example, or of all.

    Raises:
      NotFittedError: if there is no checkpoint.
    """
    self._check_fitted()
    given = _input(x, None, input_fn, batch_size, False, epochs=1)
    batches = self._batches(given, outputs, once=x is None)
    if not as_iterable:
      return _concatenated(list(batches))
    return batches if iterate_batches else _examples(batches)

  def _batches(
    self,
    input_fn: InputFn,
    outputs: Iterable[str] | None,
    once: bool,
  ) -> Iterator[Any]:
    has_queues = False

    def features_fn() -> Any:
      nonlocal has_queues
      features = _features_of(input_fn())
      has_queues = bool(
        tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.QUEUE_RUNNERS)
      )
      return features

    for batch in self._core(outputs=outputs).predict(
      features_fn, yield_single_examples=False
    ):
      yield batch
      if once and not has_queues:
        break

  def predict_ops(self, features: Any) -> ModelFnOps:
    """Makes the model's graph for predictions, in the current graph."""
    return self._call_model_fn(features, None, ModeKeys.INFER)

  def get_variable_value(self, name: str) -> Any:
    """Returns the value of a variable in the latest checkpoint."""
    return tf.train.load_variable(self._model_dir, name)

  def get_variable_names(self) -> list[str]:
    """Returns the names of the variables in the latest checkpoint."""
    return [name for name, _ in tf.train.list_variables(self._model_dir)]

  def get_params(self, deep: bool = True) -> dict[str, Any]:
    """Returns the arguments that the model was made of, for scikit-learn."""
    found: dict[str, Any] = {}
    for name, value in vars(self).items():
      if name.startswith("_") or value is None:
        continue
      found[name] = value
      if deep and hasattr(value, "get_params"):
        found.update(
          {f"{name}__{key}": one for key, one in value.get_params().items()}
        )
    return found

  def set_params(self, **params: Any) -> Any:
    """Sets arguments that the model was made of, for scikit-learn."""
    for name, value in params.items():
      first, _, rest = name.partition("__")
      if first not in self.get_params(deep=False):
        raise ValueError(f"{type(self).__name__} has no parameter {first!r}.")
      if rest:
        getattr(self, first).set_params(**{rest: value})
      else:
        setattr(self, first, value)
    return self

  def export(self, export_dir: str, *args: Any, **kwargs: Any) -> Any:
    """Says what to use: the format that this wrote is gone.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError(
      "Estimator.export writes a SessionBundle, which nothing reads since "
      "TensorFlow 1.7. Use Estimator.export_savedmodel instead."
    )

  def _check_fitted(self, checkpoint_path: str | None = None) -> None:
    found = checkpoint_path or tf.train.latest_checkpoint(self._model_dir)
    if not found:
      raise NotFittedError(f"Couldn't find trained model at {self._model_dir}.")

  def _session_config(self) -> Any:
    if self._config.session_config is not None:
      return self._config.session_config
    return tf.compat.v1.ConfigProto(allow_soft_placement=True)

  def change_core(self, change: Callable[[Any], Any]) -> None:
    """Lets a function change each tf.estimator.Estimator that runs this model.

    Args:
      change: returns the Estimator to use in the place of the one given.
    """
    change(self._core())  # Raises its errors now.
    self._changes.append(change)

  def _core(
    self,
    metrics: Mapping[Any, Any] | None = None,
    outputs: Iterable[str] | None = None,
  ) -> Any:
    """The tf.estimator.Estimator that runs this model, made for one run."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
      ops = self._call_model_fn(features, labels, mode, metrics)
      found = dict(ops.eval_metric_ops or {})
      if mode == ModeKeys.EVAL:
        found.update(_metric_ops(metrics, features, labels, ops.predictions))
        if "loss" in found:
          found[_NO_LOSS] = found.pop("loss")
      return ops._replace(
        predictions=_filtered(ops.predictions, outputs),
        eval_metric_ops=found,
        output_alternatives=None,
      ).estimator_spec()

    config = self._config
    if config.session_config is None:
      config = config.replace(session_config=self._session_config())
    core = tf.compat.v1.estimator.Estimator(model_fn, config=config)
    for change in self._changes:
      core = change(core)
    return core


class Estimator(BaseEstimator):
  """A model that a model_fn of tf.contrib.learn describes."""

  def __init__(
    self,
    model_fn: ModelFn | None = None,
    model_dir: str | None = None,
    config: Any = None,
    params: Any = None,
    feature_engineering_fn: Callable[[Any, Any], tuple[Any, Any]] | None = None,
  ):
    """Makes the model.

    Args:
      model_fn: called with features, labels, and those of mode, params, config
        and model_dir that it has arguments of. It returns a ModelFnOps, or
        (predictions, loss, train_op).
      model_dir: where its checkpoints are; a new folder by default.
      config: a RunConfig.
      params: given to model_fn.
      feature_engineering_fn: changes (features, labels) before model_fn.

    Raises:
      ValueError: if model_fn cannot take what it is given.
    """
    super().__init__(model_dir, config)
    if model_fn is not None:
      names = _arguments(model_fn)
      if not _positional(model_fn) >= 2:
        raise ValueError(
          f"model_fn {model_fn} takes {list(names)}; it has to take features "
          "and labels."
        )
      if params is not None and "params" not in names:
        raise ValueError(
          f"model_fn {model_fn} takes {list(names)}, and no params, but "
          f"params={params!r} are given."
        )
    self._model_fn = model_fn
    self.params = params
    self._feature_engineering_fn = feature_engineering_fn

  def _call_model_fn(
    self,
    features: Any,
    labels: Any,
    mode: str,
    metrics: Any = None,
    config: Any = None,
  ) -> ModelFnOps:
    if self._model_fn is None:
      raise ValueError(f"{type(self).__name__} was made without a model_fn.")
    if self._feature_engineering_fn is not None:
      features, labels = self._feature_engineering_fn(features, labels)
    names = _arguments(self._model_fn)
    offered = {
      "mode": mode,
      "params": self.params,
      "config": config or self._config,
      "model_dir": self._model_dir,
    }
    given = {name: offered[name] for name in offered if name in names}
    return _as_ops(mode, self._model_fn(features, labels, **given))

  def export_savedmodel(
    self,
    export_dir_base: str,
    serving_input_fn: Callable[[], Any],
    default_output_alternative_key: str | None = None,
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    checkpoint_path: str | None = None,
    graph_rewrite_specs: Any = None,
    strip_default_attrs: bool = False,
  ) -> Any:
    """Writes a SavedModel.

    Args:
      export_dir_base: the folder below which the export gets its own, called
        after the time.
      serving_input_fn: returns InputFnOps.
      default_output_alternative_key: the head that serves requests that name
        none; needed if there are several.
      assets_extra: files to copy, by their place below assets.extra.
      as_text: whether the graph is written as text.
      checkpoint_path: which checkpoint; the latest by default.
      graph_rewrite_specs: must be left out; there is one graph, "serve".
      strip_default_attrs: whether attributes with default values are left out.

    Returns:
      The path of the export, as bytes.

    Raises:
      ValueError: if there is no serving_input_fn, or no head is chosen.
      NotFittedError: if there is no checkpoint.
    """
    if serving_input_fn is None:
      raise ValueError("export_savedmodel needs a serving_input_fn.")
    if graph_rewrite_specs is not None:
      raise NotImplementedError(
        "graph_rewrite_specs need the graph transforms of tf.contrib, which "
        "are gone. Leave them out, and transform the SavedModel afterwards."
      )
    self._check_fitted(checkpoint_path)
    return saved_models.write(
      export_dir_base,
      serving_input_fn,
      lambda features: self._call_model_fn(features, None, ModeKeys.INFER),
      checkpoint_path or tf.train.latest_checkpoint(self._model_dir),
      self._session_config(),
      saved_models.Choices(
        default_output_alternative_key,
        assets_extra,
        as_text,
        strip_default_attrs,
      ),
    )


class SKCompat:
  """A model with the methods of scikit-learn."""

  def __init__(self, estimator: BaseEstimator):
    """Wraps a model.

    Args:
      estimator: the model.
    """
    self._estimator = estimator

  def fit(
    self,
    x: Any,
    y: Any,
    batch_size: int = 128,
    steps: int | None = None,
    max_steps: int | None = None,
    monitors: Iterable[Any] | None = None,
  ) -> "SKCompat":
    """Trains the model; see Estimator.fit."""
    self._estimator.fit(
      x,
      y,
      steps=steps,
      max_steps=max_steps,
      batch_size=batch_size,
      monitors=monitors,
    )
    return self

  def score(
    self,
    x: Any,
    y: Any,
    batch_size: int = 128,
    steps: int | None = None,
    metrics: Any = None,
    name: str | None = None,
  ) -> Any:
    """Evaluates the model; see Estimator.evaluate."""
    return self._estimator.evaluate(
      x, y, batch_size=batch_size, steps=steps, metrics=metrics, name=name
    )

  def predict(
    self, x: Any, batch_size: int = 128, outputs: Iterable[str] | None = None
  ) -> Any:
    """Predicts all of x, and not only classes; see Estimator.predict."""
    return BaseEstimator.predict(
      self._estimator,
      x,
      batch_size=batch_size,
      outputs=outputs,
      as_iterable=False,
    )

  def get_params(self, deep: bool = True) -> dict[str, Any]:
    """Returns the arguments that the model was made of."""
    return self._estimator.get_params(deep)

  def set_params(self, **params: Any) -> "SKCompat":
    """Sets arguments that the model was made of."""
    self._estimator.set_params(**params)
    return self


def _check_steps(steps: int | None, max_steps: int | None) -> None:
  if steps is not None and max_steps is not None:
    raise ValueError("Give fit steps or max_steps, not both.")
  for name, value in (("steps", steps), ("max_steps", max_steps)):
    if value is not None and value <= 0:
      raise ValueError(f"{name}={value} must be positive.")


def _input(
  x: Any,
  y: Any,
  input_fn: InputFn | None,
  batch_size: int | None,
  shuffle: bool,
  epochs: int | None,
) -> InputFn:
  if input_fn is None:
    if x is None:
      raise ValueError("Give x or input_fn.")
    return feeding.input_fn(x, y, batch_size, shuffle, epochs)
  if x is not None or y is not None:
    raise ValueError("Give x and y, or input_fn, not both.")
  if batch_size is not None:
    raise ValueError(
      f"batch_size={batch_size} is for x and y; input_fn makes its own batches."
    )
  return input_fn


def _features_of(result: Any) -> Any:
  return result[0] if isinstance(result, list | tuple) else result


def _arguments(function: Any) -> Mapping[str, inspect.Parameter]:
  return inspect.signature(function).parameters


def _positional(function: Any) -> int:
  """How many arguments of a function may be given by position."""
  kinds = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
  )
  found = list(_arguments(function).values())
  if any(one.kind is one.VAR_POSITIONAL for one in found):
    return 2
  return sum(one.kind in kinds for one in found)


def _as_ops(mode: str, result: Any) -> ModelFnOps:
  """Returns the result of a model_fn as a ModelFnOps."""
  if isinstance(result, ModelFnOps):
    return result
  if isinstance(result, tf.compat.v1.estimator.EstimatorSpec):
    return ModelFnOps(
      mode,
      result.predictions,
      result.loss,
      result.train_op,
      result.eval_metric_ops,
      training_chief_hooks=result.training_chief_hooks,
      training_hooks=result.training_hooks,
      scaffold=result.scaffold,
    )
  if isinstance(result, tuple) and len(result) == 3:
    return ModelFnOps(mode, *result)
  raise ValueError(
    f"model_fn returned {result!r}; it has to return a ModelFnOps, or "
    "(predictions, loss, train_op)."
  )


def _metric_ops(
  metrics: Mapping[Any, Any] | None, features: Any, labels: Any, predicted: Any
) -> dict[str, Any]:
  """The ops of the metrics that `evaluate` was given."""
  found: dict[str, Any] = {}
  for name, metric in (metrics or {}).items():
    if isinstance(metric, MetricSpec):
      found[name] = metric.create_metric_ops(features, labels, predicted)
    elif not callable(metric):
      raise TypeError(
        f"The metric {name!r} is {metric!r}; it must be a MetricSpec."
      )
    elif isinstance(name, tuple):
      name, key = name
      found[name] = metric(predicted[key], labels)
    else:
      found[name] = metric(predicted, labels)
  return {
    name: ops if isinstance(ops, tuple) else (ops, tf.identity(ops))
    for name, ops in found.items()
  }


def _filtered(predictions: Any, outputs: Iterable[str] | None) -> Any:
  if outputs is None:
    return predictions
  outputs = list(outputs)
  if not isinstance(predictions, Mapping):
    raise ValueError(
      f"outputs={outputs} are given, but the model predicts one tensor only."
    )
  found = {key: predictions[key] for key in outputs if key in predictions}
  if not found:
    raise ValueError(
      f"outputs={outputs} are none of {', '.join(sorted(predictions))}."
    )
  return found


def _examples(batches: Iterator[Any]) -> Iterator[Any]:
  for batch in batches:
    if isinstance(batch, dict):
      count = len(next(iter(batch.values())))
      for index in range(count):
        yield {key: value[index] for key, value in batch.items()}
    else:
      yield from batch


def _concatenated(batches: list[Any]) -> Any:
  if batches and isinstance(batches[0], dict):
    return {
      key: np.concatenate([batch[key] for batch in batches])
      for key in batches[0]
    }
  return np.concatenate(batches)
