"""Rules for reductions, and for the places of the largest entries.

Over other dimensions a tensor is reduced part by part; over the dimension that
is split also over devices.
"""

from collections.abc import Callable

from estimator_mp.model_axis import axes, choices
from estimator_mp.model_axis.decisions import (
  Composite,
  Decision,
  OnPart,
  Operand,
  Partial,
  PartInputs,
  PartOutputs,
  PerPart,
  Reduction,
  Replicate,
  Shard,
  Shards,
  Table,
)
from estimator_mp.model_axis.rules import elementwise

import tensorflow as tf

TABLE = Table()

_REDUCTIONS = {
  "All": Reduction.ALL,
  "Any": Reduction.ANY,
  "Max": Reduction.MAXIMUM,
  "Min": Reduction.MINIMUM,
  "Prod": Reduction.PRODUCT,
  "Sum": Reduction.SUM,
}
# How far to look for what stops a gradient.
_MOST_READERS = 32


@TABLE.rule(*_REDUCTIONS)
def _reduce(op: tf.Operation, splits: Shards) -> Decision | None:
  return _part_by_part(op, splits, _reduce_along)


def _reduce_along(op: tf.Operation, split: Shard) -> Decision:
  if op.type in ("Max", "Min") and has_gradient(op.outputs[0]):
    whole = (Replicate(),)
    exchanged = (op.outputs[0].shape,) * 3
    return Composite((split, Replicate()), whole, _make_extreme, exchanged)
  # The parts of a mean add up if each is a sum, over the number of all.
  return PerPart(
    (split, Replicate()), (Partial(_REDUCTIONS.get(op.type, Reduction.SUM)),)
  )


@TABLE.rule("Mean")
def _mean(op: tf.Operation, splits: Shards) -> Decision | None:
  return _part_by_part(op, splits, _mean_along)


def _mean_along(op: tf.Operation, split: Shard) -> Decision | None:
  dtype = op.inputs[0].dtype
  if not all(split.sizes) or not dtype.is_floating:
    return None
  shares = [size / split.size for size in split.sizes]

  def build(
    op: tf.Operation, inputs: PartInputs, on_part: OnPart
  ) -> PartOutputs:
    """The mean of parts' means, each as heavy as the part is large."""
    terms = []
    for i, ((values, over), share) in enumerate(
      zip(inputs, shares, strict=True)
    ):
      with on_part(i):
        mean = tf.reduce_mean(values, over, op.get_attr("keep_dims"))
        terms.append(mean * tf.constant(share, dtype))
    with on_part(0):
      return [tf.add_n(terms)]

  exchanged = (op.outputs[0].shape,)
  return Composite((split, Replicate()), (Replicate(),), build, exchanged)


@TABLE.rule("EuclideanNorm")
def _norm(op: tf.Operation, splits: Shards) -> Decision | None:
  return _part_by_part(op, splits, _norm_along)


def _norm_along(op: tf.Operation, split: Shard) -> Decision | None:
  if not op.inputs[0].dtype.is_floating:
    return None

  def build(
    op: tf.Operation, inputs: PartInputs, on_part: OnPart
  ) -> PartOutputs:
    """Of squares, since a part's own norm of 0 has no gradient."""
    terms = []
    for i, (values, over) in enumerate(inputs):
      with on_part(i):
        squares = tf.square(values)
        terms.append(tf.reduce_sum(squares, over, op.get_attr("keep_dims")))
    with on_part(0):
      return [tf.sqrt(tf.add_n(terms))]

  exchanged = (op.outputs[0].shape,)
  return Composite((split, Replicate()), (Replicate(),), build, exchanged)


def _axes(op: tf.Operation) -> list[int] | None:
  """Returns the dimensions that an op reduces, from 0; None if not known."""
  return axes.constant_axes(op.inputs[1], op.inputs[0].shape.rank)


def _part_by_part(
  op: tf.Operation,
  splits: Shards,
  along: Callable[[tf.Operation, Shard], Decision | None],
) -> Decision | None:
  """Returns a reduction part by part, if it leaves the dimension.

  Args:
    op: The op.
    splits: How the values and the numbers of dimensions are split.
    along: Returns what becomes of it if it reduces the dimension.
  """
  values, indices = splits
  over = _axes(op)
  if values is None or indices is not None or over is None:
    return None
  if values.axis in over:
    return along(op, values)
  gone = 0
  if not op.get_attr("keep_dims"):
    gone = sum(axis < values.axis for axis in set(over))
  return PerPart((values, Replicate()), (values.at(values.axis - gone),))


def has_gradient(tensor: tf.Tensor) -> bool:
  """Whether a gradient may be asked of a tensor, as far as can be seen.

  That of a maximum in a softmax is stopped, for instance.

  Args:
    tensor: An output of an op.
  """
  if not tensor.dtype.is_floating:
    return False
  waiting, seen = [tensor], {tensor.ref()}
  while waiting and len(seen) <= _MOST_READERS:
    readers = waiting.pop().consumers()
    if not readers:
      return True
    for reader in readers:
      for output in reader.outputs:
        if reader.type == "StopGradient" or output.ref() in seen:
          continue
        if output.dtype.is_floating or output.dtype.is_complex:
          waiting.append(output)
          seen.add(output.ref())
  return bool(waiting)


def _make_extreme(
  op: tf.Operation, inputs: PartInputs, on_part: OnPart
) -> PartOutputs:
  """Makes a maximum or minimum whose gradient is shared by all equal entries.

  TensorFlow divides the gradient by their number, here that of all devices. So
  the value is the maximum m, a constant, plus the mean of x - m over the
  entries x that equal m.
  """
  reduce = tf.reduce_max if op.type == "Max" else tf.reduce_min
  larger = tf.maximum if op.type == "Max" else tf.minimum
  extreme = None
  for i, (values, over) in enumerate(inputs):
    with on_part(i):
      own = reduce(tf.stop_gradient(values), over, keepdims=True)
    with on_part(0):
      extreme = own if extreme is None else larger(extreme, own)
  with on_part(0):
    finite = tf.math.is_finite(extreme)
    start = tf.where(finite, extreme, tf.zeros_like(extreme))
  rises, counts = [], []
  for i, (values, over) in enumerate(inputs):
    with on_part(i):
      equal = tf.equal(values, extreme)
      rise = tf.where(equal, values - start, tf.zeros_like(values))
      rises.append(tf.reduce_sum(rise, over, keepdims=True))
      count = tf.cast(equal, values.dtype)
      counts.append(tf.reduce_sum(count, over, keepdims=True))
  with on_part(0):
    result = start + tf.add_n(rises) / tf.add_n(counts)
    if not op.get_attr("keep_dims"):
      result = tf.squeeze(result, _axes(op))
    return [result]


@TABLE.rule("ArgMax", "ArgMin")
def _place_of_extreme(op: tf.Operation, splits: Shards) -> Decision | None:
  values, dimension = splits
  over = _axes(op)
  if values is None or dimension is not None or over is None:
    return None
  (axis,) = over
  if axis != values.axis:
    output = values.at(values.axis - (axis < values.axis))
    return PerPart((values, Replicate()), (output,))
  # Other types may not hold places, or have no maximum.
  if op.outputs[0].dtype not in (tf.int32, tf.int64):
    return None
  if not op.inputs[0].dtype.is_floating or not all(values.sizes):
    return None
  offsets = values.offsets

  def build(
    op: tf.Operation, inputs: PartInputs, on_part: OnPart
  ) -> PartOutputs:
    """The first part whose extreme entry no other exceeds has the place."""
    largest = op.type == "ArgMax"
    place_of = tf.argmax if largest else tf.argmin
    reduce = tf.reduce_max if largest else tf.reduce_min
    exceeds = tf.greater if largest else tf.less
    dtype = op.outputs[0].dtype
    found: list[tuple[tf.Tensor, tf.Tensor]] = []
    for i, (values, _) in enumerate(inputs):
      with on_part(i):
        place = place_of(values, axis, dtype)
        place += tf.constant(offsets[i], dtype)
        found.append((place, reduce(values, axis)))
    with on_part(0):
      best, extreme = found[0]
      for place, value in found[1:]:
        is_better = exceeds(value, extreme)
        best = tf.where(is_better, place, best)
        extreme = tf.where(is_better, value, extreme)
      return [best]

  exchanged = (op.outputs[0].shape,) * 2
  operands = (values, Replicate())
  return Composite(operands, (Replicate(),), build, exchanged)


@TABLE.rule("NthElement", "TopKV2")
def _top(op: tf.Operation, splits: Shards) -> PerPart | None:
  """The largest entries in the last dimension, with their places, or one."""
  return choices.first_input(op, splits, axes.last(op.inputs[0], 1))


@TABLE.rule("LowerBound", "UpperBound")
def _place_among_sorted(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Rows that are sorted, and for each some values that are looked up in it."""
  rows, values = splits
  if rows is None and values is not None and values.axis == 1:
    return PerPart((Replicate(), values), (values,))
  split = axes.only(splits)
  if split is None or split.axis:
    return None
  return PerPart((split, split), (split,))


@TABLE.rule("Bincount", "DenseBincount")
def _counts(op: tf.Operation, splits: Shards) -> PerPart | None:
  """How often there is each number, in all or in each row; or whether.

  Weights are as many as numbers, or none.
  """
  values, size, weights = splits
  rank, of_weights = op.inputs[0].shape.rank, op.inputs[2]
  split = axes.only([values, weights])
  if split is None or size is not None or rank is None:
    return None
  read: Operand = Replicate()
  if of_weights.shape.num_elements() != 0:
    if of_weights.shape.rank != rank:
      return None
    if axes.size(of_weights, split.axis) != split.size:
      return None
    read = split
  if op.type == "DenseBincount" and rank == 2 and not split.axis:
    return PerPart((split, Replicate(), read), (split,))
  is_binary = op.type == "DenseBincount" and op.get_attr("binary_output")
  join = Reduction.MAXIMUM if is_binary else Reduction.SUM
  return PerPart((split, Replicate(), read), (Partial(join),))


@TABLE.rule("Cumprod", "Cumsum", "CumulativeLogsumexp")
def _running(op: tf.Operation, splits: Shards) -> PerPart | None:
  return choices.first_input(op, splits, _axes(op))


@TABLE.rule("L2Loss")
def _half_of_squares(op: tf.Operation, splits: Shards) -> PerPart | None:
  (split,) = splits
  return (
    PerPart((split,), (Partial(Reduction.SUM),)) if split is not None else None
  )


@TABLE.rule("BiasAddGrad")
def _sum_of_channels(op: tf.Operation, splits: Shards) -> PerPart | None:
  (split,) = splits
  rank = op.inputs[0].shape.rank
  if split is None or rank is None:
    return None
  if split.axis == elementwise.channel_axis(op, rank):
    return PerPart((split,), (split.at(0),))
  return PerPart((split,), (Partial(Reduction.SUM),))
