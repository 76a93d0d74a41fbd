"""Options of the batch: where its examples are, and what slices do of it."""

import dataclasses
from typing import TypeAlias

from estimator_mp.config import options

# An expression for names such as "features/x", and the axis of its examples;
# None for a tensor that belongs to the whole batch.
BatchAxis: TypeAlias = tuple[str, int | None]

_option = options.Group("Sharding: the batch")


@dataclasses.dataclass(frozen=True)
class BatchOptions:
  """The examples of a batch, and the slices of it.

  Attributes:
    batch_axis: Batch axes of features and labels whose examples are not on axis
      0: pairs of a regular expression for names such as "features/x", and an
      axis, or None for a tensor without examples.
    per_example: Regular expressions for names of ops that have no rule but
      compute each example by itself, such as Python functions: they are
      executed in parts of the batch, in training, evaluation and prediction.
      Their outputs have the examples on axis 0.
    fallback: "allow" executes an op without a rule for parts of the batch once,
      on joined tensors, and lists it; with "error" that is an error.
    draws: "per_slice" lets each slice draw its part of random numbers, from
      seeds that follow from the op's and from the number of the slice; "whole"
      draws them once, as the plain run does, and cuts them.
    batch_norm: "whole" normalizes by the moments of the whole batch, as the
      plain model does: slices exchange them. With "per_micro_batch" each slice
      uses its own moments, so that no slice waits for another; moving averages
      move once, by the mean of the slices' moments. It applies to fused batch
      normalization; one of plain ops stays the plain model's.
    prefetch_inputs: Whether training takes up to two batches from input_fn's
      `tf.data` before the steps that need them, cuts them, and sends each part
      to the device that reads it, while earlier steps run.
  """

  batch_axis: tuple[BatchAxis, ...] = _option(
    (),
    "Batch axis of inputs whose examples are not on axis 0, as JSON, pairs of a"
    " regular expression for names and an axis, or null for inputs without"
    ' examples: [["features/mask", null]].',
  )
  per_example: tuple[str, ...] = _option(
    (),
    "Regular expressions for names of ops that have no rule but compute each"
    " example by itself, such as Python functions: they are executed in parts"
    " of the batch.",
  )
  fallback: str = _option(
    "allow",
    "Whether an op without a rule for parts of the batch may be executed once,"
    " on joined tensors.",
    choices=("allow", "error"),
  )
  draws: str = _option(
    "per_slice",
    "Whether random ops draw for each slice of the batch, or once for the whole"
    " batch, as the plain run does.",
    choices=("per_slice", "whole"),
  )
  batch_norm: str = _option(
    "whole",
    "Moments of batch normalization: those of the whole batch, or of each"
    " slice.",
    choices=("whole", "per_micro_batch"),
  )
  prefetch_inputs: bool = _option(
    False,
    "Cut the next batches and send them to their devices while a training step"
    " runs.",
  )

  def check_batch(self) -> None:
    """Raises if a rule is malformed."""
    batch_axis = options.checked_pairs(
      "batch_axis",
      self.batch_axis,
      lambda axis: axis is None or type(axis) is int,
      "an axis",
      '("features/mask", None)',
    )
    object.__setattr__(self, "batch_axis", batch_axis)
    per_example = options.checked_expressions("per_example", self.per_example)
    object.__setattr__(self, "per_example", per_example)
