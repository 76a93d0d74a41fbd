"""Draws random graphs of the ops that split tensors pass through.

A graph is drawn as it is made, of tensors whose shapes are known, and can then
be made again from others of these shapes: `Program.build`.
"""

import dataclasses
import functools
import string
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from estimator_mp.propagate.splits import VariableSplit

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

v1 = tf.compat.v1

_SEEDS = st.integers(0, 2**32 - 1)
_DTYPE = np.float64
_MOST_ELEMENTS = 600


@dataclasses.dataclass(frozen=True)
class Step:
  """A few ops of a graph.

  Attributes:
    name: What they do, with its arguments.
    inputs: The numbers of the tensors that they read.
    make: Makes them.
  """

  name: str
  inputs: tuple[int, ...]
  make: Callable[..., Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Program:
  """A graph, and what is fed to it.

  Attributes:
    shapes: The shape of each input, by its name.
    splits: How some of these are split.
    unknown: The dimensions that the graph does not know, by name.
    steps: What is made of them.
    seed: Of the numbers that are fed.
  """

  shapes: Mapping[str, tuple[int, ...]]
  splits: Mapping[str, VariableSplit]
  unknown: Mapping[str, Sequence[int]]
  steps: Sequence[Step]
  seed: int

  def feeds(self) -> dict[str, np.ndarray]:
    """Returns numbers to be fed, by the names of inputs."""
    rng = np.random.RandomState(self.seed)
    return {
      name: rng.uniform(-1.2, 1.2, shape).astype(_DTYPE)
      for name, shape in self.shapes.items()
    }

  def build(self, **inputs: tf.Tensor) -> list[tf.Tensor]:
    """Makes the graph, and returns the tensors that nothing reads.

    Args:
      **inputs: The inputs, by their names.
    """
    tensors = [inputs[name] for name in self.shapes]
    unread = dict.fromkeys(range(len(tensors)))
    for step in self.steps:
      made = _as_list(step.make(*(tensors[i] for i in step.inputs)))
      for number in step.inputs:
        unread.pop(number, None)
      unread.update(
        dict.fromkeys(range(len(tensors), len(tensors) + len(made)))
      )
      tensors += made
    return [tensors[i] for i in unread]


def _as_list(made):
  return [made] if isinstance(made, tf.Tensor) else list(made)


@st.composite
def chains(draw):
  """Draws a graph whose steps read what others have made."""
  seed = draw(_SEEDS)
  inputs = _inputs(Random(seed))
  steps = _steps(inputs, draw(st.lists(_SEEDS, min_size=10, max_size=18)))
  return Program(*inputs, steps, seed)


@st.composite
def fans(draw):
  """Draws a graph whose steps all read inputs, and are compared one by one."""
  seed = draw(_SEEDS)
  inputs = _inputs(Random(seed))
  seeds = draw(st.lists(_SEEDS, min_size=30, max_size=40))
  steps = [step for seed in seeds for step in _steps(inputs, [seed])]
  return Program(*inputs, steps, seed)


def _inputs(random):
  """Returns shapes, splits and unknown dimensions of inputs."""
  sizes = random.choices(range(2, 7), k=random.randint(2, 3))
  shapes = {
    name: tuple(random.choices([*sizes, *sizes, 1], k=random.randint(1, 4)))
    for name in "abcd"[: random.randint(2, 4)]
  }
  splits = _splits(random, shapes)
  unknown = {
    name: [
      axis
      for axis in range(len(shape))
      if (name not in splits or axis != splits[name].dim)
      and random.random() < 0.15
    ]
    for name, shape in shapes.items()
  }
  return shapes, splits, unknown


def _steps(inputs, seeds):
  """Returns steps, made to see which shapes their tensors have."""
  shapes, *_ = inputs
  steps = []
  with tf.Graph().as_default():
    tensors = [v1.placeholder(_DTYPE, shape) for shape in shapes.values()]
    for seed in seeds:
      random = Random(seed)
      step = random.choice(_KINDS)(random, tensors)
      if step is None:
        continue
      made = _as_list(step.make(*(tensors[i] for i in step.inputs)))
      if not any(_is_unfit(tensor) for tensor in made):
        steps.append(step)
        tensors += made
  return steps


def _is_unfit(tensor):
  """Whether a tensor is too large for more, or empty."""
  return not 0 < tensor.shape.num_elements() <= _MOST_ELEMENTS


def _splits(random, shapes):
  """Returns how inputs are split: those of one size mostly in the same way."""
  num_parts = random.randint(2, 3)
  of_size = {}
  splits = {}
  for name, shape in shapes.items():
    possible = [i for i, size in enumerate(shape) if size >= num_parts]
    if possible and random.random() < 0.85:
      axis = random.choice(possible)
      size = shape[axis]
      ends = sorted(random.sample(range(1, size), num_parts - 1))
      sizes = tuple(np.diff([0, *ends, size]).tolist())
      if random.random() < 0.8:
        sizes = of_size.setdefault(size, sizes)
      splits[name] = VariableSplit(axis, sizes)
  return splits


def _shape(tensor):
  return tensor.shape.as_list()


def _spread(shape):
  """Numbers that no two entries have in common.

  Where a result jumps, as that of a maximum does if another entry takes its
  place, equal entries would be told apart by their rounding.
  """
  return np.cos(np.arange(np.prod(shape, dtype=int)) * 1.7).reshape(shape) / 7


def _one(random, tensors, least_rank=0):
  """Draws the number of a tensor, later ones more often."""
  numbers = [i for i, x in enumerate(tensors) if x.shape.rank >= least_rank]
  if not numbers:
    return None
  return random.choice([*numbers, *numbers[-3:]])


# Ops of one tensor, entry by entry, of moderate values.
UNARY = {
  "cast": lambda x: tf.math.real(tf.cast(x, tf.complex128)),
  "elu": tf.nn.elu,
  "erf": tf.math.erf,
  "exp": lambda x: tf.exp(tf.tanh(x)),
  "gelu": lambda x: tf.nn.gelu(x, approximate=True),
  "identity": tf.identity,
  "leaky_relu": tf.nn.leaky_relu,
  "log1p": lambda x: tf.math.log1p(tf.square(x)),
  "negative": tf.negative,
  "ones_like": lambda x: x * tf.ones_like(x),
  "relu6": tf.nn.relu6,
  "rsqrt": lambda x: tf.math.rsqrt(tf.square(x) + 0.5),
  "selu": tf.nn.selu,
  "sigmoid": tf.sigmoid,
  "sin": tf.sin,
  "softplus": tf.nn.softplus,
  "softsign": tf.nn.softsign,
  "square": lambda x: tf.square(tf.tanh(x)),
  "stop_gradient": lambda x: x - tf.stop_gradient(x / 2.0),
  "zeros_like": lambda x: x + tf.zeros_like(x),
}
BINARY = {
  "add": tf.add,
  "atan2": lambda x, y: tf.atan2(x, 1.0 + tf.square(y)),
  "divide": lambda x, y: x / (1.0 + tf.square(y)),
  "multiply": tf.multiply,
  "squared_difference": lambda x, y: tf.math.squared_difference(
    tf.sin(x), tf.sin(y)
  ),
  "subtract": tf.subtract,
  "xlogy": lambda x, y: tf.math.xlogy(x, 1.0 + tf.square(y)),
}


def _unary(random, tensors):
  name = random.choice(sorted(UNARY))
  return Step(name, (_one(random, tensors),), UNARY[name])


def _binary(random, tensors):
  first = _one(random, tensors)
  fitting = [
    i
    for i, tensor in enumerate(tensors)
    if is_broadcast(_shape(tensors[first]), _shape(tensor))
  ]
  second = random.choice(fitting)
  name = random.choice(sorted(BINARY))
  return Step(name, (first, second), BINARY[name])


def is_broadcast(x, y):
  return all(
    a == b or 1 in (a, b) for a, b in zip(x[::-1], y[::-1], strict=False)
  )


def _select(random, tensors):
  first, other = _one(random, tensors), _one(random, tensors)
  shape = _shape(tensors[first])
  spread = _spread(shape)
  if is_broadcast(shape, _shape(tensors[other])):
    return Step(
      "where",
      (first, other),
      lambda x, y: tf.where(tf.sin(x) + spread > 0.1, x, y),
    )
  bounds = sorted(random.choices(range(-9, 10), k=2))
  return Step(
    f"clip to {bounds}",
    (first,),
    lambda x: tf.clip_by_value(x + spread, bounds[0] / 9, bounds[1] / 9),
  )


def _same_shape(random, tensors):
  first = _one(random, tensors)
  shape = _shape(tensors[first])
  fitting = [i for i, tensor in enumerate(tensors) if _shape(tensor) == shape]
  others = tuple(random.choices(fitting, k=random.randint(0, 2)))
  axis = random.randint(0, len(shape))
  makes = {
    "add_n": lambda *x: tf.add_n(x),
    f"stack {axis}": lambda *x: tf.stack(x, axis),
  }
  if axis < len(shape):
    makes[f"concat {axis}"] = lambda *x: tf.concat(x, axis)
  name = random.choice(sorted(makes))
  return Step(name, (first, *others), makes[name])


def _bias_add(random, tensors):
  value = _one(random, tensors, 2)
  fitting = [
    i
    for i, tensor in enumerate(tensors)
    if value is not None and _shape(tensor) == _shape(tensors[value])[-1:]
  ]
  if not fitting:
    return None
  bias = random.choice(fitting)
  return Step("bias_add", (value, bias), tf.nn.bias_add)


def matmul(random, tensors):
  a = _one(random, tensors, 2)
  if a is None:
    return None
  transpose_a, transpose_b = random.random() < 0.5, random.random() < 0.5
  summed = _shape(tensors[a])[-2 if transpose_a else -1]
  fitting = [
    i
    for i, tensor in enumerate(tensors)
    if tensor.shape.rank >= 2
    and _shape(tensor)[-1 if transpose_b else -2] == summed
    and is_broadcast(_shape(tensors[a])[:-2], _shape(tensor)[:-2])
  ]
  if not fitting:
    return None
  b = random.choice(fitting)
  make = functools.partial(
    tf.matmul, transpose_a=transpose_a, transpose_b=transpose_b
  )
  return Step(f"matmul {transpose_a} {transpose_b}", (a, b), make)


def einsum(random, tensors):
  """Letters are given to the dimensions of both, the same to equal sizes."""
  a, b = _one(random, tensors, 1), _one(random, tensors, 1)
  if a is None or b is None:
    return None
  size_of = dict(zip(string.ascii_letters, _shape(tensors[a]), strict=False))
  left = "".join(size_of)
  right = ""
  for size in _shape(tensors[b]):
    free = [x for x in left if size_of[x] == size and x not in right]
    fresh = string.ascii_letters[len(size_of)]
    letter = random.choice([*free, fresh])
    size_of[letter] = size
    right += letter
  kept = random.sample(sorted(size_of), random.randint(0, min(4, len(size_of))))
  equation = f"{left},{right}->{''.join(kept)}"
  return Step(
    equation,
    (a, b),
    lambda x, y: tf.raw_ops.Einsum(inputs=[x, y], equation=equation),
  )


_REDUCTIONS = {
  "reduce_any": lambda x, *over: tf.cast(
    tf.reduce_any(tf.sin(x) > 0.3, *over), _DTYPE
  ),
  "reduce_euclidean_norm": lambda x, *over: tf.math.reduce_euclidean_norm(
    x + 2.0, *over
  ),
  "reduce_logsumexp": tf.reduce_logsumexp,
  "reduce_max": tf.reduce_max,
  "reduce_mean": tf.reduce_mean,
  "reduce_min": tf.reduce_min,
  "reduce_prod": tf.reduce_prod,
  "reduce_std": lambda x, *args: tf.sqrt(
    0.1 + tf.math.reduce_variance(x, *args)
  ),
  "reduce_sum": tf.reduce_sum,
}


def _reduce(random, tensors):
  number = _one(random, tensors, 1)
  if number is None:
    return None
  shape = _shape(tensors[number])
  axes = _some_axes(random, len(shape))
  keepdims = random.random() < 0.5
  name = random.choice(sorted(_REDUCTIONS))
  jumps = name in ("reduce_any", "reduce_max", "reduce_min")
  spread = _spread(shape) if jumps else 0.0
  return Step(
    f"{name} {axes} {keepdims}",
    (number,),
    lambda x: _REDUCTIONS[name](x + spread, axes, keepdims),
  )


def _some_axes(random, rank):
  """Returns dimensions, counted from the first or the last."""
  axes = random.sample(range(rank), random.randint(1, rank))
  return [axis - random.choice([0, rank]) for axis in axes]


def _along(random, tensors):
  """Something along one dimension."""
  number = _one(random, tensors, 1)
  if number is None:
    return None
  shape = _shape(tensors[number])
  axis = random.randint(-len(shape), len(shape) - 1)
  rank, size = len(shape), shape[axis]
  middle = random.randint(0, size)
  some = random.choices(range(size), k=random.randint(1, 4))
  spread = _spread(shape)
  makes = {
    "argmax": lambda x: tf.cast(tf.argmax(x + spread, axis), _DTYPE),
    "argmin": lambda x: tf.cast(tf.argmin(x + spread, axis), _DTYPE),
    "cumsum": lambda x: tf.cumsum(x, axis),
    "expand_dims": lambda x: tf.expand_dims(x, axis),
    f"gather {some}": lambda x: tf.gather(x, some, axis=axis),
    "l2_normalize": lambda x: tf.math.l2_normalize(x, axis, 0.1),
    "log_softmax": lambda x: tf.nn.log_softmax(x, axis),
    "one_hot": lambda x: tf.one_hot(
      tf.argmax(x + spread, axis), size, axis=axis % rank, dtype=_DTYPE
    ),
    "reverse": lambda x: tf.reverse(x, [axis]),
    f"roll {middle}": lambda x: tf.roll(x, middle, axis),
    "softmax": lambda x: tf.nn.softmax(x, axis),
    f"split {middle}": lambda x: tf.split(x, [middle, size - middle], axis),
    "split evenly": lambda x: tf.split(x, size, axis),
    "unstack": lambda x: tf.unstack(x, size, axis),
  }
  name = random.choice(sorted(makes))
  return Step(f"{name} along {axis}", (number,), makes[name])


def _move(random, tensors):
  """Something that changes the shape."""
  number = _one(random, tensors, 1)
  if number is None:
    return None
  shape = _shape(tensors[number])
  rank = len(shape)
  order = random.sample(range(rank), rank)
  ones = [axis for axis, size in enumerate(shape) if size == 1]
  new_shape = _reshaped(random, shape)
  amounts = random.choices([0, 0, 1], k=rank)
  repeats = random.randint(2, 3)
  wider = [repeats if size == 1 else size for size in shape]
  paddings = [[amount, 1 - amount] for amount in amounts]
  first = [
    amount * (size > 1) for amount, size in zip(amounts, shape, strict=True)
  ]
  slices = tuple(slice(begin, None) for begin in first)
  mask = [[amount, 0] for amount in amounts]
  makes = {
    f"broadcast_to {wider}": lambda x: tf.broadcast_to(x, wider),
    f"pad {mask}": lambda x: tf.pad(x, mask),
    f"pad {paddings}": lambda x: tf.pad(x, paddings),
    f"reshape {new_shape}": lambda x: tf.reshape(x, new_shape),
    "reshape like its shape": lambda x: tf.reshape(x, tf.shape(x)) * 2.0,
    f"slices {first}": lambda x: x[slices],
    f"squeeze {ones}": lambda x: tf.squeeze(x, ones) if ones else x + 1.0,
    f"tile {amounts}": lambda x: tf.tile(x, [1 + n for n in amounts]),
    f"transpose {order}": lambda x: tf.transpose(x, order),
  }
  name = random.choice(sorted(makes))
  return Step(name, (number,), makes[name])


def _reshaped(random, shape):
  """Returns a shape of as many entries: dimensions are joined and divided."""
  sizes = list(shape)
  for _ in range(random.randint(1, 2)):
    axis = random.randint(0, len(sizes) - 1)
    size = sizes[axis]
    divisors = [n for n in range(2, size) if size % n == 0]
    if divisors and random.random() < 0.5:
      outer = random.choice(divisors)
      sizes[axis : axis + 1] = [outer, size // outer]
    elif axis + 1 < len(sizes):
      sizes[axis : axis + 2] = [size * sizes[axis + 1]]
  if random.random() < 0.5:
    sizes[random.randrange(len(sizes))] = -1
  return sizes


def _layer(random, tensors):
  """What models are made of."""
  number = _one(random, tensors, 2)
  if number is None:
    return None
  shape = _shape(tensors[number])
  classes = shape[-1]
  rows = int(np.prod(shape[:-1]))
  labels = random.choices(range(classes), k=rows)
  makes = {
    "normalised": _normalised,
    "attention": lambda x: tf.matmul(
      tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), x
    ),
    f"sparse cross-entropy {labels}": lambda x: (
      tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=np.reshape(labels, shape[:-1]), logits=x
      )
    ),
    "cross-entropy": lambda x: tf.nn.softmax_cross_entropy_with_logits(
      labels=tf.nn.softmax(tf.sin(2.0 * x)), logits=x
    ),
    "clipped": lambda x: tf.clip_by_norm(x, 0.5),
  }
  name = random.choice(sorted(makes))
  return Step(name, (number,), makes[name])


def _normalised(x):
  mean, variance = tf.nn.moments(x, [-1], keepdims=True)
  return tf.nn.batch_normalization(x, mean, variance, None, None, 0.1)


def _convolution(random, tensors):
  """Of images and filters; a filter is any tensor of four dimensions."""
  image = _one(random, tensors, 4)
  if image is None or tensors[image].shape.rank > 4:
    return None
  channels = _shape(tensors[image])[-1]
  filters = [
    i
    for i, tensor in enumerate(tensors)
    if tensor.shape.rank == 4 and _shape(tensor)[2] == channels
  ]
  name = random.choice(["conv2d", "depthwise", "max_pool", "avg_pool"])
  if name == "max_pool":
    spread = _spread(_shape(tensors[image]))
    return Step(
      name, (image,), lambda x: tf.nn.max_pool2d(x + spread, 2, 1, "SAME")
    )
  if name == "avg_pool" or not filters:
    return Step(
      "avg_pool", (image,), lambda x: tf.nn.avg_pool2d(x, 2, 1, "SAME")
    )
  used = random.choice(filters)
  if name == "conv2d":
    return Step(name, (image, used), lambda x, f: tf.nn.conv2d(x, f, 1, "SAME"))
  return Step(
    name,
    (image, used),
    lambda x, f: tf.nn.depthwise_conv2d(x, f, [1, 1, 1, 1], "SAME"),
  )


def _rows(random, tensors):
  """Something that moves rows, or sums them."""
  number = _one(random, tensors, 1)
  if number is None:
    return None
  shape = _shape(tensors[number])
  size = shape[0]
  rows = [random.choices(range(size), k=2) for _ in range(random.randint(1, 3))]
  owners = random.choices(range(3), k=size)
  to = random.sample(range(size + 2), size)
  pairs = [random.choices(range(n), k=2) for n in shape[:2]]
  lengths = random.choices(range(1, shape[-1] + 1), k=size)

  def stitched(x):
    places = tf.dynamic_partition(tf.range(size), owners, 3)
    y = tf.dynamic_stitch(places, tf.dynamic_partition(x, owners, 3))
    return tf.ensure_shape(y, shape)

  makes = {
    f"gather_nd {pairs}": lambda x: tf.gather_nd(x, np.transpose(pairs)),
    f"gather {rows}": lambda x: tf.gather(x, rows),
    f"reverse_sequence {lengths}": lambda x: (
      tf.reverse_sequence(x, lengths, len(shape) - 1, 0)
      if len(shape) > 1
      else -x
    ),
    f"scatter_nd {to}": lambda x: tf.scatter_nd(
      np.reshape(to, [-1, 1]), x, [size + 2, *shape[1:]]
    ),
    f"segment_mean {sorted(owners)}": lambda x: tf.math.unsorted_segment_mean(
      x, sorted(owners), 3
    ),
    f"segment_sum {owners}": lambda x: tf.math.unsorted_segment_sum(
      x, owners, 3
    ),
    f"stitched {owners}": stitched,
    f"tensor_scatter_nd_add {rows}": lambda x: tf.tensor_scatter_nd_add(
      x, np.array(rows)[:, :1], tf.ones([len(rows), *shape[1:]], x.dtype)
    ),
  }
  name = random.choice(sorted(makes))
  return Step(name, (number,), makes[name])


def _matrices(random, tensors):
  """Something about the last two dimensions."""
  number = _one(random, tensors, 2)
  if number is None:
    return None
  shape = _shape(tensors[number])
  spread = _spread(shape)
  lower, upper = (random.randint(-1, min(2, size)) for size in shape[-2:])
  most = random.randint(1, shape[-1])
  makes = {
    f"band_part {lower} {upper}": lambda x: tf.linalg.band_part(
      x, lower, upper
    ),
    "cond": lambda x: tf.cond(
      tf.reduce_mean(tf.sin(x)) > 0.01, lambda: tf.tanh(x), lambda: 2.0 * x
    ),
    "floor": lambda x: x + tf.floor(3.0 * x + spread),
    f"top_k {most}": lambda x: tf.math.top_k(x + spread, most).values,
  }
  name = random.choice(sorted(makes))
  return Step(name, (number,), makes[name])


_KINDS = (
  _unary,
  _binary,
  _binary,
  _select,
  _same_shape,
  _bias_add,
  matmul,
  matmul,
  einsum,
  _reduce,
  _reduce,
  _along,
  _along,
  _move,
  _move,
  _rows,
  _matrices,
  _layer,
  _convolution,
)
