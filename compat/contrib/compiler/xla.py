"""Names of tf.contrib.compiler.xla: steps that XLA compiles as a whole."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from compat.contrib import absent

import tensorflow as tf

__getattr__ = absent.getter(__name__)

_estimator = tf.compat.v1.estimator
_ModelFn = Callable[..., Any]

compile = tf.xla.experimental.compile


def estimator_model_fn(target_model_fn: _ModelFn | None = None) -> Any:
  """Lets XLA compile the training and the evaluation step of a model_fn.

  Variables have to be resources: tf.compat.v1.enable_resource_variables().

  Args:
    target_model_fn: the model_fn, of features, labels, mode and params; None
      returns a decorator.
  """
  if target_model_fn is None:
    return _compiled
  return _compiled(target_model_fn)


def _compiled(model_fn: _ModelFn) -> _ModelFn:
  def compiled(features: Any, labels: Any, mode: str, params: Any) -> Any:
    make_spec = functools.partial(
      _spec_of, model_fn, features, labels, mode, params
    )
    if params.get("use_tpu"):  # TPUEstimator compiles it.
      return make_spec()
    if mode == _estimator.ModeKeys.TRAIN:
      return _training(make_spec)
    if mode == _estimator.ModeKeys.EVAL:
      return _evaluation(make_spec)
    raise NotImplementedError(
      f"mode={mode!r} is not compiled; only {_estimator.ModeKeys.TRAIN!r} and "
      f"{_estimator.ModeKeys.EVAL!r} are."
    )

  compiled.__name__ = getattr(model_fn, "__name__", compiled.__name__)
  compiled.__doc__ = model_fn.__doc__
  return compiled


def _spec_of(
  model_fn: _ModelFn, features: Any, labels: Any, mode: str, params: Any
) -> Any:
  """Returns a model_fn's specification; it has nothing that is not compiled."""
  taken = inspect.signature(model_fn).parameters
  given = {"labels": labels, "mode": mode, "params": params}
  if labels is not None and "labels" not in taken:
    raise ValueError(
      "model_fn does not take labels, but input_fn returns labels."
    )
  spec = model_fn(
    features=features, **{name: given[name] for name in given if name in taken}
  )
  if getattr(spec, "scaffold", None):
    tf.compat.v1.logging.warning(
      "EstimatorSpec.scaffold is ignored with XLA compilation. "
      "Use TPUEstimatorSpec.scaffold_fn."
    )
  if getattr(spec, "eval_metric_ops", None):
    raise ValueError(
      "EstimatorSpec.eval_metric_ops is not supported with XLA compilation. "
      "Use TPUEstimatorSpec.eval_metrics."
    )
  return spec


def _training(make_spec: Callable[[], Any]) -> Any:
  specs = []

  def step() -> tf.Tensor:
    specs.append(make_spec())
    # An update that is a tensor would be left out.
    with tf.control_dependencies([specs[0].train_op]):
      return tf.identity(specs[0].loss)

  (loss,) = compile(step)
  return _estimator.EstimatorSpec(
    mode=_estimator.ModeKeys.TRAIN,
    loss=loss,
    train_op=tf.identity(loss),
    scaffold=_scaffold(specs[0]),
  )


def _evaluation(make_spec: Callable[[], Any]) -> Any:
  specs = []

  def step() -> tuple[Any, ...]:
    specs.append(make_spec())
    return (specs[0].loss, *_metric_tensors(specs[0]))

  loss, *tensors = compile(step)
  metric_fn = _metrics(specs[0])[0]
  return _estimator.EstimatorSpec(
    mode=_estimator.ModeKeys.EVAL,
    loss=loss,
    eval_metric_ops=metric_fn(*tensors) if metric_fn else None,
    scaffold=_scaffold(specs[0]),
  )


def _metrics(spec: Any) -> tuple[Callable[..., Any] | None, Any]:
  """Returns the function that a specification has for metrics, and what of."""
  return getattr(spec, "eval_metrics", None) or (None, ())


def _metric_tensors(spec: Any) -> list[tf.Tensor]:
  metric_fn, tensors = _metrics(spec)
  if metric_fn is None or not isinstance(tensors, Mapping):
    return list(tensors)
  names = list(inspect.signature(metric_fn).parameters)
  if sorted(names) != sorted(tensors):
    raise ValueError(
      f"The function of eval_metrics takes {sorted(names)}; it is given "
      f"{sorted(tensors)}."
    )
  return [tensors[name] for name in names]


def _scaffold(spec: Any) -> Any:
  make = getattr(spec, "scaffold_fn", None)
  if make is None:
    return None
  scaffold = make()
  if scaffold is None:
    raise ValueError("TPUEstimatorSpec.scaffold_fn returned None.")
  return scaffold
