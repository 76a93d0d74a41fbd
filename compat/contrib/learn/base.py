"""Interfaces of tf.contrib.learn: models to be trained and evaluated."""

import abc
from typing import Any


class Trainable(abc.ABC):
  """A model with `fit`."""

  @abc.abstractmethod
  def fit(
    self,
    x: Any = None,
    y: Any = None,
    input_fn: Any = None,
    steps: int | None = None,
    batch_size: int | None = None,
    monitors: Any = None,
    max_steps: int | None = None,
  ) -> Any:
    """Trains the model; see Estimator.fit."""


class Evaluable(abc.ABC):
  """A model with `evaluate`."""

  @property
  @abc.abstractmethod
  def model_dir(self) -> str:
    """Where its checkpoints are."""

  @abc.abstractmethod
  def evaluate(
    self,
    x: Any = None,
    y: Any = None,
    input_fn: Any = None,
    feed_fn: Any = None,
    batch_size: int | None = None,
    steps: int | None = None,
    metrics: Any = None,
    name: str | None = None,
    checkpoint_path: str | None = None,
    hooks: Any = None,
  ) -> Any:
    """Evaluates the model; see Estimator.evaluate."""


class NotFittedError(ValueError, AttributeError):
  """A model is used that has not been trained."""
