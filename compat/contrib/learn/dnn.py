"""tf.contrib.learn's deep models: layers over feature columns."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from compat.contrib import layers
from compat.contrib.layers.feature_column.dense import EmbeddingColumn
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
from compat.contrib.learn.constants import ModeKeys
from compat.contrib.learn.estimator import Estimator
from compat.contrib.learn.head_base import Head

import tensorflow as tf

v1 = tf.compat.v1

SCOPE = "dnn"
LEARNING_RATE = 0.05

_ACTIVATIONS = {"relu": tf.nn.relu, "tanh": tf.tanh, "sigmoid": tf.sigmoid}


def variable_scope(config: Any) -> Any:
  """Returns the variable scope of a deep model.

  Args:
    config: a RunConfig, or None.
  """
  return v1.variable_scope(SCOPE, partitioner=partitioner(config))


@dataclasses.dataclass(frozen=True)
class Tower:
  """The layers of a deep model.

  Attributes:
    columns: what its input is made of.
    hidden_units: how many units each hidden layer has.
    activation_fn: of hidden layers, or its name.
    dropout: the probability that a unit is left out while training.
    input_partitioner: splits the variables of the input.
    summary: the tags of summaries, with the layer's scope in the place of "%s".
  """

  columns: Sequence[Any]
  hidden_units: Sequence[int]
  activation_fn: Any
  dropout: float | None
  input_partitioner: Any
  summary: tuple[str, str]

  def logits(
    self, features: Mapping[str, Any], dimension: int, mode: str
  ) -> Any:
    """Returns the logits, [batch, dimension], in `variable_scope`.

    Args:
      features: by name.
      dimension: how many logits.
      mode: one of ModeKeys.

    Raises:
      ValueError: if the activation_fn is the name of none.
    """
    activation_fn = self.activation_fn
    if isinstance(activation_fn, str):
      if activation_fn not in _ACTIVATIONS:
        raise ValueError(
          f"activation_fn={activation_fn!r} is none of "
          f"{', '.join(_ACTIVATIONS)}. Give one of them, or a function."
        )
      activation_fn = _ACTIVATIONS[activation_fn]
    with v1.variable_scope(
      "input_from_feature_columns", partitioner=self.input_partitioner
    ) as scope:
      if are_of_contrib(self.columns):
        net = layers.input_from_feature_columns(
          features, self.columns, weight_collections=[SCOPE], scope=scope
        )
      else:
        net = v1.feature_column.input_layer(
          features, self.columns, weight_collections=[SCOPE]
        )
    for index, units in enumerate(self.hidden_units):
      net = self._layer(net, units, activation_fn, f"hiddenlayer_{index}", mode)
    return self._layer(net, dimension, None, "logits", ModeKeys.INFER)

  def _layer(
    self, net: Any, units: int, activation_fn: Any, name: str, mode: str
  ) -> Any:
    with v1.variable_scope(name) as scope:
      net = layers.fully_connected(
        net,
        units,
        activation_fn=activation_fn,
        variables_collections=[SCOPE],
        scope=scope,
      )
      if self.dropout is not None and mode == ModeKeys.TRAIN:
        net = layers.dropout(net, keep_prob=1.0 - self.dropout)
    summarize(net, scope.name, self.summary)
    return net


def summarize(net: Any, scope: str, tags: tuple[str, str]) -> None:
  """Writes summaries of a layer.

  Args:
    net: its outputs.
    scope: its name.
    tags: of the share of zeros and of the histogram, with "%s" for the scope.
  """
  v1.summary.scalar(tags[0] % scope, tf.math.zero_fraction(net))
  v1.summary.histogram(tags[1] % scope, net)


def embedding_multipliers(
  multipliers: Mapping[Any, float] | None,
) -> dict[Any, float] | None:
  """Returns the factors of gradients, by variables.

  Args:
    multipliers: by embedding columns.

  Raises:
    ValueError: if a column embeds nothing, or the model does not have it.
  """
  if not multipliers:
    return None
  found = {}
  for column, factor in multipliers.items():
    if not isinstance(column, EmbeddingColumn):
      raise ValueError(
        f"embedding_lr_multipliers has {column}, which is no "
        "embedding_column. Leave it out."
      )
    scope = f"{SCOPE}/input_from_feature_columns/{column.name}"
    variables = v1.get_collection(SCOPE, scope)
    if not variables:
      raise ValueError(
        f"embedding_lr_multipliers has {column}, of which the model has no "
        "variable. Leave it out, or add it to feature_columns."
      )
    found.update(dict.fromkeys(variables, factor))
  return found


def _model_fn(
  features: Any, labels: Any, mode: str, params: Any, config: Any = None
) -> Any:
  features = features_by_name(features)
  head = params["head"]
  min_slice_size = params["input_layer_min_slice_size"] or MIN_SLICE_SIZE
  tower = Tower(
    params["feature_columns"],
    params["hidden_units"],
    params["activation_fn"],
    params["dropout"],
    partitioner(config, min_slice_size),
    ("%s_fraction_of_zero_values", "%s_activation"),
  )

  def train_op_fn(loss: Any) -> Any:
    return layers.optimize_loss(
      loss=loss,
      global_step=v1.train.get_global_step(),
      learning_rate=LEARNING_RATE,
      optimizer=made(params["optimizer"] or "Adagrad"),
      gradient_multipliers=embedding_multipliers(
        params["embedding_lr_multipliers"]
      ),
      clip_gradients=params["gradient_clip_norm"],
      name=SCOPE,
      summaries=[],
    )

  with variable_scope(config):
    logits = tower.logits(features, head.logits_dimension, mode)
    return head.create_model_fn_ops(features, mode, labels, train_op_fn, logits)


class DNNEstimator(Estimator):
  """A deep model with a head that is given."""

  def __init__(
    self,
    head: Head,
    hidden_units: Sequence[int],
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    optimizer: Optimizer = None,
    activation_fn: Any = tf.nn.relu,
    dropout: float | None = None,
    gradient_clip_norm: float | None = None,
    config: Any = None,
    feature_engineering_fn: FeatureEngineeringFn | None = None,
    embedding_lr_multipliers: Mapping[Any, float] | None = None,
    input_layer_min_slice_size: int | None = None,
  ):
    """Makes the model.

    Args:
      head: what it does with its logits.
      hidden_units: how many units each hidden layer has.
      feature_columns: what its input is made of; of tf.contrib.layers, or all
        of tf.feature_column.
      model_dir: where its checkpoints are; a new folder by default.
      optimizer: an Optimizer, its name, or a function that makes it; Adagrad
        by default.
      activation_fn: of hidden layers, or its name.
      dropout: the probability that a unit is left out while training.
      gradient_clip_norm: the greatest norm of all gradients together.
      config: a RunConfig.
      feature_engineering_fn: changes (features, labels) before.
      embedding_lr_multipliers: of learning rates, by embedding columns.
      input_layer_min_slice_size: of a part of the input's variables, in bytes,
        where there are parameter servers.
    """
    self._feature_columns = tuple(feature_columns or ())
    super().__init__(
      _model_fn,
      model_dir,
      config,
      {
        "head": head,
        "hidden_units": hidden_units,
        "feature_columns": self._feature_columns,
        "optimizer": optimizer,
        "activation_fn": activation_fn,
        "dropout": dropout,
        "gradient_clip_norm": gradient_clip_norm,
        "embedding_lr_multipliers": embedding_lr_multipliers,
        "input_layer_min_slice_size": input_layer_min_slice_size,
      },
      feature_engineering_fn,
    )


class DNNClassifier(Classifier, DNNEstimator):
  """A deep model for classes."""

  def __init__(
    self,
    hidden_units: Sequence[int],
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    n_classes: int = 2,
    weight_column_name: str | None = None,
    optimizer: Optimizer = None,
    activation_fn: Any = tf.nn.relu,
    dropout: float | None = None,
    gradient_clip_norm: float | None = None,
    enable_centered_bias: bool = False,
    config: Any = None,
    feature_engineering_fn: FeatureEngineeringFn | None = None,
    embedding_lr_multipliers: Mapping[Any, float] | None = None,
    input_layer_min_slice_size: int | None = None,
    label_keys: Sequence[str] | None = None,
  ):
    """Makes the model; other arguments are those of DNNEstimator.

    Args:
      hidden_units: how many units each hidden layer has.
      feature_columns: what its input is made of.
      model_dir: where its checkpoints are.
      n_classes: how many classes.
      weight_column_name: the feature with the examples' weights.
      optimizer: see there.
      activation_fn: see there.
      dropout: see there.
      gradient_clip_norm: see there.
      enable_centered_bias: whether a bias of its own is trained besides.
      config: a RunConfig.
      feature_engineering_fn: see there.
      embedding_lr_multipliers: see there.
      input_layer_min_slice_size: see there.
      label_keys: the classes' names, if labels are strings.

    Raises:
      ValueError: as multi_class_head.
    """
    DNNEstimator.__init__(
      self,
      heads.multi_class_head(
        n_classes,
        weight_column_name=weight_column_name,
        enable_centered_bias=enable_centered_bias,
        label_keys=label_keys,
      ),
      hidden_units,
      feature_columns,
      model_dir,
      optimizer,
      activation_fn,
      dropout,
      gradient_clip_norm,
      config,
      feature_engineering_fn,
      embedding_lr_multipliers,
      input_layer_min_slice_size,
    )


class DNNRegressor(Regressor, DNNEstimator):
  """A deep model for numbers."""

  def __init__(
    self,
    hidden_units: Sequence[int],
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    weight_column_name: str | None = None,
    optimizer: Optimizer = None,
    activation_fn: Any = tf.nn.relu,
    dropout: float | None = None,
    gradient_clip_norm: float | None = None,
    enable_centered_bias: bool = False,
    config: Any = None,
    feature_engineering_fn: FeatureEngineeringFn | None = None,
    label_dimension: int = 1,
    embedding_lr_multipliers: Mapping[Any, float] | None = None,
    input_layer_min_slice_size: int | None = None,
  ):
    """Makes the model; other arguments are those of DNNEstimator.

    Args:
      hidden_units: how many units each hidden layer has.
      feature_columns: what its input is made of.
      model_dir: where its checkpoints are.
      weight_column_name: the feature with the examples' weights.
      optimizer: see there.
      activation_fn: see there.
      dropout: see there.
      gradient_clip_norm: see there.
      enable_centered_bias: whether a bias of its own is trained besides.
      config: a RunConfig.
      feature_engineering_fn: see there.
      label_dimension: how many numbers an example has.
      embedding_lr_multipliers: see there.
      input_layer_min_slice_size: see there.
    """
    DNNEstimator.__init__(
      self,
      heads.regression_head(
        weight_column_name=weight_column_name,
        label_dimension=label_dimension,
        enable_centered_bias=enable_centered_bias,
      ),
      hidden_units,
      feature_columns,
      model_dir,
      optimizer,
      activation_fn,
      dropout,
      gradient_clip_norm,
      config,
      feature_engineering_fn,
      embedding_lr_multipliers,
      input_layer_min_slice_size,
    )
