"""The results of a model_fn and an input_fn of tf.contrib.learn."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from compat.contrib.learn.constants import ModeKeys, PredictionKey, ProblemType

import tensorflow as tf

_export = tf.compat.v1.estimator.export


class InputFnOps(NamedTuple):
  """The result of a serving_input_fn of tf.contrib.learn.

  Attributes:
    features: tensors by name, for the model_fn.
    labels: None in serving.
    default_inputs: the tensors that a request feeds, by name.
  """

  features: Any
  labels: Any
  default_inputs: Any


class ModelFnOps(
  NamedTuple(
    "ModelFnOps",
    [
      ("predictions", Any),
      ("loss", Any),
      ("train_op", Any),
      ("eval_metric_ops", Any),
      ("output_alternatives", Any),
      ("training_chief_hooks", Any),
      ("training_hooks", Any),
      ("scaffold", Any),
      ("mode", Any),
    ],
  )
):
  """The result of a model_fn of tf.contrib.learn.

  Attributes:
    predictions: a tensor, or tensors by name.
    loss: a scalar.
    train_op: what makes one step.
    eval_metric_ops: (value, update) by the metric's name.
    output_alternatives: (ProblemType, tensors by name) by the name of a head.
    training_chief_hooks: hooks on the chief while training.
    training_hooks: hooks on all workers while training.
    scaffold: a tf.train.Scaffold.
    mode: a ModeKeys.
  """

  def __new__(
    cls,
    mode: str,
    predictions: Any = None,
    loss: Any = None,
    train_op: Any = None,
    eval_metric_ops: Mapping[str, Any] | None = None,
    output_alternatives: Mapping[str | None, tuple[int, Any]] | None = None,
    training_chief_hooks: Sequence[Any] | None = None,
    training_hooks: Sequence[Any] | None = None,
    scaffold: Any = None,
  ) -> "ModelFnOps":
    """Checks the parts and puts them together; they are the attributes.

    Raises:
      ValueError: if a part that the mode needs is missing.
    """
    ModeKeys.validate(mode)
    if train_op is None and mode == ModeKeys.TRAIN:
      raise ValueError("A model_fn has to return a train_op in mode TRAIN.")
    if loss is None and mode != ModeKeys.INFER:
      raise ValueError(f"A model_fn has to return a loss in mode {mode!r}.")
    if loss is not None:
      loss = tf.convert_to_tensor(loss)
      if loss.shape.num_elements() not in (None, 1):
        raise ValueError(
          f"The loss has the shape {loss.shape}; it must be a scalar."
        )
      if loss.shape.rank != 0:
        loss = tf.reshape(loss, [])
    if predictions is None:
      if mode in (ModeKeys.INFER, ModeKeys.EVAL):
        raise ValueError(
          f"A model_fn has to return predictions in mode {mode!r}."
        )
    elif isinstance(predictions, Mapping):
      predictions = {key: _dense(one) for key, one in predictions.items()}
    else:
      predictions = _dense(predictions)
    return super().__new__(
      cls,
      predictions=predictions,
      loss=loss,
      train_op=train_op,
      eval_metric_ops={} if eval_metric_ops is None else eval_metric_ops,
      output_alternatives=output_alternatives,
      training_chief_hooks=list(training_chief_hooks or []),
      training_hooks=list(training_hooks or []),
      scaffold=scaffold,
      mode=mode,
    )

  def estimator_spec(
    self, default_serving_output_alternative_key: str | None = None
  ) -> Any:
    """Returns the same for a tf.estimator.Estimator.

    Args:
      default_serving_output_alternative_key: the head that serves requests
        that name none; needed if there are several.

    Raises:
      ValueError: if there are several heads and none is named.
    """
    export_outputs = None
    if self.output_alternatives:
      alternatives = self.output_alternatives
      export_outputs = {
        key: export_output(kind, tensors)
        for key, (kind, tensors) in alternatives.items()
      }
      default = default_head(
        alternatives, default_serving_output_alternative_key
      )
      key = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
      if default != key:
        export_outputs[key] = export_outputs[default]
        export_outputs.pop(None, None)
    return tf.compat.v1.estimator.EstimatorSpec(
      mode=self.mode,
      predictions=self.predictions,
      loss=self.loss,
      train_op=self.train_op,
      eval_metric_ops=_core_metrics(self.eval_metric_ops),
      export_outputs=export_outputs,
      training_chief_hooks=self.training_chief_hooks,
      training_hooks=self.training_hooks,
      scaffold=self.scaffold,
    )


def _dense(tensor: Any) -> Any:
  if isinstance(tensor, tf.SparseTensor):
    return tensor
  return tf.convert_to_tensor(tensor)


def _core_metrics(metrics: Mapping[str, Any] | None) -> dict[str, Any]:
  """Metrics without "loss", which tf.estimator computes itself."""
  return {
    name: metric for name, metric in (metrics or {}).items() if name != "loss"
  }


def default_head(
  alternatives: Mapping[str | None, Any], key: str | None
) -> str | None:
  """Returns the name of the head that serves requests that name none.

  Args:
    alternatives: what ModelFnOps.output_alternatives has.
    key: the name that the user has chosen, or None.

  Raises:
    ValueError: if it is not among them, or there are several and no choice.
  """
  if key is None and len(alternatives) != 1:
    raise ValueError(
      "There are several output alternatives, "
      f"{', '.join(sorted(map(str, alternatives)))}. Give "
      "default_output_alternative_key one of them."
    )
  if key is None:
    return next(iter(alternatives))
  if key not in alternatives:
    raise ValueError(
      f"default_output_alternative_key={key!r} is none of "
      f"{', '.join(sorted(map(str, alternatives)))}."
    )
  return key


def export_output(kind: int, tensors: Mapping[str, Any]) -> Any:
  """Returns what tf.estimator exports of one output alternative.

  Args:
    kind: a ProblemType.
    tensors: by name.
  """
  if kind == ProblemType.CLASSIFICATION:
    classes = tensors.get(PredictionKey.CLASSES)
    scores = tensors.get(PredictionKey.SCORES)
    if scores is None:
      scores = tensors.get(PredictionKey.PROBABILITIES)
    if classes is not None and classes.dtype != tf.string:
      classes = None
    if classes is not None or scores is not None:
      return _export.ClassificationOutput(scores=scores, classes=classes)
  if kind in (ProblemType.LINEAR_REGRESSION, ProblemType.LOGISTIC_REGRESSION):
    if len(tensors) == 1:
      return _export.RegressionOutput(next(iter(tensors.values())))
    if PredictionKey.SCORES in tensors:
      return _export.RegressionOutput(tensors[PredictionKey.SCORES])
  return _export.PredictOutput(dict(tensors))
