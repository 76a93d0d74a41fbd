"""What all heads of tf.contrib.learn share: a model's last part.

Losses, the names of metrics and variables, and the keys of predictions are
those of 1.15, which are not those of tf.contrib.estimator's heads.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from compat.contrib.learn import head_losses
from compat.contrib.learn.constants import MetricKey, ModeKeys, ProblemType
from compat.contrib.learn.model_fn import ModelFnOps

import tensorflow as tf

v1 = tf.compat.v1


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


@dataclasses.dataclass(frozen=True)
class Options:
  """What all heads for one label have.

  Attributes:
    label_name: of the label, where labels are tensors by name.
    weight_column_name: the feature with the examples' weights.
    enable_centered_bias: whether a bias of its own is trained besides.
    head_name: ends the names of metrics, and is the variable scope.
  """

  label_name: str | None
  weight_column_name: str | None
  enable_centered_bias: bool
  head_name: str | None


class SingleHead(Head):
  """A head for one label of each example."""

  _default_scope = ""
  _problem_type = ProblemType.UNSPECIFIED

  def __init__(
    self,
    logits_dimension: int,
    loss_fn: head_losses.LossFn,
    options: Options,
  ):
    if logits_dimension < 1:
      raise ValueError(f"A head has {logits_dimension} logits; it needs one.")
    self._logits_dimension = logits_dimension
    self._loss_fn = loss_fn
    self._options = options
    self.head_name = options.head_name

  @property
  def logits_dimension(self) -> int:
    """How many logits an example has."""
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
    """Returns what a model_fn has to return; see Head."""
    ModeKeys.validate(mode)
    with v1.variable_scope(
      scope,
      self.head_name or self._default_scope,
      [*features.values(), labels, logits, logits_input],
    ):
      logits = _logits(logits, logits_input, self.logits_dimension)
      bias = None
      if self._options.enable_centered_bias:
        bias = self._centered_bias()
        logits = tf.nn.bias_add(logits, bias)
      with v1.name_scope(None, "predictions"):
        predictions = self._predictions(logits)
      loss = train_op = metrics = None
      if mode != ModeKeys.INFER and labels is not None:
        labels = self._prepared(self._label(labels))
        weights = _weights(features, self._options.weight_column_name)
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
      labels = labels[self._options.label_name]
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
