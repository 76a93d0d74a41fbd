"""Functions that extend an Estimator or an optimizer, and export it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

_Estimator = tf.compat.v1.estimator.Estimator
_Modes = tf.compat.v1.estimator.ModeKeys


class _ClippingOptimizer(tf.compat.v1.train.Optimizer):
  """Clips gradients by their common norm, and leaves the rest to another."""

  def __init__(self, optimizer: Any, clip_norm: float):
    super().__init__(use_locking=False, name=f"Clip{optimizer.get_name()}")
    self._optimizer = optimizer
    self._clip_norm = clip_norm

  def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
    return self._optimizer.compute_gradients(*args, **kwargs)

  def apply_gradients(
    self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
  ) -> Any:
    gradients, variables = zip(*grads_and_vars, strict=True)
    clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
    return self._optimizer.apply_gradients(
      list(zip(clipped, variables, strict=True)), global_step, name
    )

  def get_slot(self, var: Any, name: str) -> Any:
    return self._optimizer.get_slot(var, name)

  def get_slot_names(self) -> Any:
    return self._optimizer.get_slot_names()

  def variables(self) -> Any:
    return self._optimizer.variables()


def clip_gradients_by_norm(optimizer: Any, clip_norm: float) -> Any:
  """Returns an optimizer that clips gradients by their common norm.

  Args:
    optimizer: a tf.train.Optimizer, which makes the steps.
    clip_norm: the greatest norm.
  """
  return _ClippingOptimizer(optimizer, clip_norm)


def forward_features(
  estimator: Any,
  keys: Any = None,
  sparse_default_values: Mapping[str, Any] | None = None,
) -> Any:
  """Returns an Estimator whose predictions have features, too.

  Args:
    estimator: the Estimator.
    keys: the name of a feature, or several; None is all.
    sparse_default_values: by feature, what fills a SparseTensor's gaps.

  Raises:
    ValueError: if keys are no names.
  """
  if keys is not None and isinstance(keys, str):
    keys = [keys]
  for key in keys or ():
    if not isinstance(key, str):
      raise ValueError(f"keys has {key!r}, which is no name of a feature.")

  def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
    spec = estimator.model_fn(features, labels, mode, config)
    predictions = spec.predictions
    if predictions is None or mode != _Modes.PREDICT:
      return spec
    names = _checked(features, predictions, keys)
    predictions = dict(predictions)
    for name in names:
      predictions[name] = _forwarded(name, features, sparse_default_values)
    spec = spec._replace(predictions=predictions)
    for output in (spec.export_outputs or {}).values():
      if hasattr(output, "outputs"):
        output.outputs.update({name: predictions[name] for name in names})
    return spec

  return _Estimator(
    model_fn, model_dir=estimator.model_dir, config=estimator.config
  )


def _checked(
  features: Any, predictions: Any, keys: Sequence[str] | None
) -> list[str]:
  if not isinstance(predictions, Mapping) or not isinstance(features, Mapping):
    raise ValueError(
      "forward_features needs features and predictions that are dictionaries."
    )
  names = list(features if keys is None else keys)
  for name in names:
    if name not in features:
      raise ValueError(
        f"keys has {name!r}; there are {', '.join(sorted(features))}."
      )
    if name in predictions:
      raise ValueError(f"The predictions have {name!r} already.")
  return names


def _forwarded(
  name: str, features: Mapping[str, Any], defaults: Mapping[str, Any] | None
) -> Any:
  feature = features[name]
  if isinstance(feature, tf.SparseTensor):
    if not defaults or name not in defaults:
      raise ValueError(
        f"The feature {name!r} is sparse; sparse_default_values has no value "
        "to fill its gaps with."
      )
    return tf.sparse.to_dense(feature, defaults[name])
  return feature


def export_saved_model_for_mode(
  estimator: Any,
  export_dir_base: str,
  input_receiver_fn: Callable[[], Any],
  assets_extra: Mapping[str, str] | None = None,
  as_text: bool = False,
  checkpoint_path: str | None = None,
  mode: str = _Modes.PREDICT,
) -> Any:
  """Writes the graph of one mode as a SavedModel.

  Args:
    estimator: the Estimator.
    export_dir_base: the folder below which the export gets its own.
    input_receiver_fn: returns what receives the input.
    assets_extra: files to copy, by their place below assets.extra.
    as_text: whether the graph is written as text.
    checkpoint_path: which checkpoint; the latest by default.
    mode: of the model_fn.

  Returns:
    The path of the export, as bytes.
  """
  return export_all_saved_models(
    estimator,
    export_dir_base,
    {mode: input_receiver_fn},
    assets_extra,
    as_text,
    checkpoint_path,
  )


def export_all_saved_models(
  estimator: Any,
  export_dir_base: str,
  input_receiver_fn_map: Mapping[str, Callable[[], Any]],
  assets_extra: Mapping[str, str] | None = None,
  as_text: bool = False,
  checkpoint_path: str | None = None,
) -> Any:
  """Writes the graphs of several modes as one SavedModel.

  Args:
    estimator: the Estimator.
    export_dir_base: the folder below which the export gets its own.
    input_receiver_fn_map: by mode, returns what receives the input.
    assets_extra: files to copy, by their place below assets.extra.
    as_text: whether the graphs are written as text.
    checkpoint_path: which checkpoint; the latest by default.

  Returns:
    The path of the export, as bytes.
  """
  return estimator.experimental_export_all_saved_models(
    export_dir_base,
    dict(input_receiver_fn_map),
    assets_extra=assets_extra,
    as_text=as_text,
    checkpoint_path=checkpoint_path,
  )
