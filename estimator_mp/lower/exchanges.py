"""Exchanges: ops whose parts are no copies of them, but exchange results.

A batch normalization of the whole batch is one: its parts add up their sums,
then each normalizes its images by the mean and the variance of all.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from estimator_mp.graph.definitions import Definitions, op_name
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf


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
  with slices.on(op, 0):
    return _MAKERS[op.type](op, reads, slices)


class _Ops:
  """Ops of one type of numbers, in a scope of names."""

  def __init__(self, definitions: Definitions, scope: str, dtype: tf.DType):
    self._definitions = definitions
    self._scope = scope
    self._dtype = dtype

  def __call__(self, op_type: str, *inputs: str) -> str:
    """Makes an op of tensors of one type."""
    fields: dict[str, Any] = {"N": len(inputs)} if op_type == "AddN" else {}
    name = f"{self._scope}/{op_type}"
    return self._definitions.add(op_type, name, inputs, T=self._dtype, **fields)

  def add_n(self, terms: Sequence[str]) -> str:
    """Makes a sum of terms, if there are several."""
    return terms[0] if len(terms) == 1 else self("AddN", *terms)

  def constant(self, value: object, dtype: tf.DType | None = None) -> str:
    """Makes a constant."""
    name = f"{self._scope}/constant"
    return self._definitions.constant(name, value, dtype or self._dtype)

  def cast(self, tensor: str, before: tf.DType, after: tf.DType) -> str:
    """Makes a cast, if it is one."""
    if before == after:
      return tensor
    name = f"{self._scope}/cast"
    return self._definitions.add(
      "Cast", name, [tensor], SrcT=before, DstT=after
    )

  def sum_over(self, tensor: str, axes: Sequence[int]) -> str:
    """Makes a sum over dimensions."""
    name, over = f"{self._scope}/sum", self.constant([*axes], tf.int32)
    return self._definitions.add(
      "Sum", name, [tensor, over], T=self._dtype, Tidx=tf.int32
    )

  def reshape(self, tensor: str, shape: Sequence[int]) -> str:
    """Makes a tensor of a shape that is known."""
    name, sizes = f"{self._scope}/reshape", self.constant([*shape], tf.int32)
    return self._definitions.add(
      "Reshape", name, [tensor, sizes], T=self._dtype, Tshape=tf.int32
    )


class _Parts:
  """The parts of an op, each on its device."""

  def __init__(self, op: tf.Operation, slices: Slices):
    self._on = functools.partial(slices.on, op)

  def each(
    self, function: Callable[..., str], *parts: Sequence[str]
  ) -> list[str]:
    """Returns the result of a function for each part, on its device."""
    outputs = []
    for number, read in enumerate(zip(*parts, strict=True)):
      with self._on(number):
        outputs.append(function(*read))
    return outputs


class _Norm(_Parts):
  """The ops that a batch normalization and its gradient have in common."""

  def __init__(self, op: tf.Operation, images: tf.Tensor, slices: Slices):
    self._channels = (
      1
      if op.get_attr("data_format").startswith(b"NC")
      else images.shape.rank - 1
    )
    super().__init__(op, slices)
    self.axes = [i for i in range(images.shape.rank) if i != self._channels]
    self.dtype = images.dtype
    self.ops = _Ops(slices.definitions, f"exchange/{op.name}", tf.float32)
    shape = slices.shape(images)
    self.count = slices.number_of(
      polynomials.product(shape[i] for i in self.axes), tf.float32
    )
    self.epsilon = self.ops.constant(op.get_attr("epsilon"))

  def per_channel(self, vector: str) -> str:
    """Returns a vector that is broadcast along channels."""
    shape = [1] * (len(self.axes) + 1)
    shape[self._channels] = -1
    return self.ops.reshape(vector, shape)

  def widened(self, images: Sequence[str]) -> list[str]:
    """Returns images in float32."""
    return self.each(lambda x: self.ops.cast(x, self.dtype, tf.float32), images)

  def total(self, images: Sequence[str]) -> str:
    """Returns the sum over all images, of each channel."""
    sums = self.each(lambda x: self.ops.sum_over(x, self.axes), images)
    return self.ops.add_n(sums)

  def mean(self, images: Sequence[str]) -> str:
    """Returns the mean over all images, of each channel."""
    return self.ops("RealDiv", self.total(images), self.count)

  def inverse_deviation(self, variance: str) -> str:
    """Returns one over the standard deviation."""
    return self.ops("Rsqrt", self.ops("AddV2", variance, self.epsilon))

  def narrowed(self, images: str) -> str:
    """Returns images in their own type."""
    return self.ops.cast(images, tf.float32, self.dtype)


def _batch_norm(
  op: tf.Operation, reads: Sequence[Sequence[str]], slices: Slices
) -> list[list[str]]:
  """Normalizes by the moments of all images (Ioffe and Szegedy, 2015)."""
  norm = _Norm(op, op.inputs[0], slices)
  ops = norm.ops
  images = norm.widened([x[0] for x in reads])
  _, scale, offset, old_mean, old_variance = reads[0]
  mean = norm.mean(images)
  center = norm.per_channel(mean)
  squares = norm.each(lambda x: ops("SquaredDifference", x, center), images)
  variance = norm.mean(squares)
  factor = norm.per_channel(ops("Mul", scale, norm.inverse_deviation(variance)))
  shift = norm.per_channel(offset)
  one = ops.constant(1.0)
  # Running averages have the variance of a sample.
  divisor = ops("Maximum", ops("Sub", norm.count, one), one)
  of_sample = ops("RealDiv", ops("Mul", variance, norm.count), divisor)
  new_mean, new_variance = mean, of_sample
  if (
    "exponential_avg_factor" in op.node_def.attr
    and op.get_attr("exponential_avg_factor") != 1
  ):
    share = op.get_attr("exponential_avg_factor")
    new_mean, new_variance = (
      ops(
        "AddV2",
        ops("Mul", old, ops.constant(1 - share)),
        ops("Mul", new, ops.constant(share)),
      )
      for old, new in ((old_mean, mean), (old_variance, of_sample))
    )
  reserved = [ops.constant([])] * (len(op.outputs) - 5)
  vectors = [new_mean, new_variance, mean, variance, *reserved]
  normalized = norm.each(
    lambda x: norm.narrowed(
      ops("AddV2", ops("Mul", ops("Sub", x, center), factor), shift)
    ),
    images,
  )
  return [[x, *vectors] for x in normalized]


def _batch_norm_grad(
  op: tf.Operation, reads: Sequence[Sequence[str]], slices: Slices
) -> list[list[str]]:
  """The gradient of that: moments depend on all images, too."""
  norm = _Norm(op, op.inputs[1], slices)
  ops = norm.ops
  gradients = norm.widened([x[0] for x in reads])
  images = norm.widened([x[1] for x in reads])
  scale, mean, variance = reads[0][2:5]
  deviation = norm.inverse_deviation(variance)
  center = norm.per_channel(mean)
  inverse = norm.per_channel(deviation)
  normalized = norm.each(
    lambda x: ops("Mul", ops("Sub", x, center), inverse), images
  )
  of_offset = norm.total(gradients)
  products = norm.each(lambda x, y: ops("Mul", x, y), gradients, normalized)
  of_scale = norm.total(products)
  mean_gradient = norm.per_channel(ops("RealDiv", of_offset, norm.count))
  slope = norm.per_channel(ops("RealDiv", of_scale, norm.count))
  factor = norm.per_channel(ops("Mul", scale, deviation))
  nothing = ops.constant([])
  of_images = norm.each(
    lambda dy, x: norm.narrowed(
      ops(
        "Mul",
        ops("Sub", ops("Sub", dy, mean_gradient), ops("Mul", x, slope)),
        factor,
      )
    ),
    gradients,
    normalized,
  )
  return [[x, of_scale, of_offset, nothing, nothing] for x in of_images]


class _Classes(_Parts):
  """The logits of an op that compares classes, each part of which has some.

  Half floats are computed with in float32. Logits of a part may all be minus
  infinity, as masked ones are: the finite minimum is its largest one then.
  """

  def __init__(self, op: tf.Operation, logits: Sequence[str], slices: Slices):
    super().__init__(op, slices)
    self._outer = op.inputs[0].dtype
    self._dtype = tf.float64 if self._outer == tf.float64 else tf.float32
    self._scope = f"exchange/{op.name}"
    self._definitions = slices.definitions
    self.ops = _Ops(self._definitions, self._scope, self._dtype)
    self._last = self.ops.constant([-1], tf.int32)
    logits = self.widened(logits)
    most = self.each(self._most, logits)
    self._shifted = self.each(lambda x, y: self.ops("Sub", x, y), logits, most)
    self._powers = self.each(lambda x: self.ops("Exp", x), self._shifted)
    sums = self.each(lambda x: self._over("Sum", x), self._powers)
    most_of_all = most[0]
    for other in most[1:]:
      most_of_all = self.ops("Maximum", most_of_all, other)
    self._gaps = [self.ops("Sub", x, most_of_all) for x in most]
    self._total = self.ops.add_n(
      [
        self.ops("Mul", x, self.ops("Exp", gap))
        for x, gap in zip(sums, self._gaps, strict=True)
      ]
    )

  def _most(self, logits: str) -> str:
    """Returns the largest logits of a part, none of which is infinite."""
    least = self.ops.constant(self._dtype.min)
    return self.ops("Maximum", self._over("Max", logits), least)

  def widened(self, parts: Sequence[str]) -> list[str]:
    """Returns parts in the type that is computed with."""
    return self.each(
      lambda x: self.ops.cast(x, self._outer, self._dtype), parts
    )

  def narrowed(self, parts: Sequence[str]) -> list[str]:
    """Returns parts in the type of the op."""
    return self.each(
      lambda x: self.ops.cast(x, self._dtype, self._outer), parts
    )

  def sum(self, parts: Sequence[str]) -> str:
    """Returns the sum over all classes, which stay as a dimension of one."""
    return self.ops.add_n(self.each(lambda x: self._over("Sum", x), parts))

  def without_classes(self, tensor: str) -> str:
    """Returns the result of `sum` without that dimension."""
    return self._definitions.add(
      "Squeeze",
      f"{self._scope}/Squeeze",
      [tensor],
      T=self._dtype,
      squeeze_dims=tf.compat.v1.AttrValue(
        list=tf.compat.v1.AttrValue.ListValue(i=[-1])
      ),
    )

  def probabilities(self) -> list[str]:
    """Returns the softmax."""
    shares = [
      self.ops("RealDiv", self.ops("Exp", gap), self._total)
      for gap in self._gaps
    ]
    return self.each(lambda x, y: self.ops("Mul", x, y), self._powers, shares)

  def logs(self) -> list[str]:
    """Returns the logarithm of the softmax."""
    log = self.ops("Log", self._total)
    above = [self.ops("Sub", log, gap) for gap in self._gaps]
    return self.each(lambda x, y: self.ops("Sub", x, y), self._shifted, above)

  def loss(self, labels: Sequence[str]) -> list[list[str]]:
    """Returns cross entropies, and their gradients.

    Args:
      labels: The probability of each class.
    """
    terms = self.each(
      lambda x, y: self.ops("MulNoNan", self.ops("Neg", x), y),
      self.logs(),
      labels,
    )
    loss = self.without_classes(self.sum(terms))
    back = self.each(
      lambda x, y: self.ops("Sub", x, y), self.probabilities(), labels
    )
    loss = self.ops.cast(loss, self._dtype, self._outer)
    return [[loss, x] for x in self.narrowed(back)]

  def one_hot(
    self, op: tf.Operation, labels: str, sizes: Sequence[int]
  ) -> list[str]:
    """Returns the probabilities of classes that labels are the numbers of."""
    dtype, parts, begin = op.inputs[1].dtype, [], 0
    of_labels = _Ops(self._definitions, self._scope, dtype)
    for number, size in enumerate(sizes):
      with self._on(number):
        local = labels
        if begin:
          local = of_labels("Sub", labels, of_labels.constant(begin))
        parts.append(
          self._definitions.add(
            "OneHot",
            f"{self._scope}/OneHot",
            [
              local,
              self.ops.constant(size, tf.int32),
              self.ops.constant(1),
              self.ops.constant(0),
            ],
            T=self._dtype,
            TI=dtype,
            axis=-1,
          )
        )
      begin += size
    return parts

  def checked(self, op: tf.Operation, labels: str, count: int) -> str:
    """Returns labels, if all are numbers of classes."""
    dtype = op.inputs[1].dtype
    ops = _Ops(self._definitions, self._scope, dtype)
    add = self._definitions.add
    is_class = add(
      "LogicalAnd",
      f"{self._scope}/is_class",
      [
        add(
          "GreaterEqual",
          f"{self._scope}/least",
          [labels, ops.constant(0)],
          T=dtype,
        ),
        add(
          "Less", f"{self._scope}/most", [labels, ops.constant(count)], T=dtype
        ),
      ],
    )
    are_classes = add(
      "All",
      f"{self._scope}/are_classes",
      [is_class, ops.constant([0], tf.int32)],
      Tidx=tf.int32,
      keep_dims=False,
    )
    text = self._definitions.constant(
      f"{self._scope}/text",
      f"{op.name} has a label that is the number of no class: use 0 to "
      f"{count - 1}, for {count} classes",
      tf.string,
    )
    check = add(
      "Assert", f"{self._scope}/check", [are_classes, text], T=[tf.string]
    )
    return add(
      "Identity",
      f"{self._scope}/labels",
      [labels],
      [op_name(check)],
      T=dtype,
    )

  def _over(self, op_type: str, tensor: str) -> str:
    return self._definitions.add(
      op_type,
      f"{self._scope}/{op_type}",
      [tensor, self._last],
      T=self._dtype,
      Tidx=tf.int32,
      keep_dims=True,
    )


def _softmax(
  op: tf.Operation, reads: Sequence[Sequence[str]], slices: Slices
) -> list[list[str]]:
  """Each part sends its maximum, and the sum of powers below that."""
  classes = _Classes(op, [x[0] for x in reads], slices)
  return [[x] for x in classes.narrowed(classes.probabilities())]


def _log_softmax(
  op: tf.Operation, reads: Sequence[Sequence[str]], slices: Slices
) -> list[list[str]]:
  """The same, and of that the logarithm."""
  classes = _Classes(op, [x[0] for x in reads], slices)
  return [[x] for x in classes.narrowed(classes.logs())]


def _cross_entropy(
  op: tf.Operation, reads: Sequence[Sequence[str]], slices: Slices
) -> list[list[str]]:
  """With Megatron-LM's three numbers a row that each part sends."""
  classes = _Classes(op, [x[0] for x in reads], slices)
  return classes.loss(classes.widened([x[1] for x in reads]))


def _sparse_cross_entropy(
  op: tf.Operation, reads: Sequence[Sequence[str]], slices: Slices
) -> list[list[str]]:
  """Of labels."""
  classes = _Classes(op, [x[0] for x in reads], slices)
  sizes = slices.sizes_of_parts(op)
  labels = classes.checked(op, reads[0][1], sum(sizes))
  return classes.loss(classes.one_hot(op, labels, sizes))


def _place_of_extreme(
  op: tf.Operation, reads: Sequence[Sequence[str]], slices: Slices
) -> list[list[str]]:
  """The first part whose extreme entry no other one exceeds has the place."""
  values, dtype = op.inputs[0].dtype, op.outputs[0].dtype
  add, scope = slices.definitions.add, f"exchange/{op.name}"
  ops = _Ops(slices.definitions, scope, dtype)
  largest = op.type == "ArgMax"
  exceeds = "Greater" if largest else "Less"
  extremes: list[tuple[str, str]] = []
  begin = 0
  for number, ((part, dim), size) in enumerate(
    zip(reads, slices.sizes_of_parts(op), strict=True)
  ):
    with slices.on(op, number):
      of_axis = op.inputs[1].dtype
      place = add(
        op.type,
        f"{scope}/place",
        [part, dim],
        T=values,
        Tidx=of_axis,
        output_type=dtype,
      )
      if begin:
        place = ops("AddV2", place, ops.constant(begin))
      extreme = add(
        "Max" if largest else "Min",
        f"{scope}/extreme",
        [part, dim],
        T=values,
        Tidx=of_axis,
        keep_dims=False,
      )
    extremes.append((place, extreme))
    begin += size
  best, extreme = extremes[0]
  for place, value in extremes[1:]:
    test = add(exceeds, f"{scope}/{exceeds}", [value, extreme], T=values)
    best = ops("SelectV2", test, place, best)
    extreme = add(
      "SelectV2", f"{scope}/extreme", [test, value, extreme], T=values
    )
  return [[best] for _ in reads]


_MAKERS: dict[
  str,
  Callable[[tf.Operation, Sequence[Sequence[str]], Slices], list[list[str]]],
] = {
  "ArgMax": _place_of_extreme,
  "ArgMin": _place_of_extreme,
  "FusedBatchNorm": _batch_norm,
  "FusedBatchNormV2": _batch_norm,
  "FusedBatchNormV3": _batch_norm,
  "FusedBatchNormGrad": _batch_norm_grad,
  "FusedBatchNormGradV2": _batch_norm_grad,
  "FusedBatchNormGradV3": _batch_norm_grad,
  "LogSoftmax": _log_softmax,
  "Softmax": _softmax,
  "SoftmaxCrossEntropyWithLogits": _cross_entropy,
  "SparseSoftmaxCrossEntropyWithLogits": _sparse_cross_entropy,
}
