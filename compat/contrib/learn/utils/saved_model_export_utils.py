"""ExportStrategies for an Experiment, and the keeping of their exports."""

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from compat.contrib import absent
from compat.contrib.learn.export_strategy import ExportStrategy
from compat.contrib.learn.saved_models import timestamped_folder
from compat.contrib.learn.utils import gc
from compat.contrib.learn.utils.input_fn_utils import (
  build_parsing_serving_input_fn,
)

import tensorflow as tf

__path__: list[str] = []
__getattr__ = absent.getter(__name__)

_LOG = logging.getLogger("tensorflow")

get_timestamped_export_dir = timestamped_folder


def get_temp_export_dir(timestamped_export_dir: bytes) -> bytes:
  """Returns where an export is written before it gets its name."""
  folder, name = os.path.split(timestamped_export_dir)
  return os.path.join(folder, b"temp-" + name)


def _export_version(path: gc.Path) -> gc.Path | None:
  name = os.path.basename(tf.compat.as_str_any(path.path))
  if not (len(name) == 10 and name.isdigit()):
    return None
  return path._replace(export_version=int(name))


def get_most_recent_export(export_dir_base: Any) -> gc.Path | None:
  """Returns the latest export below a folder, or None."""
  found = gc.get_paths(export_dir_base, parser=_export_version)
  return found[-1] if found else None


def garbage_collect_exports(
  export_dir_base: Any, exports_to_keep: int | None
) -> None:
  """Deletes all but the latest exports of a folder.

  Args:
    export_dir_base: the folder.
    exports_to_keep: how many to keep; None is all.
  """
  if exports_to_keep is None:
    return
  delete = gc.negation(gc.largest_export_versions(exports_to_keep))
  for path in delete(gc.get_paths(export_dir_base, parser=_export_version)):
    try:
      tf.io.gfile.rmtree(path.path)
    except tf.errors.NotFoundError:
      _LOG.warning("%s was deleted by another.", path.path)


def make_export_strategy(
  serving_input_fn: Callable[[], Any],
  default_output_alternative_key: str | None = None,
  assets_extra: Mapping[str, str] | None = None,
  as_text: bool = False,
  exports_to_keep: int | None = 5,
  strip_default_attrs: bool | None = None,
) -> ExportStrategy:
  """Returns an ExportStrategy that writes SavedModels, "Servo".

  Args:
    serving_input_fn: returns InputFnOps, or with a tf.estimator.Estimator a
      ServingInputReceiver.
    default_output_alternative_key: the head that serves requests that name
      none; not with a tf.estimator.Estimator.
    assets_extra: files to copy, by their place below assets.extra.
    as_text: whether the graph is written as text.
    exports_to_keep: how many exports are kept; None is all.
    strip_default_attrs: whether attributes with default values are left out.
  """

  def export_fn(
    estimator: Any,
    export_dir_base: Any,
    checkpoint_path: str | None = None,
    strip_default_attrs: bool = False,
  ) -> Any:
    given: dict[str, Any] = dict(
      assets_extra=assets_extra,
      as_text=as_text,
      checkpoint_path=checkpoint_path,
      strip_default_attrs=strip_default_attrs,
    )
    if isinstance(estimator, tf.compat.v1.estimator.Estimator):
      if default_output_alternative_key is not None:
        raise ValueError(
          "default_output_alternative_key="
          f"{default_output_alternative_key!r} is for models of "
          "tf.contrib.learn; in an EstimatorSpec the export_outputs have a "
          "default."
        )
      export = estimator.export_savedmodel
    else:
      given["default_output_alternative_key"] = default_output_alternative_key
      export = estimator.export_savedmodel
    path = export(export_dir_base, serving_input_fn, **given)
    garbage_collect_exports(export_dir_base, exports_to_keep)
    return path

  return ExportStrategy("Servo", export_fn, bool(strip_default_attrs))


def make_parsing_export_strategy(
  feature_columns: Any,
  default_output_alternative_key: str | None = None,
  assets_extra: Mapping[str, str] | None = None,
  as_text: bool = False,
  exports_to_keep: int | None = 5,
  target_core: bool = False,
  strip_default_attrs: bool | None = None,
) -> ExportStrategy:
  """Returns an ExportStrategy for requests of serialized tf.Examples.

  Args:
    feature_columns: those of the model, of tf.contrib.layers or, with
      target_core, of tf.feature_column.
    default_output_alternative_key: see make_export_strategy.
    assets_extra: see make_export_strategy.
    as_text: see make_export_strategy.
    exports_to_keep: see make_export_strategy.
    target_core: whether the model is a tf.estimator.Estimator.
    strip_default_attrs: see make_export_strategy.
  """
  if target_core:
    spec = tf.compat.v1.feature_column.make_parse_example_spec(feature_columns)
    serving: Any = (
      tf.compat.v1.estimator.export.build_parsing_serving_input_receiver_fn(
        spec
      )
    )
  else:
    from compat.contrib import layers

    spec = layers.create_feature_spec_for_parsing(feature_columns)
    serving = build_parsing_serving_input_fn(spec)
  return make_export_strategy(
    serving,
    default_output_alternative_key,
    assets_extra,
    as_text,
    exports_to_keep,
    strip_default_attrs,
  )


class BestModelSelector:
  """Remembers which export had the best evaluation."""

  def __init__(
    self,
    event_file_pattern: str | None = None,
    compare_fn: Callable[[Any, Any], bool] | None = None,
  ):
    """Makes the selector.

    Args:
      event_file_pattern: below the model's folder, the summaries of earlier
        evaluations to begin with.
      compare_fn: whether the second of two evaluations is the better one; by
        default the smaller loss is.
    """
    self._compare_fn = compare_fn or _smaller_loss
    self._best = None
    if event_file_pattern is not None:
      self._best = _best_evaluation(event_file_pattern, self._compare_fn)

  def update(
    self, checkpoint_path: str, eval_result: Any
  ) -> tuple[str | None, Any]:
    """Compares an evaluation with the best one.

    Args:
      checkpoint_path: what was evaluated.
      eval_result: what that gave.

    Returns:
      The path and the evaluation if it is the best so far, (None, None) if not.
    """
    if not checkpoint_path or not eval_result:
      return None, None
    if self._best is not None and not self._compare_fn(self._best, eval_result):
      return None, None
    self._best = eval_result
    return checkpoint_path, eval_result


def _smaller_loss(best: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
  for result in (best, current):
    if not result or "loss" not in result:
      raise ValueError(f"The evaluation {result} has no 'loss' to compare.")
  return bool(best["loss"] > current["loss"])


def _best_evaluation(pattern: str, compare: Callable[[Any, Any], bool]) -> Any:
  best = None
  for path in tf.io.gfile.glob(pattern):
    for event in tf.compat.v1.train.summary_iterator(path):
      found = {
        value.tag: value.simple_value
        for value in event.summary.value
        if value.HasField("simple_value")
      }
      if found and (best is None or compare(best, found)):
        best = found
  return best


def make_best_model_export_strategy(
  serving_input_fn: Callable[[], Any],
  exports_to_keep: int | None = 1,
  model_dir: str | None = None,
  event_file_pattern: str | None = None,
  compare_fn: Callable[[Any, Any], bool] | None = None,
  default_output_alternative_key: str | None = None,
  strip_default_attrs: bool | None = None,
) -> ExportStrategy:
  """Returns an ExportStrategy that exports a model if it is the best so far.

  Args:
    serving_input_fn: see make_export_strategy.
    exports_to_keep: how many exports are kept; None is all.
    model_dir: where event_file_pattern is.
    event_file_pattern: the summaries of earlier evaluations, below model_dir.
    compare_fn: whether the second of two evaluations is the better one.
    default_output_alternative_key: see make_export_strategy.
    strip_default_attrs: see make_export_strategy.
  """
  pattern = None
  if model_dir is not None and event_file_pattern is not None:
    pattern = os.path.join(model_dir, event_file_pattern)
  selector = BestModelSelector(pattern, compare_fn)
  base = make_export_strategy(
    serving_input_fn,
    default_output_alternative_key,
    exports_to_keep=exports_to_keep,
    strip_default_attrs=strip_default_attrs,
  )

  def export_fn(
    estimator: Any,
    export_dir_base: Any,
    checkpoint_path: str | None = None,
    eval_result: Any = None,
  ) -> Any:
    if not checkpoint_path:
      checkpoint_path = tf.train.latest_checkpoint(estimator.model_dir)
    path, _ = selector.update(checkpoint_path, eval_result)
    if path is None:
      return ""
    return base.export(estimator, export_dir_base, checkpoint_path=path)

  return ExportStrategy("best_model", export_fn)


def extend_export_strategy(
  base_export_strategy: ExportStrategy,
  post_export_fn: Callable[[Any, Any], Any],
  post_export_name: str | None = None,
) -> ExportStrategy:
  """Returns an ExportStrategy that writes a second export of the first.

  Args:
    base_export_strategy: writes the first.
    post_export_fn: called with the path of the first export, and the path to
      write to; it returns the path that it has written.
    post_export_name: of the strategy; by default that of the first.
  """

  def export_fn(
    estimator: Any, export_dir_base: Any, checkpoint_path: str | None = None
  ) -> Any:
    base = os.path.join(tf.compat.as_bytes(export_dir_base), b"temp")
    first = base_export_strategy.export(estimator, base, checkpoint_path)
    target = os.path.join(
      tf.compat.as_bytes(export_dir_base),
      os.path.basename(tf.compat.as_bytes(first)),
    )
    temporary = get_temp_export_dir(target)
    written = post_export_fn(first, temporary)
    if not tf.compat.as_bytes(written).startswith(
      tf.compat.as_bytes(export_dir_base)
    ):
      raise ValueError(
        f"post_export_fn returned {written!r}, which is not below "
        f"{export_dir_base!r}."
      )
    tf.io.gfile.rename(written, target)
    return target

  name = post_export_name or base_export_strategy.name
  return ExportStrategy(name, export_fn)
