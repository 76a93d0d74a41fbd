"""tf.contrib.learn's linear models of feature columns.

Of tf.contrib.linear_optimizer, whose SDCAOptimizer they took as well, there is
nothing left: tf.compat.v1.estimator.experimental.LinearSDCA took its place.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from compat.contrib import layers
from compat.contrib.learn import heads
from compat.contrib.learn.canned import (
  MIN_SLICE_SIZE,
  Classifier,
  FeatureEngineeringFn,
  Optimizer,
  Regressor,
  are_of_contrib,
  features_by_name,
  made,
  partitioner,
)
from compat.contrib.learn.estimator import Estimator
from compat.contrib.learn.head_base import Head

import tensorflow as tf

v1 = tf.compat.v1

SCOPE = "linear"
_LEARNING_RATE = 0.2


def learning_rate(columns: Sequence[Any]) -> float:
  """Returns the learning rate of Ftrl for so many columns."""
  return min(_LEARNING_RATE, 1.0 / math.sqrt(len(columns)))


def variable_scope(config: Any) -> Any:
  """Returns the variable scope of a linear model.

  Args:
    config: a RunConfig, or None.
  """
  return v1.variable_scope(
    SCOPE, partitioner=partitioner(config, MIN_SLICE_SIZE)
  )


def logits_of(
  features: Mapping[str, Any],
  columns: Sequence[Any],
  dimension: int,
  joint: bool,
  scope: Any,
) -> Any:
  """Returns the logits of a linear model, [batch, dimension].

  Args:
    features: by name.
    columns: what it is made of.
    dimension: how many logits.
    joint: whether all weights are one variable.
    scope: of `variable_scope`.
  """
  if not are_of_contrib(columns):
    return v1.feature_column.linear_model(
      features, columns, units=dimension, weight_collections=[SCOPE]
    )
  weighted_sum = (
    layers.joint_weighted_sum_from_feature_columns
    if joint
    else layers.weighted_sum_from_feature_columns
  )
  logits, _, _ = weighted_sum(
    features,
    columns,
    num_outputs=dimension,
    weight_collections=[SCOPE],
    scope=scope,
  )
  return logits


def _optimizer(given: Optimizer, columns: Sequence[Any]) -> Any:
  if isinstance(given, str):
    return layers.OPTIMIZER_CLS_NAMES[given](learning_rate=_LEARNING_RATE)
  return made(given) or v1.train.FtrlOptimizer(learning_rate(columns))


def _model_fn(
  features: Any, labels: Any, mode: str, params: Any, config: Any = None
) -> Any:
  features = features_by_name(features)
  head, columns = params["head"], params["feature_columns"]

  def train_op_fn(loss: Any) -> Any:
    variables = v1.get_collection(SCOPE)
    gradients = tf.gradients(loss, variables)
    if params["gradient_clip_norm"]:
      gradients, _ = tf.clip_by_global_norm(
        gradients, params["gradient_clip_norm"]
      )
    return _optimizer(params["optimizer"], columns).apply_gradients(
      zip(gradients, variables, strict=True), v1.train.get_global_step()
    )

  with variable_scope(config) as scope:
    logits = logits_of(
      features, columns, head.logits_dimension, params["joint_weights"], scope
    )
    return head.create_model_fn_ops(features, mode, labels, train_op_fn, logits)


class LinearEstimator(Estimator):
  """A linear model with a head that is given."""

  def __init__(
    self,
    feature_columns: Sequence[Any],
    head: Head,
    model_dir: str | None = None,
    weight_column_name: str | None = None,
    optimizer: Optimizer = None,
    gradient_clip_norm: float | None = None,
    _joint_weights: bool = False,
    config: Any = None,
    feature_engineering_fn: FeatureEngineeringFn | None = None,
  ):
    """Makes the model.

    Args:
      feature_columns: what it is made of; of tf.contrib.layers, or all of
        tf.feature_column.
      head: what it does with its logits.
      model_dir: where its checkpoints are; a new folder by default.
      weight_column_name: not used; the head has it.
      optimizer: an Optimizer, its name, or a function that makes it; Ftrl by
        default.
      gradient_clip_norm: the greatest norm of all gradients together.
      _joint_weights: whether all weights are one variable.
      config: a RunConfig.
      feature_engineering_fn: changes (features, labels) before.

    Raises:
      ValueError: if there are no columns.
    """
    del weight_column_name
    self._feature_columns = tuple(feature_columns or ())
    if not self._feature_columns:
      raise ValueError(
        f"feature_columns={feature_columns!r} is empty; give one, or more."
      )
    super().__init__(
      _model_fn,
      model_dir,
      config,
      {
        "head": head,
        "feature_columns": self._feature_columns,
        "optimizer": optimizer,
        "gradient_clip_norm": gradient_clip_norm,
        "joint_weights": _joint_weights,
      },
      feature_engineering_fn,
    )


class LinearClassifier(Classifier, LinearEstimator):
  """A linear model for classes."""

  def __init__(
    self,
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    n_classes: int = 2,
    weight_column_name: str | None = None,
    optimizer: Optimizer = None,
    gradient_clip_norm: float | None = None,
    enable_centered_bias: bool = False,
    _joint_weight: bool = False,
    config: Any = None,
    feature_engineering_fn: FeatureEngineeringFn | None = None,
    label_keys: Sequence[str] | None = None,
  ):
    """Makes the model; other arguments are those of LinearEstimator.

    Args:
      feature_columns: what it is made of.
      model_dir: where its checkpoints are.
      n_classes: how many classes.
      weight_column_name: the feature with the examples' weights.
      optimizer: see there.
      gradient_clip_norm: see there.
      enable_centered_bias: whether a bias of its own is trained besides.
      _joint_weight: see there.
      config: a RunConfig.
      feature_engineering_fn: see there.
      label_keys: the classes' names, if labels are strings.

    Raises:
      ValueError: as multi_class_head, or if there are no columns.
    """
    LinearEstimator.__init__(
      self,
      feature_columns,
      heads.multi_class_head(
        n_classes,
        weight_column_name=weight_column_name,
        enable_centered_bias=enable_centered_bias,
        label_keys=label_keys,
      ),
      model_dir,
      None,
      optimizer,
      gradient_clip_norm,
      _joint_weight,
      config,
      feature_engineering_fn,
    )


class LinearRegressor(Regressor, LinearEstimator):
  """A linear model for numbers."""

  def __init__(
    self,
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    weight_column_name: str | None = None,
    optimizer: Optimizer = None,
    gradient_clip_norm: float | None = None,
    enable_centered_bias: bool = False,
    label_dimension: int = 1,
    _joint_weights: bool = False,
    config: Any = None,
    feature_engineering_fn: FeatureEngineeringFn | None = None,
  ):
    """Makes the model; other arguments are those of LinearEstimator.

    Args:
      feature_columns: what it is made of.
      model_dir: where its checkpoints are.
      weight_column_name: the feature with the examples' weights.
      optimizer: see there.
      gradient_clip_norm: see there.
      enable_centered_bias: whether a bias of its own is trained besides.
      label_dimension: how many numbers an example has.
      _joint_weights: see there.
      config: a RunConfig.
      feature_engineering_fn: see there.

    Raises:
      ValueError: if there are no columns.
    """
    LinearEstimator.__init__(
      self,
      feature_columns,
      heads.regression_head(
        weight_column_name=weight_column_name,
        label_dimension=label_dimension,
        enable_centered_bias=enable_centered_bias,
      ),
      model_dir,
      None,
      optimizer,
      gradient_clip_norm,
      _joint_weights,
      config,
      feature_engineering_fn,
    )
