"""tf.contrib.learn's wide and deep models: a linear and a deep one, added."""

from collections.abc import Mapping, Sequence
from typing import Any

from compat.contrib import layers
from compat.contrib.learn import dnn, heads, linear
from compat.contrib.learn.canned import (
  MIN_SLICE_SIZE,
  Classifier,
  FeatureEngineeringFn,
  Optimizer,
  Regressor,
  features_by_name,
  made,
  partitioner,
)
from compat.contrib.learn.estimator import Estimator
from compat.contrib.learn.head_base import Head

import tensorflow as tf

v1 = tf.compat.v1

_SUMMARY = ("%s/fraction_of_zero_values", "%s/activation")


def _made(optimizer: Optimizer, default: str) -> Any:
  optimizer = made(optimizer or default)
  if isinstance(optimizer, v1.train.SyncReplicasOptimizer):
    raise ValueError(
      "A DNNLinearCombined model takes no SyncReplicasOptimizer. Use a DNN or "
      "a linear model, or another optimizer."
    )
  return optimizer


def _model_fn(
  features: Any, labels: Any, mode: str, params: Any, config: Any = None
) -> Any:
  features = features_by_name(features)
  head = params["head"]
  dimension = head.logits_dimension
  wide, deep = params["linear_feature_columns"], params["dnn_feature_columns"]
  logits, optimizers = [], []
  if deep:
    if not params["dnn_hidden_units"]:
      raise ValueError("Give dnn_hidden_units besides dnn_feature_columns.")
    tower = dnn.Tower(
      deep,
      params["dnn_hidden_units"],
      params["dnn_activation_fn"] or tf.nn.relu,
      params["dnn_dropout"],
      params["input_layer_partitioner"] or partitioner(config, MIN_SLICE_SIZE),
      _SUMMARY,
    )
    with dnn.variable_scope(config):
      logits.append(tower.logits(features, dimension, mode))
    optimizers.append(
      (
        dnn.SCOPE,
        dnn.LEARNING_RATE,
        _made(params["dnn_optimizer"], "Adagrad"),
        params["embedding_lr_multipliers"],
      )
    )
  if wide:
    joint = params["joint_linear_weights"]
    with linear.variable_scope(config) as scope:
      logits.append(linear.logits_of(features, wide, dimension, joint, scope))
      dnn.summarize(logits[-1], scope.name, _SUMMARY)
    optimizers.append(
      (
        linear.SCOPE,
        linear.learning_rate(wide),
        _made(params["linear_optimizer"], "Ftrl"),
        None,
      )
    )

  def train_op_fn(loss: Any) -> Any:
    step = v1.train.get_global_step()
    counts_once = params["fix_global_step_increment_bug"]
    trained = tf.group(
      *(
        layers.optimize_loss(
          loss=loss,
          global_step=step,
          learning_rate=rate,
          optimizer=optimizer,
          gradient_multipliers=dnn.embedding_multipliers(multipliers),
          clip_gradients=params["gradient_clip_norm"],
          variables=v1.get_collection(scope),
          name=scope,
          summaries=[],
          increment_global_step=not counts_once,
        )
        for scope, rate, optimizer, multipliers in optimizers
      )
    )
    if not counts_once:
      return trained
    with tf.control_dependencies([trained]):
      return v1.assign_add(step, 1).op

  return head.create_model_fn_ops(
    features, mode, labels, train_op_fn, sum(logits[1:], logits[0])
  )


class DNNLinearCombinedEstimator(Estimator):
  """A linear and a deep model with a head that is given."""

  def __init__(
    self,
    head: Head,
    model_dir: str | None = None,
    linear_feature_columns: Sequence[Any] | None = None,
    linear_optimizer: Optimizer = None,
    _joint_linear_weights: bool = False,
    dnn_feature_columns: Sequence[Any] | None = None,
    dnn_optimizer: Optimizer = None,
    dnn_hidden_units: Sequence[int] | None = None,
    dnn_activation_fn: Any = None,
    dnn_dropout: float | None = None,
    gradient_clip_norm: float | None = None,
    config: Any = None,
    feature_engineering_fn: FeatureEngineeringFn | None = None,
    embedding_lr_multipliers: Mapping[Any, float] | None = None,
    fix_global_step_increment_bug: bool = False,
    input_layer_partitioner: Any = None,
  ):
    """Makes the model, of which one of both parts may be left out.

    Args:
      head: what it does with its logits.
      model_dir: where its checkpoints are; a new folder by default.
      linear_feature_columns: what the linear part is made of; of
        tf.contrib.layers, or all of tf.feature_column.
      linear_optimizer: an Optimizer, its name, or a function that makes it;
        Ftrl by default.
      _joint_linear_weights: whether all linear weights are one variable.
      dnn_feature_columns: what the deep part's input is made of.
      dnn_optimizer: as linear_optimizer; Adagrad by default.
      dnn_hidden_units: how many units each hidden layer has.
      dnn_activation_fn: of hidden layers; relu by default.
      dnn_dropout: the probability that a unit is left out while training.
      gradient_clip_norm: the greatest norm of each part's gradients together.
      config: a RunConfig.
      feature_engineering_fn: changes (features, labels) before.
      embedding_lr_multipliers: of learning rates, by embedding columns.
      fix_global_step_increment_bug: whether a step counts once. If not, each
        of both parts counts it, as all programs before 2017 did.
      input_layer_partitioner: splits the variables of the deep part's input.

    Raises:
      ValueError: if there are no columns.
    """
    wide = tuple(linear_feature_columns or ())
    deep = tuple(dnn_feature_columns or ())
    self._feature_columns = wide + deep
    if not self._feature_columns:
      raise ValueError("Give linear_feature_columns or dnn_feature_columns.")
    super().__init__(
      _model_fn,
      model_dir,
      config,
      {
        "head": head,
        "linear_feature_columns": wide,
        "linear_optimizer": linear_optimizer,
        "joint_linear_weights": _joint_linear_weights,
        "dnn_feature_columns": deep,
        "dnn_optimizer": dnn_optimizer,
        "dnn_hidden_units": dnn_hidden_units,
        "dnn_activation_fn": dnn_activation_fn,
        "dnn_dropout": dnn_dropout,
        "gradient_clip_norm": gradient_clip_norm,
        "embedding_lr_multipliers": embedding_lr_multipliers,
        "fix_global_step_increment_bug": fix_global_step_increment_bug,
        "input_layer_partitioner": input_layer_partitioner,
      },
      feature_engineering_fn,
    )


def _input_partitioner(config: Any, min_slice_size: int | None) -> Any:
  if min_slice_size is None:
    return None
  return partitioner(config, min_slice_size)


class DNNLinearCombinedClassifier(Classifier, DNNLinearCombinedEstimator):
  """A linear and a deep model for classes."""

  def __init__(
    self,
    model_dir: str | None = None,
    n_classes: int = 2,
    weight_column_name: str | None = None,
    linear_feature_columns: Sequence[Any] | None = None,
    linear_optimizer: Optimizer = None,
    _joint_linear_weights: bool = False,
    dnn_feature_columns: Sequence[Any] | None = None,
    dnn_optimizer: Optimizer = None,
    dnn_hidden_units: Sequence[int] | None = None,
    dnn_activation_fn: Any = tf.nn.relu,
    dnn_dropout: float | None = None,
    gradient_clip_norm: float | None = None,
    enable_centered_bias: bool = False,
    config: Any = None,
    feature_engineering_fn: FeatureEngineeringFn | None = None,
    embedding_lr_multipliers: Mapping[Any, float] | None = None,
    input_layer_min_slice_size: int | None = None,
    label_keys: Sequence[str] | None = None,
    fix_global_step_increment_bug: bool = False,
  ):
    """Makes the model; other arguments are DNNLinearCombinedEstimator's.

    Args:
      model_dir: where its checkpoints are.
      n_classes: how many classes.
      weight_column_name: the feature with the examples' weights.
      linear_feature_columns: what the linear part is made of.
      linear_optimizer: see there.
      _joint_linear_weights: see there.
      dnn_feature_columns: what the deep part's input is made of.
      dnn_optimizer: see there.
      dnn_hidden_units: how many units each hidden layer has.
      dnn_activation_fn: see there.
      dnn_dropout: see there.
      gradient_clip_norm: see there.
      enable_centered_bias: whether a bias of its own is trained besides.
      config: a RunConfig.
      feature_engineering_fn: see there.
      embedding_lr_multipliers: see there.
      input_layer_min_slice_size: of a part of the input's variables, in bytes,
        where there are parameter servers.
      label_keys: the classes' names, if labels are strings.
      fix_global_step_increment_bug: see there.

    Raises:
      ValueError: as multi_class_head, or if there are no columns.
    """
    DNNLinearCombinedEstimator.__init__(
      self,
      heads.multi_class_head(
        n_classes,
        weight_column_name=weight_column_name,
        enable_centered_bias=enable_centered_bias,
        label_keys=label_keys,
      ),
      model_dir,
      linear_feature_columns,
      linear_optimizer,
      _joint_linear_weights,
      dnn_feature_columns,
      dnn_optimizer,
      dnn_hidden_units,
      dnn_activation_fn,
      dnn_dropout,
      gradient_clip_norm,
      config,
      feature_engineering_fn,
      embedding_lr_multipliers,
      fix_global_step_increment_bug,
      _input_partitioner(config, input_layer_min_slice_size),
    )


class DNNLinearCombinedRegressor(Regressor, DNNLinearCombinedEstimator):
  """A linear and a deep model for numbers."""

  def __init__(
    self,
    model_dir: str | None = None,
    weight_column_name: str | None = None,
    linear_feature_columns: Sequence[Any] | None = None,
    linear_optimizer: Optimizer = None,
    _joint_linear_weights: bool = False,
    dnn_feature_columns: Sequence[Any] | None = None,
    dnn_optimizer: Optimizer = None,
    dnn_hidden_units: Sequence[int] | None = None,
    dnn_activation_fn: Any = tf.nn.relu,
    dnn_dropout: float | None = None,
    gradient_clip_norm: float | None = None,
    enable_centered_bias: bool = False,
    label_dimension: int = 1,
    config: Any = None,
    feature_engineering_fn: FeatureEngineeringFn | None = None,
    embedding_lr_multipliers: Mapping[Any, float] | None = None,
    input_layer_min_slice_size: int | None = None,
    fix_global_step_increment_bug: bool = False,
  ):
    """Makes the model; other arguments are DNNLinearCombinedEstimator's.

    Args:
      model_dir: where its checkpoints are.
      weight_column_name: the feature with the examples' weights.
      linear_feature_columns: what the linear part is made of.
      linear_optimizer: see there.
      _joint_linear_weights: see there.
      dnn_feature_columns: what the deep part's input is made of.
      dnn_optimizer: see there.
      dnn_hidden_units: how many units each hidden layer has.
      dnn_activation_fn: see there.
      dnn_dropout: see there.
      gradient_clip_norm: see there.
      enable_centered_bias: whether a bias of its own is trained besides.
      label_dimension: how many numbers an example has.
      config: a RunConfig.
      feature_engineering_fn: see there.
      embedding_lr_multipliers: see there.
      input_layer_min_slice_size: of a part of the input's variables, in bytes,
        where there are parameter servers.
      fix_global_step_increment_bug: see there.

    Raises:
      ValueError: if there are no columns.
    """
    DNNLinearCombinedEstimator.__init__(
      self,
      heads.regression_head(
        weight_column_name=weight_column_name,
        label_dimension=label_dimension,
        enable_centered_bias=enable_centered_bias,
      ),
      model_dir,
      linear_feature_columns,
      linear_optimizer,
      _joint_linear_weights,
      dnn_feature_columns,
      dnn_optimizer,
      dnn_hidden_units,
      dnn_activation_fn,
      dnn_dropout,
      gradient_clip_norm,
      config,
      feature_engineering_fn,
      embedding_lr_multipliers,
      fix_global_step_increment_bug,
      _input_partitioner(config, input_layer_min_slice_size),
    )
