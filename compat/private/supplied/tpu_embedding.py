"""Stands in for `tensorflow.python.tpu.tpu_embedding`.

TPUEstimator describes its embeddings with the classes here. With use_tpu=False
the descriptions are accepted and checked as before, while the embeddings live
on CPU or GPU as ordinary variables, trained by the model's own optimizer.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from compat.private.supplied import unsupported

# The modes of TensorFlow's TPUEmbeddingConfiguration protocol buffer.
INFERENCE = 1
TRAINING = 2


class TableConfig(NamedTuple):
  """One embedding table: its size, and how it is made and looked up."""

  vocabulary_size: int
  dimension: int
  initializer: Any = None
  combiner: str | None = "mean"
  hot_id_replication: bool = False
  learning_rate: float | None = None
  learning_rate_fn: Callable[[Any], Any] | None = None
  optimization_parameters: Any = None


class FeatureConfig(NamedTuple):
  """Which table a feature is looked up in."""

  table_id: str
  max_sequence_length: int = 0
  weight_key: str | None = None


class AdagradSlotVariableNames(NamedTuple):
  """The name of the variable that Adagrad keeps beside a table."""

  accumulator: str


class ProximalAdagradSlotVariableNames(NamedTuple):
  """The name of the variable that proximal Adagrad keeps beside a table."""

  accumulator: str


class AdamSlotVariableNames(NamedTuple):
  """The names of the variables that Adam keeps beside a table."""

  m: str
  v: str


class FtrlSlotVariableNames(NamedTuple):
  """The names of the variables that FTRL keeps beside a table."""

  accumulator: str
  linear: str


class MomentumSlotVariableNames(NamedTuple):
  """The name of the variable that momentum keeps beside a table."""

  momenta: str


class RMSPropSlotVariableNames(NamedTuple):
  """The names of the variables that RMSProp keeps beside a table."""

  ms: str
  mom: str


def _check(holds: bool, name: str, value: Any, limit: str) -> None:
  if not holds:
    raise ValueError(f"{name}={value!r} must be {limit}.")


@dataclasses.dataclass
class _OptimizationParameters:
  """The base class of the optimizers of embedding tables."""

  learning_rate: float
  _: dataclasses.KW_ONLY
  use_gradient_accumulation: bool = True
  clip_weight_min: float | None = None
  clip_weight_max: float | None = None
  weight_decay_factor: float | None = None
  multiply_weight_decay_factor_by_learning_rate: bool | None = None
  clip_gradient_min: float | None = None
  clip_gradient_max: float | None = None

  def __post_init__(self) -> None:
    limits = (self.clip_gradient_min, self.clip_gradient_max)
    if not self.use_gradient_accumulation and limits != (None, None):
      raise ValueError(
        f"Gradients are clipped to {limits}, which needs "
        "use_gradient_accumulation=True."
      )


@dataclasses.dataclass
class StochasticGradientDescentParameters(_OptimizationParameters):
  """Gradient descent for embedding tables."""


@dataclasses.dataclass
class AdagradParameters(_OptimizationParameters):
  """Adagrad for embedding tables."""

  initial_accumulator: float = 0.1

  def __post_init__(self) -> None:
    super().__post_init__()
    value = self.initial_accumulator
    _check(value > 0, "initial_accumulator", value, "greater than 0")


@dataclasses.dataclass
class ProximalAdagradParameters(AdagradParameters):
  """Proximal Adagrad for embedding tables."""

  l1_regularization_strength: float = 0.0
  l2_regularization_strength: float = 0.0

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in ("l1_regularization_strength", "l2_regularization_strength"):
      _check(getattr(self, name) >= 0, name, getattr(self, name), "at least 0")


@dataclasses.dataclass
class AdamParameters(_OptimizationParameters):
  """Adam for embedding tables."""

  beta1: float = 0.9
  beta2: float = 0.999
  epsilon: float = 1e-08
  lazy_adam: bool = True
  sum_inside_sqrt: bool = True

  def __post_init__(self) -> None:
    super().__post_init__()
    for name in ("beta1", "beta2"):
      value = getattr(self, name)
      _check(0 <= value < 1, name, value, "at least 0 and less than 1")
    _check(self.epsilon > 0, "epsilon", self.epsilon, "greater than 0")
    _check(
      self.lazy_adam or self.use_gradient_accumulation,
      "lazy_adam",
      self.lazy_adam,
      "True unless use_gradient_accumulation=True",
    )


@dataclasses.dataclass
class FtrlParameters(_OptimizationParameters):
  """FTRL for embedding tables."""

  learning_rate_power: float = -0.5
  initial_accumulator_value: float = 0.1
  l1_regularization_strength: float = 0.0
  l2_regularization_strength: float = 0.0
  multiply_linear_by_learning_rate: bool = dataclasses.field(
    default=False, kw_only=True
  )
  beta: float = dataclasses.field(default=0.0, kw_only=True)
  allow_zero_accumulator: bool = dataclasses.field(default=False, kw_only=True)

  def __post_init__(self) -> None:
    super().__post_init__()
    power = self.learning_rate_power
    _check(power <= 0, "learning_rate_power", power, "at most 0")
    for name in (
      "initial_accumulator_value",
      "l1_regularization_strength",
      "l2_regularization_strength",
    ):
      _check(getattr(self, name) >= 0, name, getattr(self, name), "at least 0")


@dataclasses.dataclass
class MomentumParameters(_OptimizationParameters):
  """Momentum for embedding tables."""

  momentum: float
  use_nesterov: bool = False


@dataclasses.dataclass
class RMSPropParameters(_OptimizationParameters):
  """RMSProp for embedding tables."""

  rho: float
  momentum: float
  epsilon: float


class EnqueueData:
  """Refuses: nothing is fed to a TPU."""

  def __init__(self, *args: Any, **kwargs: Any):
    del args, kwargs
    unsupported.refuse_tpu("Feeding embeddings (EnqueueData)")

  @classmethod
  def from_sparse_tensor(cls, *args: Any, **kwargs: Any) -> "EnqueueData":
    """Refuses: nothing is fed to a TPU."""
    return cls(*args, **kwargs)


class TPUEmbedding:
  """Refuses: there is no embedding table on a TPU."""

  def __init__(self, *args: Any, **kwargs: Any):
    del args, kwargs
    unsupported.refuse_tpu("An embedding table on a TPU (TPUEmbedding)")
