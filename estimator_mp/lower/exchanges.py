"""Exchanges: ops whose parts are no copies of them, but exchange results.

A batch normalization of the whole batch is one: its parts add up their sums,
then each normalizes its images by the mean and the variance of all.

Each is a function in TensorFlow of the inputs of all parts, of which
`graph.snippets` makes definitions.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from estimator_mp.graph import snippets
from estimator_mp.graph.definitions import Definitions
from estimator_mp.graph.snippets import each
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf

# For each part, the tensor that it reads in place of each input, or makes.
Parts: TypeAlias = Sequence[Sequence[tf.Tensor]]

_NORMS = {"FusedBatchNorm": 0, "FusedBatchNormGrad": 1}
_COUNTED = ("ArgMax", "ArgMin", "SparseSoftmaxCrossEntropyWithLogits")


class Slices(Protocol):
  """The interface of an `Instantiation` for exchanges."""

  definitions: Definitions

  def on(self, op: tf.Operation, number: int) -> AbstractContextManager[None]:
    """A context in which ops are added on the device of a slice."""

  def shape(self, tensor: tf.Tensor) -> Sequence[Size]:
    """Returns the sizes of a tensor of the plain graph."""

  def sizes_of_parts(self, op: tf.Operation) -> Sequence[int]:
    """Returns the sizes of parts, along the dimension that is split."""

  def number_of(self, size: Size, dtype: tf.DType) -> str:
    """Returns a size of the whole batch as a scalar of any type."""


def make(
  op: tf.Operation, reads: Sequence[Sequence[str]], slices: Slices
) -> list[list[str]]:
  """Makes an op in parts.

  Args:
    op: The op.
    reads: For each part, the tensor that it reads in place of each input.
    slices: Where the ops are made.

  Returns:
    The outputs of each part.
  """
  inputs = [name for read in reads for name in read]
  dtypes = [x.dtype for x in op.inputs] * len(reads)
  sizes = slices.sizes_of_parts(op) if op.type in _COUNTED else ()
  kind = op.type.removesuffix("V2").removesuffix("V3")
  if kind in _NORMS:
    images = op.inputs[_NORMS[kind]]
    shape = slices.shape(images)
    count = polynomials.product(shape[i] for i in _axes(op, images))
    with slices.on(op, 0):
      inputs.append(slices.number_of(count, tf.float32))
    dtypes.append(tf.float32)

  def parts_of(*tensors: tf.Tensor) -> Parts:
    width = len(op.inputs)
    starts = range(0, width * len(reads), width)
    parts = [tensors[start : start + width] for start in starts]
    measure = tensors[-1] if kind in _NORMS else sizes
    return _MAKERS[kind](op, parts, measure)

  key = _attributes(op), len(reads), tuple(sizes)
  snippet = snippets.trace(parts_of, dtypes, key)
  outputs: list[list[str]] = slices.definitions.add_snippet(
    snippet,
    f"exchange/{op.name}",
    inputs,
    functools.partial(slices.on, op),
  )
  return outputs


def _attributes(op: tf.Operation) -> tuple[object, ...]:
  """Returns all of an op that a function reads, for comparisons."""
  node = op.node_def
  values = [node.attr[x.name] for x in op.op_def.attr]
  texts = [x.SerializeToString(deterministic=True) for x in values]
  name = op.name if op.type.startswith("Sparse") else ""  # For an error.
  ranks = [x.shape.rank for x in op.inputs]
  return op.type, name, *texts, *ranks


def _axes(op: tf.Operation, images: tf.Tensor) -> list[int]:
  """Returns the dimensions of images that are none of channels."""
  is_first = op.get_attr("data_format").startswith(b"NC")
  channels = 1 if is_first else images.shape.rank - 1
  return [i for i in range(images.shape.rank) if i != channels]


class _Norm:
  """The ops that a batch normalization and its gradient have in common."""

  def __init__(self, op: tf.Operation, images: tf.Tensor, count: tf.Tensor):
    self._dtype = images.dtype
    self._axes = _axes(op, images)
    self._shape = [
      1 if i in self._axes else -1 for i in range(images.shape.rank)
    ]
    self.count = count

  def per_channel(self, vector: tf.Tensor) -> tf.Tensor:
    """Returns a vector that is broadcast along channels."""
    return tf.reshape(vector, self._shape)

  def total(self, images: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the sum over all images, of each channel."""
    return _add_n(each(lambda x: tf.reduce_sum(x, self._axes), images))

  def mean(self, images: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the mean over all images, of each channel."""
    return self.total(images) / self.count

  def narrowed(self, images: tf.Tensor) -> tf.Tensor:
    """Returns images in their own type."""
    return tf.cast(images, self._dtype)


def _add_n(terms: Sequence[tf.Tensor]) -> tf.Tensor:
  return terms[0] if len(terms) == 1 else tf.add_n(terms)


def _widened(parts: Parts, index: int) -> list[tf.Tensor]:
  return each(lambda x: tf.cast(x, tf.float32), [x[index] for x in parts])


def _batch_norm(op: tf.Operation, parts: Parts, count: tf.Tensor) -> Parts:
  """Normalizes by the moments of all images (Ioffe and Szegedy, 2015)."""
  norm = _Norm(op, op.inputs[0], count)
  images = _widened(parts, 0)
  _, scale, offset, old_mean, old_variance = parts[0]
  mean = norm.mean(images)
  center = norm.per_channel(mean)
  variance = norm.mean(
    each(lambda x: tf.math.squared_difference(x, center), images)
  )
  deviation = tf.math.rsqrt(variance + op.get_attr("epsilon"))
  factor = norm.per_channel(scale * deviation)
  shift = norm.per_channel(offset)
  # Running averages have the variance of a sample.
  of_sample = variance * count / tf.maximum(count - 1.0, 1.0)
  new_mean, new_variance = mean, of_sample
  if (
    "exponential_avg_factor" in op.node_def.attr
    and op.get_attr("exponential_avg_factor") != 1
  ):
    share = op.get_attr("exponential_avg_factor")
    new_mean = old_mean * (1 - share) + mean * share
    new_variance = old_variance * (1 - share) + of_sample * share
  reserved = [tf.constant([], tf.float32)] * (len(op.outputs) - 5)
  vectors = [new_mean, new_variance, mean, variance, *reserved]
  normalized = each(
    lambda x: norm.narrowed((x - center) * factor + shift), images
  )
  return [[x, *vectors] for x in normalized]


def _batch_norm_grad(op: tf.Operation, parts: Parts, count: tf.Tensor) -> Parts:
  """The gradient of that: moments depend on all images, too."""
  norm = _Norm(op, op.inputs[1], count)
  gradients, images = _widened(parts, 0), _widened(parts, 1)
  scale, mean, variance = parts[0][2:5]
  deviation = tf.math.rsqrt(variance + op.get_attr("epsilon"))
  center, inverse = norm.per_channel(mean), norm.per_channel(deviation)
  normalized = each(lambda x: (x - center) * inverse, images)
  of_offset = norm.total(gradients)
  of_scale = norm.total(each(tf.multiply, gradients, normalized))
  mean_gradient = norm.per_channel(of_offset / count)
  slope = norm.per_channel(of_scale / count)
  factor = norm.per_channel(scale * deviation)
  nothing = tf.constant([], tf.float32)
  of_images = each(
    lambda dy, x: norm.narrowed((dy - mean_gradient - x * slope) * factor),
    gradients,
    normalized,
  )
  return [[x, of_scale, of_offset, nothing, nothing] for x in of_images]


class _Classes:
  """The logits of an op that compares classes, each part of which has some.

  Half floats are computed with in float32. Logits of a part may all be minus
  infinity, as masked ones are: the finite minimum is its largest one then.
  """

  def __init__(self, parts: Parts):
    self._outer = parts[0][0].dtype
    self.dtype = tf.float64 if self._outer == tf.float64 else tf.float32
    logits = self.widened([x[0] for x in parts])
    most = each(
      lambda x: tf.maximum(tf.reduce_max(x, -1, keepdims=True), self.dtype.min),
      logits,
    )
    self._shifted = each(tf.subtract, logits, most)
    self._powers = each(tf.exp, self._shifted)
    sums = each(lambda x: tf.reduce_sum(x, -1, keepdims=True), self._powers)
    most_of_all = functools.reduce(tf.maximum, most)
    self._gaps = [x - most_of_all for x in most]
    terms = zip(sums, self._gaps, strict=True)
    self._total = _add_n([x * tf.exp(gap) for x, gap in terms])

  def widened(self, parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns parts in the type that is computed with."""
    return each(lambda x: tf.cast(x, self.dtype), parts)

  def narrowed(self, parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns parts in the type of the op."""
    return each(lambda x: tf.cast(x, self._outer), parts)

  def probabilities(self) -> list[tf.Tensor]:
    """Returns the softmax."""
    shares = [tf.exp(gap) / self._total for gap in self._gaps]
    return each(tf.multiply, self._powers, shares)

  def logs(self) -> list[tf.Tensor]:
    """Returns the logarithm of the softmax."""
    log = tf.math.log(self._total)
    above = [log - gap for gap in self._gaps]
    return each(tf.subtract, self._shifted, above)

  def loss(self, labels: Sequence[tf.Tensor]) -> Parts:
    """Returns cross entropies, and their gradients.

    Args:
      labels: The probability of each class.
    """
    logs = self.logs()
    sums = each(
      lambda x, y: tf.reduce_sum(
        tf.math.multiply_no_nan(-x, y), -1, keepdims=True
      ),
      logs,
      labels,
    )
    loss = tf.cast(tf.squeeze(_add_n(sums), -1), self._outer)
    # No part needs more for its probabilities than for their logarithms.
    back = each(lambda x, y: tf.exp(x) - y, logs, labels)
    return [[loss, x] for x in self.narrowed(back)]


def _softmax(op: tf.Operation, parts: Parts, sizes: Sequence[int]) -> Parts:
  """Each part sends its maximum, and the sum of powers below that."""
  classes = _Classes(parts)
  return [[x] for x in classes.narrowed(classes.probabilities())]


def _log_softmax(op: tf.Operation, parts: Parts, sizes: Sequence[int]) -> Parts:
  """The same, and of that the logarithm."""
  classes = _Classes(parts)
  return [[x] for x in classes.narrowed(classes.logs())]


def _cross_entropy(
  op: tf.Operation, parts: Parts, sizes: Sequence[int]
) -> Parts:
  """With Megatron-LM's three numbers a row that each part sends."""
  classes = _Classes(parts)
  return classes.loss(classes.widened([x[1] for x in parts]))


def _sparse_cross_entropy(
  op: tf.Operation, parts: Parts, sizes: Sequence[int]
) -> Parts:
  """Of labels."""
  classes, labels, count = _Classes(parts), parts[0][1], sum(sizes)
  check = tf.raw_ops.Assert(
    condition=tf.reduce_all((labels >= 0) & (labels < count), [0]),
    data=[
      f"{op.name} has a label that is the number of no class: use 0 to "
      f"{count - 1}, for {count} classes"
    ],
  )
  with tf.control_dependencies([check]):
    labels = tf.identity(labels)
  of_parts, begin = [], 0
  for number, size in enumerate(sizes):
    with snippets.on_part(number):
      local = labels - begin if begin else labels
      of_parts.append(tf.one_hot(local, size, axis=-1, dtype=classes.dtype))
    begin += size
  return classes.loss(of_parts)


def _place_of_extreme(
  op: tf.Operation, parts: Parts, sizes: Sequence[int]
) -> Parts:
  """The first part whose extreme entry no other one exceeds has the place."""
  largest = op.type == "ArgMax"
  find = tf.raw_ops.ArgMax if largest else tf.raw_ops.ArgMin
  reduce = tf.raw_ops.Max if largest else tf.raw_ops.Min
  exceeds = tf.greater if largest else tf.less
  dtype = op.outputs[0].dtype
  extremes, begin = [], 0
  for number, ((part, dim), size) in enumerate(zip(parts, sizes, strict=True)):
    with snippets.on_part(number):
      place = find(input=part, dimension=dim, output_type=dtype)
      place = place + begin if begin else place
      extremes.append((place, reduce(input=part, axis=dim)))
    begin += size
  best, extreme = extremes[0]
  for place, value in extremes[1:]:
    test = exceeds(value, extreme)
    best, extreme = tf.where(test, place, best), tf.where(test, value, extreme)
  return [[best] for _ in parts]


_MAKERS: dict[str, Callable[..., Parts]] = {
  "ArgMax": _place_of_extreme,
  "ArgMin": _place_of_extreme,
  "FusedBatchNorm": _batch_norm,
  "FusedBatchNormGrad": _batch_norm_grad,
  "LogSoftmax": _log_softmax,
  "Softmax": _softmax,
  "SoftmaxCrossEntropyWithLogits": _cross_entropy,
  "SparseSoftmaxCrossEntropyWithLogits": _sparse_cross_entropy,
}
