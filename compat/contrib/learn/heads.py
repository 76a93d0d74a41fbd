"""The heads of tf.contrib.learn: for numbers, classes, labels, and several."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compat.contrib import lookup
from compat.contrib.learn import head_losses, head_metrics
from compat.contrib.learn.constants import (
  ModeKeys,
  PredictionKey,
  ProblemType,
)
from compat.contrib.learn.graph_runs import no_op_train_fn
from compat.contrib.learn.head_base import Head, Options, SingleHead
from compat.contrib.learn.model_fn import ModelFnOps

import tensorflow as tf


class _RegressionHead(SingleHead):
  """A head for numbers."""

  _default_scope = "regression_head"
  _problem_type = ProblemType.LINEAR_REGRESSION

  def __init__(self, link_fn: Callable[[Any], Any], *args: Any):
    super().__init__(*args)
    self._link_fn = link_fn

  def _predictions(self, logits: Any) -> dict[str, Any]:
    if self.logits_dimension == 1:
      logits = tf.squeeze(logits, [1])
    return {PredictionKey.SCORES: self._link_fn(logits)}

  def _metrics(
    self, predictions: Mapping[str, Any], labels: Any, weights: Any
  ) -> dict[str, Any]:
    return {}


class _BinarySvmHead(SingleHead):
  """A head for one of two classes, with a margin."""

  _default_scope = "binary_svm_head"
  _problem_type = ProblemType.LOGISTIC_REGRESSION

  def _predictions(self, logits: Any) -> dict[str, Any]:
    return {
      PredictionKey.LOGITS: logits,
      PredictionKey.CLASSES: tf.argmax(_of_two_classes(logits), 1),
    }

  def _metrics(
    self, predictions: Mapping[str, Any], labels: Any, weights: Any
  ) -> dict[str, Any]:
    return head_metrics.accuracy(predictions, labels, weights)


class _ClassificationHead(SingleHead):
  """A head with probabilities of classes."""

  _problem_type = ProblemType.CLASSIFICATION

  def __init__(
    self,
    thresholds: Sequence[float] | None,
    metric_class_ids: Sequence[int] | None,
    label_keys: Sequence[str] | None,
    *args: Any,
  ):
    super().__init__(*args)
    self._thresholds = thresholds or (0.5,)
    self._metric_class_ids = metric_class_ids or ()
    self._label_keys = label_keys
    for one in self._metric_class_ids:
      if not 0 <= one < self.logits_dimension:
        raise ValueError(
          f"metric_class_ids={list(self._metric_class_ids)} has {one}; there "
          f"are classes 0 to {self.logits_dimension - 1}."
        )
    if label_keys and len(label_keys) != self.logits_dimension:
      raise ValueError(
        f"label_keys has {len(label_keys)} names for {self.logits_dimension} "
        "classes; give each class one."
      )

  def _exported(self, predictions: dict[str, Any]) -> dict[str, Any]:
    probabilities = predictions[PredictionKey.PROBABILITIES]
    names = self._label_keys or tf.as_string(
      tf.range(tf.shape(probabilities)[1])
    )
    classes = tf.tile(tf.expand_dims(names, 0), [tf.shape(probabilities)[0], 1])
    return {
      PredictionKey.PROBABILITIES: probabilities,
      PredictionKey.CLASSES: classes,
    }


class _BinaryLogisticHead(_ClassificationHead):
  """A head for one of two classes."""

  _default_scope = "binary_logistic_head"
  _problem_type = ProblemType.LOGISTIC_REGRESSION

  def _predictions(self, logits: Any) -> dict[str, Any]:
    both = _of_two_classes(logits)
    return {
      PredictionKey.LOGITS: logits,
      PredictionKey.LOGISTIC: tf.sigmoid(logits),
      PredictionKey.PROBABILITIES: tf.nn.softmax(both),
      PredictionKey.CLASSES: tf.argmax(both, 1),
    }

  def _metrics(
    self, predictions: Mapping[str, Any], labels: Any, weights: Any
  ) -> dict[str, Any]:
    return head_metrics.of_two_classes(
      predictions, labels, weights, self._thresholds
    )


class _MultiClassHead(_ClassificationHead):
  """A head for one of several classes; labels are (given, ids)."""

  _default_scope = "multi_class_head"

  def _prepared(self, labels: Any) -> Any:
    labels = ids = super()._prepared(labels)
    if self._label_keys:
      ids = lookup.index_table_from_tensor(
        self._label_keys, name="label_id_lookup"
      ).lookup(labels)
    return labels, ids

  def _loss(self, labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
    return super()._loss(labels[1], logits, weights)

  def _predictions(self, logits: Any) -> dict[str, Any]:
    classes = tf.argmax(logits, 1)
    if self._label_keys:
      classes = lookup.index_to_string_table_from_tensor(
        self._label_keys, name="class_string_lookup"
      ).lookup(classes)
    return {
      PredictionKey.LOGITS: logits,
      PredictionKey.PROBABILITIES: tf.nn.softmax(logits),
      PredictionKey.CLASSES: classes,
    }

  def _metrics(
    self, predictions: Mapping[str, Any], labels: Any, weights: Any
  ) -> dict[str, Any]:
    given, ids = labels
    found = head_metrics.accuracy(predictions, given, weights)
    for one in () if self._label_keys else self._metric_class_ids:
      found |= head_metrics.of_a_class(predictions, ids, weights, one)
    return found


class _MultiLabelHead(_ClassificationHead):
  """A head for classes of which an example has any number."""

  _default_scope = "multi_label_head"

  def _prepared(self, labels: Any) -> Any:
    if isinstance(labels, tf.SparseTensor):
      return tf.cast(
        tf.sparse.to_indicator(labels, self.logits_dimension), tf.int64
      )
    return labels

  def _predictions(self, logits: Any) -> dict[str, Any]:
    return {
      PredictionKey.LOGITS: logits,
      PredictionKey.PROBABILITIES: tf.sigmoid(logits),
      PredictionKey.CLASSES: tf.cast(logits > 0, tf.int64),
    }

  def _metrics(
    self, predictions: Mapping[str, Any], labels: Any, weights: Any
  ) -> dict[str, Any]:
    return head_metrics.of_several_labels(
      predictions, labels, weights, self._metric_class_ids
    )


class _MultiHead(Head):
  """Heads that share logits, or the layer that logits are made of."""

  def __init__(
    self, heads: Sequence[Head], loss_weights: Sequence[float] | None
  ):
    if not all(head.head_name for head in heads):
      raise ValueError("Give each head of multi_head a head_name.")
    if loss_weights and len(loss_weights) != len(heads):
      raise ValueError(
        f"loss_weights has {len(loss_weights)} weights for {len(heads)} heads; "
        "give each head one."
      )
    self._heads = heads
    self._loss_weights = loss_weights or [1.0] * len(heads)

  @property
  def logits_dimension(self) -> int:
    return sum(head.logits_dimension for head in self._heads)

  def create_model_fn_ops(
    self,
    features: Mapping[str, Any],
    mode: str,
    labels: Any = None,
    train_op_fn: Callable[[Any], Any] | None = None,
    logits: Any = None,
    logits_input: Any = None,
    scope: Any = None,
  ) -> ModelFnOps:
    ModeKeys.validate(mode)
    of_heads = {
      str(head.head_name): head.create_model_fn_ops(
        features, mode, labels, no_op_train_fn, one, logits_input, scope
      )
      for head, one in zip(self._heads, self._split(logits), strict=True)
    }
    predictions = {
      (name, key): one
      for name, ops in of_heads.items()
      for key, one in ops.predictions.items()
    }
    if mode == ModeKeys.INFER:
      alternatives = {
        key: one
        for ops in of_heads.values()
        for key, one in ops.output_alternatives.items()
      }
      return ModelFnOps(mode, predictions, output_alternatives=alternatives)
    loss = tf.add_n(
      [
        ops.loss * weight
        for ops, weight in zip(
          of_heads.values(), self._loss_weights, strict=True
        )
      ]
    )
    metrics = {
      key: one
      for ops in of_heads.values()
      for key, one in ops.eval_metric_ops.items()
    }
    if mode == ModeKeys.EVAL:
      return ModelFnOps(mode, predictions, loss, eval_metric_ops=metrics)
    if train_op_fn is None:
      raise ValueError("Give a head a train_op_fn in mode TRAIN.")
    train_op = tf.group(
      train_op_fn(loss), *(ops.train_op for ops in of_heads.values())
    )
    return ModelFnOps(mode, None, loss, train_op, eval_metric_ops=metrics)

  def _split(self, logits: Any) -> list[Any]:
    """The logits of each head."""
    if logits is None:
      return [None] * len(self._heads)
    if isinstance(logits, dict):
      return [logits[head.head_name] for head in self._heads]
    sizes = [head.logits_dimension for head in self._heads]
    return list(tf.split(logits, sizes, axis=1))


def regression_head(
  label_name: str | None = None,
  weight_column_name: str | None = None,
  label_dimension: int = 1,
  enable_centered_bias: bool = False,
  head_name: str | None = None,
  link_fn: Callable[[Any], Any] | None = None,
) -> Head:
  """Returns a head for numbers, with the mean squared error.

  Args:
    label_name: of the label, where labels are tensors by name.
    weight_column_name: the feature with the examples' weights.
    label_dimension: how many numbers an example has.
    enable_centered_bias: whether a bias of its own is trained besides.
    head_name: of the head; ends the names of its metrics.
    link_fn: makes predictions of logits.
  """
  return _RegressionHead(
    link_fn or tf.identity,
    label_dimension,
    head_losses.squared,
    Options(label_name, weight_column_name, enable_centered_bias, head_name),
  )


def poisson_regression_head(
  label_name: str | None = None,
  weight_column_name: str | None = None,
  label_dimension: int = 1,
  enable_centered_bias: bool = False,
  head_name: str | None = None,
) -> Head:
  """Returns a head for counts, whose logarithms the logits are.

  Args:
    label_name: of the label, where labels are tensors by name.
    weight_column_name: the feature with the examples' weights.
    label_dimension: how many counts an example has.
    enable_centered_bias: whether a bias of its own is trained besides.
    head_name: of the head; ends the names of its metrics.
  """
  return _RegressionHead(
    tf.exp,
    label_dimension,
    head_losses.poisson,
    Options(label_name, weight_column_name, enable_centered_bias, head_name),
  )


def multi_class_head(
  n_classes: int,
  label_name: str | None = None,
  weight_column_name: str | None = None,
  enable_centered_bias: bool = False,
  head_name: str | None = None,
  thresholds: Sequence[float] | None = None,
  metric_class_ids: Sequence[int] | None = None,
  loss_fn: Callable[..., Any] | None = None,
  label_keys: Sequence[str] | None = None,
) -> Head:
  """Returns a head for one of two classes, or one of several.

  Args:
    n_classes: how many classes; of two there is one logit.
    label_name: of the label, where labels are tensors by name.
    weight_column_name: the feature with the examples' weights.
    enable_centered_bias: whether a bias of its own is trained besides.
    head_name: of the head; ends the names of its metrics.
    thresholds: of probabilities, for metrics of two classes.
    metric_class_ids: the classes that have metrics of their own.
    loss_fn: of labels, logits and weights, in the place of the cross entropy.
    label_keys: the classes' names, if labels are strings.

  Raises:
    ValueError: if there are fewer than two classes, an argument is for more
      than two, names do not fit, or loss_fn takes other arguments.
  """
  if n_classes is None or n_classes < 2:
    raise ValueError(f"n_classes={n_classes} must be 2 or more.")
  kind: type[_ClassificationHead] = _MultiClassHead
  logits_dimension = n_classes
  default_loss: head_losses.LossFn = head_losses.softmax
  if n_classes == 2:
    for name, value in (
      ("metric_class_ids", metric_class_ids),
      ("label_keys", label_keys),
    ):
      if value:
        raise ValueError(f"{name}={value} needs 3 classes, or more.")
    kind, logits_dimension = _BinaryLogisticHead, 1
    default_loss = head_losses.sigmoid
  return kind(
    thresholds,
    metric_class_ids,
    label_keys,
    logits_dimension,
    head_losses.of_users(loss_fn) or default_loss,
    Options(label_name, weight_column_name, enable_centered_bias, head_name),
  )


def binary_svm_head(
  label_name: str | None = None,
  weight_column_name: str | None = None,
  enable_centered_bias: bool = False,
  head_name: str | None = None,
  thresholds: Sequence[float] | None = None,
) -> Head:
  """Returns a head for one of two classes, with the hinge loss.

  Args:
    label_name: of the label, where labels are tensors by name.
    weight_column_name: the feature with the examples' weights.
    enable_centered_bias: whether a bias of its own is trained besides.
    head_name: of the head; ends the names of its metrics.
    thresholds: no metric has one.
  """
  del thresholds
  return _BinarySvmHead(
    1,
    head_losses.hinge,
    Options(label_name, weight_column_name, enable_centered_bias, head_name),
  )


def multi_label_head(
  n_classes: int,
  label_name: str | None = None,
  weight_column_name: str | None = None,
  enable_centered_bias: bool = False,
  head_name: str | None = None,
  thresholds: Sequence[float] | None = None,
  metric_class_ids: Sequence[int] | None = None,
  loss_fn: Callable[..., Any] | None = None,
) -> Head:
  """Returns a head for classes of which an example has any number.

  Args:
    n_classes: how many classes.
    label_name: of the label, where labels are tensors by name; labels are
      [batch, n_classes] of zeros and ones, or a SparseTensor of ids.
    weight_column_name: the feature with the examples' weights.
    enable_centered_bias: whether a bias of its own is trained besides.
    head_name: of the head; ends the names of its metrics.
    thresholds: no metric has one.
    metric_class_ids: the classes that have metrics of their own.
    loss_fn: of labels, logits and weights, in the place of the cross entropy.

  Raises:
    ValueError: if there are fewer than two classes, or loss_fn takes other
      arguments.
  """
  if n_classes < 2:
    raise ValueError(f"n_classes={n_classes} must be 2 or more.")
  return _MultiLabelHead(
    thresholds,
    metric_class_ids,
    None,
    n_classes,
    head_losses.of_users(loss_fn) or head_losses.sigmoid,
    Options(label_name, weight_column_name, enable_centered_bias, head_name),
  )


def multi_head(
  heads: Sequence[Head], loss_weights: Sequence[float] | None = None
) -> Head:
  """Returns a head of several, each with a head_name.

  Its predictions are under (head_name, key).

  Args:
    heads: the heads.
    loss_weights: of their losses in the sum that is trained on.

  Raises:
    ValueError: if a head has no name, or the weights are not one for each.
  """
  return _MultiHead(heads, loss_weights)


def _of_two_classes(logits: Any) -> Any:
  return tf.concat([tf.zeros_like(logits), logits], 1)
