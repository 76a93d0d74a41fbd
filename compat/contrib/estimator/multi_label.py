"""A head for several labels of each example."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compat.private import wheel_names

import tensorflow as tf

_export = tf.compat.v1.estimator.export
_Reduction = tf.compat.v1.losses.Reduction
_Modes = tf.compat.v1.estimator.ModeKeys


def multi_label_head(
  n_classes: int,
  weight_column: Any = None,
  thresholds: Sequence[float] | None = None,
  label_vocabulary: Sequence[str] | None = None,
  loss_reduction: str = _Reduction.SUM_OVER_BATCH_SIZE,
  loss_fn: Callable[..., Any] | None = None,
  classes_for_class_based_metrics: Sequence[int | str] | None = None,
  name: str | None = None,
) -> Any:
  """Returns a head for any number of classes at once, with sigmoids.

  Labels are [examples, n_classes] of zeros and ones, or a SparseTensor of the
  numbers, or with label_vocabulary of the names, of each example's classes.

  Args:
    n_classes: how many classes.
    weight_column: the examples' weights: a column, or the feature's name.
    thresholds: of probabilities, for metrics.
    label_vocabulary: the classes' names, if labels are strings.
    loss_reduction: a tf.losses.Reduction.
    loss_fn: of labels and logits, in the place of the mean cross entropy.
    classes_for_class_based_metrics: numbers or names of classes that get
      metrics of their own.
    name: of the head.

  Raises:
    ValueError: if a value is out of range.
  """
  if n_classes is None or n_classes < 2:
    raise ValueError(f"n_classes={n_classes} must be 2 or more.")
  for threshold in thresholds or ():
    if not 0.0 < threshold < 1.0:
      raise ValueError(f"thresholds has {threshold}; it must be in (0, 1).")
  if label_vocabulary is not None and len(label_vocabulary) != n_classes:
    raise ValueError(
      f"label_vocabulary has {len(label_vocabulary)} names, for "
      f"n_classes={n_classes}."
    )
  if loss_fn:
    wheel_names.validate_loss_fn(loss_fn)
  if (
    loss_reduction not in _Reduction.all() or loss_reduction == _Reduction.NONE
  ):
    raise ValueError(f"loss_reduction={loss_reduction!r} must reduce the loss.")
  classes = [
    label_vocabulary.index(one)
    if label_vocabulary and isinstance(one, str)
    else one
    for one in classes_for_class_based_metrics or ()
  ]
  for one in classes:
    if not (isinstance(one, int) and 0 <= one < n_classes):
      raise ValueError(
        f"classes_for_class_based_metrics has {one!r}; it must be from 0 to "
        f"{n_classes - 1}."
      )
  return _MultiLabelHead(
    n_classes,
    weight_column,
    tuple(thresholds or ()),
    label_vocabulary,
    loss_reduction,
    loss_fn,
    classes,
    name,
  )


class _MultiLabelHead(wheel_names.Head):
  """The head that multi_label_head returns."""

  def __init__(
    self,
    n_classes: int,
    weight_column: Any,
    thresholds: tuple[float, ...],
    vocabulary: Sequence[str] | None,
    reduction: str,
    loss_fn: Callable[..., Any] | None,
    classes: Sequence[Any],
    name: str | None,
  ):
    self._n_classes = n_classes
    self._weight_column = weight_column
    self._thresholds = thresholds
    self._vocabulary = vocabulary
    self._reduction = reduction
    self._loss_fn = loss_fn
    self._classes = classes
    self._name = name

  @property
  def name(self) -> str | None:
    return self._name

  @property
  def logits_dimension(self) -> int:
    return self._n_classes

  def _indicators(self, labels: Any) -> Any:
    """Labels as zeros and ones, [examples, n_classes]."""
    if isinstance(labels, tf.SparseTensor):
      if labels.dtype == tf.string:
        table = tf.lookup.StaticVocabularyTable(
          tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(self._vocabulary or ())),
            tf.range(self._n_classes, dtype=tf.int64),
          ),
          num_oov_buckets=1,
        )
        labels = tf.SparseTensor(
          labels.indices, table.lookup(labels.values), labels.dense_shape
        )
      marks = tf.sparse.to_indicator(labels, self._n_classes)
      return tf.cast(marks, tf.int64)
    labels = tf.convert_to_tensor(labels)
    message = "labels must be zeros and ones for each class."
    checks = [
      tf.compat.v1.assert_less_equal(
        labels, tf.ones([], labels.dtype), None, message=message
      ),
      tf.compat.v1.assert_non_negative(labels, message=message),
    ]
    with tf.control_dependencies(checks):
      return tf.identity(labels)

  def create_loss(
    self, features: Any, mode: str, logits: Any, labels: Any
  ) -> Any:
    del mode
    logits = tf.convert_to_tensor(logits)
    labels = wheel_names.checked_labels(
      labels=self._indicators(labels),
      logits=logits,
      expected_labels_dimension=self._n_classes,
    )
    if self._loss_fn:
      each = wheel_names.call_loss_fn(
        self._loss_fn, labels, logits, features, expected_loss_dim=1
      )
    else:
      entropy = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(labels, tf.float32), logits=logits
      )
      each = tf.reduce_mean(entropy, axis=-1, keepdims=True)
    weights = wheel_names.weights_of(
      features=features, weight_column=self._weight_column, logits=logits
    )
    loss = tf.compat.v1.losses.compute_weighted_loss(
      each, weights=weights, reduction=self._reduction
    )
    return wheel_names.LossSpec(
      training_loss=loss,
      unreduced_loss=each,
      weights=weights,
      processed_labels=labels,
    )

  def create_estimator_spec(
    self,
    features: Any,
    mode: str,
    logits: Any,
    labels: Any = None,
    optimizer: Any = None,
    train_op_fn: Callable[[Any], Any] | None = None,
    regularization_losses: Sequence[Any] | None = None,
  ) -> Any:
    with tf.compat.v1.name_scope(self._name, "head"):
      logits = wheel_names.checked_logits(logits, self.logits_dimension)
      with tf.compat.v1.name_scope(None, "predictions", (logits,)):
        chances = tf.sigmoid(logits, name="probabilities")
      predictions = {"logits": logits, "probabilities": chances}
      if mode == _Modes.PREDICT:
        return self._predict_spec(predictions)
      loss = self.create_loss(features, mode, logits, labels)
      total = loss.training_loss
      if regularization_losses:
        penalty = tf.add_n(regularization_losses)
        total = tf.add_n([total, penalty])
      else:
        penalty = None
      if mode == _Modes.EVAL:
        return tf.compat.v1.estimator.EstimatorSpec(
          mode=mode,
          predictions=predictions,
          loss=total,
          eval_metric_ops=self._metrics(chances, loss, penalty),
        )
      train_op = _with_updates(step_of(total, optimizer, train_op_fn))
    self._summarize(total, loss, penalty)
    return tf.compat.v1.estimator.EstimatorSpec(
      mode=mode, predictions=predictions, loss=total, train_op=train_op
    )

  def _predict_spec(self, predictions: Mapping[str, Any]) -> Any:
    classified = wheel_names.classification_output(
      scores=predictions["probabilities"],
      n_classes=self._n_classes,
      label_vocabulary=self._vocabulary,
    )
    return tf.compat.v1.estimator.EstimatorSpec(
      mode=_Modes.PREDICT,
      predictions=dict(predictions),
      export_outputs={
        tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: classified,
        "classification": classified,
        "predict": _export.PredictOutput(dict(predictions)),
      },
    )

  def _key(self, name: str) -> str:
    return f"{name}/{self._name}" if self._name else name

  def _summarize(self, total: Any, loss: Any, penalty: Any) -> None:
    with tf.compat.v1.name_scope(""):
      given = total if self._reduction != _Reduction.SUM else None
      tf.compat.v1.summary.scalar(self._key("loss"), total)
      if given is None and loss.unreduced_loss is not None:
        mean = tf.compat.v1.losses.compute_weighted_loss(
          loss.unreduced_loss, loss.weights, reduction=_Reduction.MEAN
        )
        tf.compat.v1.summary.scalar(self._key("average_loss"), mean)
      if penalty is not None:
        tf.compat.v1.summary.scalar(self._key("loss/regularization"), penalty)

  def _class_name(self, index: int) -> str:
    if self._vocabulary:
      return self._vocabulary[index]
    return f"class{index}"

  def _metrics(self, chances: Any, loss: Any, penalty: Any) -> dict[str, Any]:
    """The metrics of labels, by name."""
    labels, weights = loss.processed_labels, loss.weights
    given = dict(labels=labels, predictions=chances, weights=weights)
    with tf.compat.v1.name_scope(None, "metrics"):
      found: dict[str, Any] = {
        "average_loss": tf.compat.v1.metrics.mean(
          values=loss.unreduced_loss, weights=weights
        ),
        "auc": wheel_names.auc(**given),
        "auc_precision_recall": wheel_names.auc(**given, curve="PR"),
      }
      if penalty is not None:
        found["regularization_loss"] = tf.compat.v1.metrics.mean(penalty)
      for threshold in self._thresholds:
        for kind, metric in wheel_names.metrics_at_threshold.items():
          key = f"{kind}/positive_threshold_{threshold:g}"
          found[key] = metric(**given, threshold=threshold)
      for index in self._classes:
        column = dict(
          labels=labels[:, index : index + 1],
          predictions=chances[:, index : index + 1],
          weights=weights,
        )
        name = self._class_name(index)
        found[f"probability_mean/{name}"] = wheel_names.predictions_mean(
          predictions=column["predictions"], weights=weights
        )
        found[f"auc/{name}"] = wheel_names.auc(**column)
        found[f"auc_precision_recall/{name}"] = wheel_names.auc(
          **column, curve="PR"
        )
    return {self._key(name): metric for name, metric in found.items()}


def step_of(
  loss: Any, optimizer: Any, train_op_fn: Callable[[Any], Any] | None
) -> Any:
  """Returns what makes one step.

  Args:
    loss: to minimize.
    optimizer: minimizes it; or
    train_op_fn: returns the op of a loss.

  Raises:
    ValueError: unless one of the two is given.
  """
  if (optimizer is None) == (train_op_fn is None):
    raise ValueError("Give the head one of optimizer and train_op_fn.")
  if optimizer is not None:
    step = tf.compat.v1.train.get_global_step()
    return optimizer.minimize(loss, global_step=step)
  assert train_op_fn is not None
  return train_op_fn(loss)


def _with_updates(train_op: Any) -> Any:
  """Returns the op and the updates that layers ask for."""
  updates = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
  return tf.group(train_op, *updates) if updates else train_op
