"""The heads of tf.contrib.learn: from logits to a loss, metrics, predictions.

Losses, the names of metrics and variables, and the keys of predictions are
those of 1.15, which are not those of tf.contrib.estimator's heads.
"""

import abc
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compat.contrib import lookup
from compat.contrib.learn import head_metrics
from compat.contrib.learn.constants import (
  MetricKey,
  ModeKeys,
  PredictionKey,
  ProblemType,
)
from compat.contrib.learn.graph_runs import no_op_train_fn
from compat.contrib.learn.model_fn import ModelFnOps

import tensorflow as tf

v1 = tf.compat.v1

# Of labels, logits and weights: the loss to train on and the one to report.
LossFn = Callable[[Any, Any, Any], tuple[Any, Any]]


class Head(abc.ABC):
  """What a model does with its logits."""

  head_name: str | None = None

  @property
  @abc.abstractmethod
  def logits_dimension(self) -> int:
    """How many logits an example has."""

  @abc.abstractmethod
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
    """Returns what a model_fn has to return.

    Args:
      features: by name; among them the weights, if the head has any.
      mode: one of ModeKeys.
      labels: a tensor, or tensors by name.
      train_op_fn: makes the train_op of the loss.
      logits: [batch, logits_dimension].
      logits_input: what logits are made of by a layer, if they are not given.
      scope: the variable scope; the name of the head by default.

    Raises:
      ValueError: if both or none of logits and logits_input are given, or an
        argument that the mode needs is not.
    """


class _SingleHead(Head):
  """A head for one label of each example."""

  _default_scope = ""
  _problem_type = ProblemType.UNSPECIFIED

  def __init__(
    self,
    logits_dimension: int,
    loss_fn: LossFn,
    label_name: str | None,
    weight_column_name: str | None,
    enable_centered_bias: bool,
    head_name: str | None,
  ):
    if logits_dimension < 1:
      raise ValueError(f"A head has {logits_dimension} logits; it needs one.")
    self._logits_dimension = logits_dimension
    self._loss_fn = loss_fn
    self.label_name = label_name
    self.weight_column_name = weight_column_name
    self._enable_centered_bias = enable_centered_bias
    self.head_name = head_name

  @property
  def logits_dimension(self) -> int:
    return self._logits_dimension

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
    with v1.variable_scope(
      scope,
      self.head_name or self._default_scope,
      [*features.values(), labels, logits, logits_input],
    ):
      logits = _logits(logits, logits_input, self.logits_dimension)
      bias = None
      if self._enable_centered_bias:
        bias = self._centered_bias()
        logits = tf.nn.bias_add(logits, bias)
      with v1.name_scope(None, "predictions"):
        predictions = self._predictions(logits)
      loss = train_op = metrics = None
      if mode != ModeKeys.INFER and labels is not None:
        labels = self._prepared(self._label(labels))
        weights = _weights(features, self.weight_column_name)
        loss, reported = self._loss(labels, logits, weights)
        with v1.name_scope(""):
          v1.summary.scalar(self._key(MetricKey.LOSS), tf.identity(reported))
        if mode == ModeKeys.TRAIN:
          if train_op_fn is None:
            raise ValueError("Give a head a train_op_fn in mode TRAIN.")
          train_op = self._train_op(
            loss, train_op_fn, bias, logits, labels, weights
          )
        with v1.name_scope("metrics"):
          metrics = {MetricKey.LOSS: v1.metrics.mean(reported)}
          metrics |= self._metrics(predictions, labels, weights)
        metrics = {self._key(name): one for name, one in metrics.items()}
      return ModelFnOps(
        mode,
        predictions,
        loss,
        train_op,
        metrics,
        {self.head_name: (self._problem_type, self._exported(predictions))},
      )

  def _key(self, name: str) -> str:
    return f"{name}/{self.head_name}" if self.head_name else name

  def _label(self, labels: Any) -> Any:
    if isinstance(labels, dict):
      labels = labels[self.label_name]
    if isinstance(labels, tf.SparseTensor):
      return labels
    return tf.convert_to_tensor(labels)

  def _prepared(self, labels: Any) -> Any:
    """Labels as the loss and the metrics take them."""
    if isinstance(labels, tf.SparseTensor):
      raise ValueError(
        f"{type(self).__name__.lstrip('_')} takes no SparseTensor of labels. "
        "Use tf.contrib.learn.multi_label_head, or dense labels."
      )
    return labels

  def _loss(self, labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
    return self._loss_fn(labels, logits, weights)

  def _predictions(self, logits: Any) -> dict[str, Any]:
    """Predictions by PredictionKey."""
    raise NotImplementedError

  def _metrics(
    self, predictions: Mapping[str, Any], labels: Any, weights: Any
  ) -> dict[str, Any]:
    """Metrics besides the loss, by MetricKey."""
    raise NotImplementedError

  def _exported(self, predictions: dict[str, Any]) -> dict[str, Any]:
    return predictions

  def _centered_bias(self) -> Any:
    # Not of get_variable, whose partitioner would make parts of it.
    bias = v1.Variable(
      tf.zeros([self.logits_dimension]), name="centered_bias_weight"
    )
    for index in range(self.logits_dimension):
      v1.summary.scalar(self._key(f"centered_bias/bias_{index}"), bias[index])
    return bias

  def _train_op(
    self,
    loss: Any,
    train_op_fn: Callable[[Any], Any],
    bias: Any,
    logits: Any,
    labels: Any,
    weights: Any,
  ) -> Any:
    """The step of the model, and the one of the bias besides it."""
    of_bias = None
    if bias is not None:
      with v1.name_scope(None, "centered_bias_step") as name:
        only_bias = tf.reshape(
          tf.tile(bias, [tf.shape(logits)[0]]), tf.shape(logits)
        )
        # 1.15 takes the mean of both losses.
        bias_loss = tf.reduce_mean(
          tf.stack(self._loss(labels, only_bias, weights))
        )
        of_bias = v1.train.AdagradOptimizer(0.1).minimize(
          bias_loss, var_list=[bias], name=name
        )
    with v1.name_scope(None, "train_op"):
      train_op = train_op_fn(loss)
      return train_op if of_bias is None else tf.group(train_op, of_bias)


class _RegressionHead(_SingleHead):
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


class _BinarySvmHead(_SingleHead):
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


class _ClassificationHead(_SingleHead):
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
    _of_columns(tf.math.squared_difference),
    label_name,
    weight_column_name,
    enable_centered_bias,
    head_name,
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
    _of_columns(
      lambda logits, labels: tf.nn.log_poisson_loss(labels, logits, True)
    ),
    label_name,
    weight_column_name,
    enable_centered_bias,
    head_name,
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
  default_loss: LossFn = _softmax_loss
  if n_classes == 2:
    for name, value in (
      ("metric_class_ids", metric_class_ids),
      ("label_keys", label_keys),
    ):
      if value:
        raise ValueError(f"{name}={value} needs 3 classes, or more.")
    kind, logits_dimension = _BinaryLogisticHead, 1
    default_loss = _of_columns(_sigmoid)
  return kind(
    thresholds,
    metric_class_ids,
    label_keys,
    logits_dimension,
    _of_users(loss_fn) or default_loss,
    label_name,
    weight_column_name,
    enable_centered_bias,
    head_name,
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
    _hinge_loss,
    label_name,
    weight_column_name,
    enable_centered_bias,
    head_name,
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
    _of_users(loss_fn)
    or (lambda *args: _weighted(_sigmoid(args[1], args[0]), args[2])),
    label_name,
    weight_column_name,
    enable_centered_bias,
    head_name,
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


def _logits(logits: Any, logits_input: Any, dimension: int) -> Any:
  if (logits is None) == (logits_input is None):
    raise ValueError("Give a head logits or logits_input, and not both.")
  if logits is None:
    from compat.contrib import layers

    return layers.linear(logits_input, dimension, scope="logits")
  logits = tf.convert_to_tensor(logits)
  logits.shape[-1:].assert_is_compatible_with([dimension])
  return logits


def _weights(features: Mapping[str, Any], name: str | None) -> Any:
  if not name:
    return None
  if name not in features:
    raise ValueError(
      f"weight_column_name={name!r} is no feature; there are "
      f"{', '.join(map(str, features))}."
    )
  weights = tf.cast(features[name], tf.float32)
  return tf.reshape(weights, [-1, 1]) if weights.shape.rank == 1 else weights


def _weighted(losses: Any, weights: Any) -> tuple[Any, Any]:
  """The mean of losses that are weighted, and their weighted mean."""
  if weights is None:
    mean = tf.reduce_mean(losses)
    return mean, mean
  weighted = v1.losses.compute_weighted_loss(
    losses, weights, loss_collection=None, reduction="none"
  )
  total = tf.reduce_sum(weights * tf.ones_like(losses))
  return tf.reduce_mean(weighted), tf.reduce_sum(weighted) / total


def _of_columns(function: Callable[[Any, Any], Any]) -> LossFn:
  """A loss of each logit and its label, which may be [batch] of one each."""

  def loss_fn(labels: Any, logits: Any, weights: Any = None) -> tuple[Any, Any]:
    labels = tf.cast(labels, tf.float32)
    if labels.shape.rank == 1:
      labels = tf.expand_dims(labels, 1)
    logits.shape.assert_is_compatible_with(labels.shape)
    return _weighted(function(logits, labels), weights)

  return loss_fn


def _sigmoid(logits: Any, labels: Any) -> Any:
  return tf.nn.sigmoid_cross_entropy_with_logits(
    labels=tf.cast(labels, tf.float32), logits=logits
  )


def _softmax_loss(labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
  if not labels.dtype.is_integer:
    raise ValueError(
      f"Labels are {labels.dtype.name}; multi_class_head needs integers, or "
      "label_keys for names."
    )
  is_column = labels.shape.rank == 2
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=tf.squeeze(labels, [1]) if is_column else labels, logits=logits
  )
  return _weighted(tf.expand_dims(losses, 1) if is_column else losses, weights)


def _hinge_loss(labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
  losses = v1.losses.hinge_loss(
    tf.reshape(labels, [-1, 1]), logits, reduction="none", loss_collection=None
  )
  return _weighted(losses, weights)


def _of_users(function: Callable[..., Any] | None) -> LossFn | None:
  """A loss_fn of a program, whose one loss is trained on and reported."""
  if function is None:
    return None
  names = inspect.signature(function).parameters
  for name in ("labels", "logits", "weights"):
    if name not in names:
      raise ValueError(
        f"loss_fn {function} takes {list(names)}; it has to take labels, "
        "logits and weights."
      )

  def loss_fn(labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
    given = () if weights is None else (weights,)
    loss = function(labels, logits, *given)
    return loss, loss

  return loss_fn


def _of_two_classes(logits: Any) -> Any:
  return tf.concat([tf.zeros_like(logits), logits], 1)
