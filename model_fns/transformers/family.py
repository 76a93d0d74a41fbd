"""Common parts of the factories of transformers."""

import dataclasses
from collections.abc import Mapping

from model_fns import sharded, training
from model_fns.transformers import decoder, encoder, feed_forward
from model_fns.transformers.architecture import Architecture
from model_fns.transformers.sampling import Sampling

import tensorflow as tf

KINDS = ("decoder", "encoder")


def default_optimizer() -> tf.compat.v1.train.Optimizer:
  """Returns Adam (Kingma and Ba, 2014, arXiv:1412.6980) at 0.001."""
  return tf.compat.v1.train.AdamOptimizer(0.001)


@dataclasses.dataclass(frozen=True)
class Task:
  """The task of a transformer.

  Attributes:
    kind: "decoder" for a language model, "encoder" for a classifier.
    num_classes: How many classes a classifier has.

  Raises:
    ValueError: If the kind is none, or the classes do not fit it.
  """

  kind: str
  num_classes: int | None

  def __post_init__(self) -> None:
    if self.kind not in KINDS:
      raise ValueError(
        f"kind={self.kind!r} is not known; use one of {', '.join(KINDS)}"
      )
    if self.kind == "decoder" and self.num_classes is not None:
      raise ValueError(
        f"num_classes={self.num_classes} is for kind='encoder'; a decoder's "
        "classes are its vocabulary: leave it out"
      )
    if self.kind == "encoder" and (self.num_classes or 0) < 2:
      raise ValueError(
        f"num_classes={self.num_classes} does not fit kind='encoder', which "
        "needs at least 2"
      )


@dataclasses.dataclass(frozen=True)
class Descent:
  """How a transformer is trained.

  Attributes:
    optimizer: A v1 optimizer, or a function that returns one.
    clip_norm: The largest norm of all gradients together; None for any.

  Raises:
    TypeError: If the optimizer is of another type.
    ValueError: If the norm is not positive.
  """

  optimizer: training.OptimizerOrFn
  clip_norm: float | None

  def __post_init__(self) -> None:
    training.check_optimizer(self.optimizer)
    if self.clip_norm is not None and self.clip_norm <= 0:
      raise ValueError(
        f"clip_norm={self.clip_norm} leaves nothing of gradients; use a number "
        "above 0, such as 1.0, or None"
      )

  def train(self, loss: tf.Tensor) -> tf.Operation:
    """Returns the training step of a loss."""
    return training.make_train_op(
      loss, self.optimizer, clip_norm=self.clip_norm
    )


def model_fn(
  architecture: Architecture,
  networks: feed_forward.Maker,
  task: Task,
  sampling: Sampling,
  descent: Descent,
  config: sharded.Config,
) -> sharded.ModelFn:
  """Returns the model_fn of a transformer.

  Args:
    architecture: The sizes.
    networks: Makes what layers have beside attention.
    task: The task that it is trained for.
    sampling: How a decoder samples tokens when it predicts.
    descent: How it is trained.
    config: The devices.

  Raises:
    ValueError: If an encoder is to sample, or the mesh cannot be made.
    TypeError: If the config is of a wrong type.
  """
  if task.kind == "encoder" and sampling.length:
    raise ValueError(
      f"sample_length={sampling.length} is for kind='decoder'; leave it out"
    )

  def plain_model_fn(
    features: Mapping[str, tf.Tensor], labels: tf.Tensor | None, mode: str
  ) -> tf.estimator.EstimatorSpec:
    made = networks(mode)
    if task.num_classes is None:
      return decoder.spec(
        features, labels, mode, architecture, made, sampling, descent.train
      )
    return encoder.spec(
      features,
      labels,
      mode,
      architecture,
      made,
      task.num_classes,
      descent.train,
    )

  return sharded.model_fn(plain_model_fn, config)
