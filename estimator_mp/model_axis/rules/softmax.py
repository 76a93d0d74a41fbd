"""Rules for softmax, over another axis than the split one and over that one.

Over the split axis each part takes its own maximum and its own sum of
exponentials, and those of all parts meet once, on the first part's device:
what is sent is as large as the tensor without the split axis. That is the
online softmax (Milakov and Gimelshein, 2018, arXiv:1805.02867) with a device
in the place of a block.
"""

import dataclasses
import functools
from collections.abc import Sequence

from estimator_mp.model_axis.decisions import (
  Composite,
  Decision,
  OnPart,
  PartInputs,
  PartOutputs,
  PerPart,
  Shards,
  Table,
)

import tensorflow as tf

TABLE = Table()


@dataclasses.dataclass(frozen=True)
class Exponentials:
  """Values for the whole, of parts of logits split on their last axis.

  The last axis of all but `shifted` and `powers` has one entry. Maxima are
  constants to gradients: no result depends on them.

  Attributes:
    shifted: For each part, on its device, the logits less their maximum.
    powers: For each part, on its device, e to the power of those.
    gaps: For each part, on the first one's device, how much its maximum is
      below that of all.
    total: The sum of all powers of e, each less the maximum of all; on the
      first part's device.
  """

  shifted: list[tf.Tensor]
  powers: list[tf.Tensor]
  gaps: list[tf.Tensor]
  total: tf.Tensor


def exponentials(logits: Sequence[tf.Tensor], on_part: OnPart) -> Exponentials:
  """Makes the ops that softmax and cross-entropies share.

  Logits of less than 32 bits are computed with in 32, as TensorFlow's own
  kernels do on GPUs. A part of logits that are all minus infinity, because they
  are masked, has the power 0 and no NaN.

  Args:
    logits: The parts, split on their last axis.
    on_part: The context of a part's device.
  """
  dtype = tf.float64 if logits[0].dtype == tf.float64 else tf.float32
  maxima, shifted, powers, sums = [], [], [], []
  for part, tensor in enumerate(logits):
    with on_part(part):
      tensor = tf.cast(tensor, dtype)
      largest = tf.reduce_max(tensor, -1, keepdims=True)
      maxima.append(tf.stop_gradient(tf.maximum(largest, dtype.min)))
      shifted.append(tensor - maxima[-1])
      powers.append(tf.exp(shifted[-1]))
      sums.append(tf.reduce_sum(powers[-1], -1, keepdims=True))
  with on_part(0):
    largest = functools.reduce(tf.maximum, maxima)
    gaps = [largest - maximum for maximum in maxima]
    total = tf.add_n(
      [part * tf.exp(-gap) for part, gap in zip(sums, gaps, strict=True)]
    )
  return Exponentials(shifted, powers, gaps, total)


def probabilities(of: Exponentials, on_part: OnPart) -> list[tf.Tensor]:
  """Makes the ops of the parts of a softmax, each on its device.

  Args:
    of: The exponentials.
    on_part: The context of a part's device.
  """
  with on_part(0):
    scales = [tf.exp(-gap) / of.total for gap in of.gaps]
  parts = []
  for part, (power, scale) in enumerate(zip(of.powers, scales, strict=True)):
    with on_part(part):
      parts.append(power * scale)
  return parts


def log_probabilities(of: Exponentials, on_part: OnPart) -> list[tf.Tensor]:
  """Makes the ops of the parts of a log-softmax, each on its device.

  Args:
    of: The exponentials.
    on_part: The context of a part's device.
  """
  with on_part(0):
    log_total = tf.math.log(of.total)
    above = [log_total + gap for gap in of.gaps]
  parts = []
  for part, (shifted, less) in enumerate(zip(of.shifted, above, strict=True)):
    with on_part(part):
      parts.append(shifted - less)
  return parts


def cast_parts(
  parts: Sequence[tf.Tensor], dtype: tf.DType, on_part: OnPart
) -> list[tf.Tensor]:
  """Makes the ops that cast parts, each on its device.

  Args:
    parts: The parts of a tensor.
    dtype: Their new dtype.
    on_part: The context of a part's device.
  """
  cast = []
  for part, tensor in enumerate(parts):
    with on_part(part):
      cast.append(tf.cast(tensor, dtype))
  return cast


def _build(op: tf.Operation, reads: PartInputs, on_part: OnPart) -> PartOutputs:
  """Makes the ops of a softmax or log-softmax over the split axis."""
  (logits,) = zip(*reads, strict=True)
  make = probabilities if op.type == "Softmax" else log_probabilities
  parts = make(exponentials(logits, on_part), on_part)
  return [cast_parts(parts, op.outputs[0].dtype, on_part)]


@TABLE.rule("Softmax", "LogSoftmax")
def _softmax(op: tf.Operation, splits: Shards) -> Decision | None:
  """Returns the op for each part, unless it is the last axis that is split."""
  (split,) = splits
  rank = op.inputs[0].shape.rank
  if split is None or rank is None:
    return None
  if split.axis != rank - 1:
    return PerPart((split,), (split,))
  row = op.inputs[0].shape[:-1].concatenate(1)
  return Composite((split,), (split,), _build, exchanged=(row, row))
