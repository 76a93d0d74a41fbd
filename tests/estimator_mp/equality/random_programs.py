"""Draws random model_fns: of what has rules for parts of a batch, and has none.

A program is a list of steps that read what others have made, and of losses of
what nothing has read. It is drawn for a batch of a prime number of examples, so
that dimensions of examples are told from others, and is then built for batches
of any size.
"""

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from tests.estimator_mp.model_axis import random_graphs
from tests.estimator_mp.model_axis.random_graphs import Step

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

v1 = tf.compat.v1

_SEEDS = st.integers(0, 2**32 - 1)
_DTYPE = np.float64
_DRAWN = 101  # Examples of the batch for which programs are drawn.
_ROWS, _TIME, _WIDTH = 6, 3, 4
_IDS, _LABELS, _X, _SERIES, _NET = range(5)  # The first tensors of a program.
_MOST_ENTRIES = 2000  # Of a tensor, for a batch of eight examples.

MESHES = {
  "stage": {"mesh": "stage:2", "num_micro_batches": 4},
  "data": {"mesh": "data:2"},
  "data_stage": {"mesh": "data:2,stage:2", "num_micro_batches": 2},
  "stage_model": {"mesh": "stage:2,model:2", "num_micro_batches": 2},
}
# The batches of a program's steps. That of an open one is of any size.
BATCHES = {
  "static": (8, 8),
  "uneven": (7, 7),
  "open": (8, 5, 3),
}
_OPTIMIZERS: dict[str, Callable[[], Any]] = {
  "descent": lambda: v1.train.GradientDescentOptimizer(0.1),
  "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
  "adam": lambda: v1.train.AdamOptimizer(0.01, epsilon=1e-2),
}


@dataclasses.dataclass(frozen=True)
class Program:
  """A model_fn, as data, and how it is sharded.

  Attributes:
    steps: What it makes of features and labels.
    losses: How what no step reads becomes a number each, by its turn.
    num_losses: How many losses they are, each with its own request for
      gradients.
    optimizer: What trains it.
    clips: Whether gradients are clipped by their norm.
    mesh: One of `MESHES`.
    batch: One of `BATCHES`.
    seeds: What steps are drawn from, by `steps_of`: to make a program again
      that has failed.
  """

  steps: Sequence[Step]
  losses: Sequence[str]
  num_losses: int
  optimizer: str
  clips: bool
  mesh: str
  batch: str
  seeds: Sequence[int] = ()

  def batches(self) -> list[dict[str, np.ndarray]]:
    """Returns what is fed to each step."""
    rng = np.random.RandomState(5)
    return [
      {
        "ids": rng.randint(_ROWS, size=n).astype(np.int32),
        "labels": rng.uniform(-1.2, 1.2, [n]).astype(_DTYPE),
        "x": rng.uniform(-1.2, 1.2, [n, _WIDTH]).astype(_DTYPE),
        "series": rng.uniform(-1.2, 1.2, [n, _TIME, _WIDTH]).astype(_DTYPE),
      }
      for n in BATCHES[self.batch]
    ]

  def inputs(self) -> dict[str, tf.Tensor]:
    """Returns placeholders for a batch."""
    is_open = self.batch == "open"
    return {
      name: v1.placeholder(
        value.dtype, [None if is_open else len(value), *value.shape[1:]], name
      )
      for name, value in self.batches()[0].items()
    }

  def model_fn(self, features, labels, mode):
    """Is the model_fn."""
    tensors = [features["ids"], labels, features["x"], features["series"]]
    tensors.append(_layer("first", tensors[_X]))
    unread = {}
    for step in self.steps:
      made = _as_list(step.make(*(tensors[i] for i in step.inputs)))
      for number in step.inputs:
        unread.pop(number, None)
      new = range(len(tensors), len(tensors) + len(made))
      unread |= dict.fromkeys(new)
      tensors += made
    # Whatever else happens, two layers are trained.
    tensors.append(_layer("last", tensors[_NET]))
    unread[len(tensors) - 1] = None
    terms = [
      LOSSES[self.losses[i % len(self.losses)]](tensors[number])
      for i, number in enumerate(unread)
    ]
    losses = [
      tf.add_n(terms[i :: self.num_losses]) / len(terms)
      for i in range(min(self.num_losses, len(terms)))
    ]
    return self._trained(mode, losses)

  def _trained(self, mode, losses):
    optimizers = [_OPTIMIZERS[self.optimizer]() for _ in losses]
    pairs = []
    for optimizer, loss in zip(optimizers, losses, strict=True):
      of_loss = optimizer.compute_gradients(loss)
      of_loss = [(g, v) for g, v in of_loss if g is not None]
      if self.clips and of_loss:
        gradients, variables = zip(*of_loss, strict=True)
        gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
        of_loss = [*zip(gradients, variables, strict=True)]
      pairs.append(of_loss)
    # What nothing orders is a race, in a plain run as well.
    waits = [*losses, *v1.get_collection(v1.GraphKeys.UPDATE_OPS)]
    waits += tf.nest.flatten(
      [g for of_loss in pairs for g, _ in of_loss], expand_composites=True
    )
    step = v1.train.get_global_step()
    train_op = tf.no_op()
    for optimizer, of_loss in zip(optimizers, pairs, strict=True):
      if of_loss:
        with tf.control_dependencies([*waits, train_op]):
          train_op = optimizer.apply_gradients(of_loss)
    with tf.control_dependencies([train_op]):
      train_op = step.assign_add(1)
    return tf.estimator.EstimatorSpec(
      mode, loss=tf.add_n(losses), train_op=train_op
    )


@st.composite
def programs(draw, num_steps=20):
  """Draws a program.

  Args:
    draw: Draws.
    num_steps: The most steps it has.
  """
  seeds = draw(
    st.lists(_SEEDS, min_size=num_steps // 2, max_size=num_steps, unique=True)
  )
  return Program(
    steps_of(seeds),
    draw(st.lists(st.sampled_from(sorted(LOSSES)), min_size=1, max_size=4)),
    draw(st.integers(1, 2)),
    draw(st.sampled_from(sorted(_OPTIMIZERS))),
    draw(st.booleans()),
    draw(st.sampled_from(sorted(MESHES))),
    draw(st.sampled_from(sorted(BATCHES))),
    seeds,
  )


def _as_list(made):
  return [made] if isinstance(made, tf.Tensor) else list(made)


def steps_of(seeds):
  """Returns steps, made to see which shapes their tensors have.

  Args:
    seeds: Those of a `Program`.
  """
  steps = []
  with tf.Graph().as_default():
    tensors = [
      v1.placeholder(tf.int32, [_DRAWN]),
      v1.placeholder(_DTYPE, [_DRAWN]),
      v1.placeholder(_DTYPE, [_DRAWN, _WIDTH]),
      v1.placeholder(_DTYPE, [_DRAWN, _TIME, _WIDTH]),
      v1.placeholder(_DTYPE, [_DRAWN, _WIDTH]),
    ]
    for seed in seeds:
      random = Random(seed)
      kind = random.choice(_KINDS)
      step = kind(random, tensors, f"w{seed}")
      if step is None:
        continue
      inputs = [tensors[i] for i in step.inputs]
      made = _as_list(step.make(*inputs))
      if all(map(_is_fit, made)):
        steps.append(step)
        tensors += made
  return steps


def _is_fit(tensor):
  """Whether a tensor is of a known size, and small."""
  if not tensor.shape.is_fully_defined() or tensor.shape.rank > 4:
    return False
  entries = 1.0
  for size in _shape(tensor):
    entries *= size * 8 / _DRAWN if size > _DRAWN // 3 else size
  return 0 < entries <= _MOST_ENTRIES


def _shape(tensor):
  return tensor.shape.as_list()


def _is_of_batch(size):
  return size % _DRAWN == 0


def _floats(tensors, least_rank=0):
  return [
    i for i, x in enumerate(tensors) if i != _IDS and x.shape.rank >= least_rank
  ]


def _one(random, tensors, least_rank=0):
  """Draws the number of a tensor, later ones more often."""
  numbers = _floats(tensors, least_rank)
  return random.choice([*numbers, *numbers[-4:]])


def _by_rows(random, tensors, most=_DRAWN):
  """Draws the number of a tensor with an example in each row.

  Args:
    random: Draws.
    tensors: Those there are.
    most: The largest size of another dimension.
  """
  numbers = [
    i
    for i in _floats(tensors, 1)
    if _shape(tensors[i])[0] == _DRAWN
    and all(size <= most for size in _shape(tensors[i])[1:])
  ]
  return random.choice([*numbers, *numbers[-4:]])


def _sizes(x):
  """Returns the shape, numbers where the graph knows them."""
  known = x.shape.as_list()
  return [tf.shape(x)[i] if n is None else n for i, n in enumerate(known)]


def _squash(x):
  return x * tf.math.rsqrt(1.0 + tf.square(x))


def _spread(x):
  """Adds what no two entries have in common.

  Where a result jumps, as the place of a maximum does, equal entries would be
  told apart by their rounding.
  """
  numbers = tf.cast(tf.range(tf.size(x)), x.dtype)
  return x + tf.reshape(tf.cos(numbers * 1.7) / 7.0, tf.shape(x))


def variable(name, shape, **options):
  """Returns a variable whose first values follow from its name."""
  rng = np.random.RandomState(zlib.crc32(name.encode()))
  values = rng.uniform(-0.8, 0.8, shape).astype(_DTYPE)
  return v1.get_variable(
    name, initializer=values, **({"use_resource": True} | options)
  )


def _layer(name, x, width=_WIDTH, activation=tf.tanh):
  """A dense layer on the last dimension, of which the graph may not know."""
  kernel = variable(f"{name}_kernel", [width, _WIDTH])
  bias = variable(f"{name}_bias", [_WIDTH])
  net = tf.tensordot(x, kernel, 1) if x.shape.rank > 2 else tf.matmul(x, kernel)
  return activation(net + bias)


# --- Steps: those of any op, in groups --------------------------------------


def _unary(random, tensors, name):
  what = random.choice(sorted(random_graphs.UNARY))
  return Step(what, (_one(random, tensors),), random_graphs.UNARY[what])


def _binary(random, tensors, name):
  first = _one(random, tensors)
  fitting = [
    i
    for i in _floats(tensors)
    if random_graphs.is_broadcast(_shape(tensors[first]), _shape(tensors[i]))
  ]
  what = random.choice(sorted(random_graphs.BINARY))
  return Step(what, (first, random.choice(fitting)), random_graphs.BINARY[what])


def _select(random, tensors, name):
  first, other = _one(random, tensors), _one(random, tensors)
  if random_graphs.is_broadcast(_shape(tensors[first]), _shape(tensors[other])):
    return Step(
      "where",
      (first, other),
      lambda x, y: tf.where(tf.sin(_spread(x)) > 0.1, x, y),
    )
  return Step(
    "clip", (first,), lambda x: tf.clip_by_value(_spread(x), -0.4, 0.5)
  )


def _same_shape(random, tensors, name):
  first = _one(random, tensors)
  shape = _shape(tensors[first])
  fitting = [i for i in _floats(tensors) if _shape(tensors[i]) == shape]
  others = tuple(random.choices(fitting, k=random.randint(0, 2)))
  axis = random.randint(0, len(shape))
  makes = {
    "add_n": lambda *x: tf.add_n(x),
    f"stack {axis}": lambda *x: tf.stack(x, axis),
  }
  if axis < len(shape):
    makes[f"concat {axis}"] = lambda *x: tf.concat(x, axis)
  return _chosen(random, makes, (first, *others))


def _concat(random, tensors, name):
  """Of what differs in size only along one axis."""
  first = _one(random, tensors, 1)
  shape = _shape(tensors[first])
  axis = random.randrange(len(shape))

  def rest(sizes):
    return [*sizes[:axis], *sizes[axis + 1 :]]

  fitting = [
    i
    for i in _floats(tensors, 1)
    if len(_shape(tensors[i])) == len(shape)
    and rest(_shape(tensors[i])) == rest(shape)
  ]
  other = random.choice(fitting)
  return Step(f"concat {axis}", (first, other), lambda *x: tf.concat(x, axis))


def _chosen(random, makes, inputs):
  name = random.choice(sorted(makes))
  return Step(name, inputs, makes[name])


def _product(random, tensors, name):
  kind = random.choice([random_graphs.matmul, random_graphs.einsum])
  floats = _floats(tensors)
  step = kind(random, [tensors[i] for i in floats])
  if step is None:
    return None
  make = step.make
  return Step(
    step.name,
    tuple(floats[i] for i in step.inputs),
    lambda *x: _squash(make(*x)),
  )


_REDUCTIONS: dict[str, Callable[..., Any]] = {
  "all": lambda x, *over: tf.cast(
    tf.reduce_all(tf.sin(_spread(x)) > -0.9, *over), _DTYPE
  ),
  "any": lambda x, *over: tf.cast(
    tf.reduce_any(tf.sin(_spread(x)) > 0.7, *over), _DTYPE
  ),
  "count": lambda x, *over: (
    tf.cast(tf.math.count_nonzero(_spread(x) > 0.2, *over), _DTYPE) / 9.0
  ),
  "euclidean_norm": lambda x, *over: tf.math.reduce_euclidean_norm(
    x + 2.0, *over
  ),
  "logsumexp": tf.reduce_logsumexp,
  "max": lambda x, *over: tf.reduce_max(_spread(x), *over),
  "mean": tf.reduce_mean,
  "min": lambda x, *over: tf.reduce_min(_spread(x), *over),
  "prod": tf.reduce_prod,
  "root": lambda x, *over: tf.sqrt(0.1 + tf.reduce_mean(tf.square(x), *over)),
  "std": lambda x, *over: tf.sqrt(0.1 + tf.math.reduce_variance(x, *over)),
  "sum": lambda x, *over: _squash(tf.reduce_sum(x, *over)),
}


def _reduce(random, tensors, name):
  number = _one(random, tensors, 1)
  rank = len(_shape(tensors[number]))
  over = random.sample(range(rank), random.randint(1, rank))
  over = [axis - random.choice([0, rank]) for axis in over]
  keepdims = random.random() < 0.5
  what = random.choice(sorted(_REDUCTIONS))
  return Step(
    f"reduce_{what} {over} {keepdims}",
    (number,),
    lambda x: _REDUCTIONS[what](x, over, keepdims),
  )


def _along(random, tensors, name):
  """Something along one dimension, of examples or not."""
  number = _one(random, tensors, 1)
  shape = _shape(tensors[number])
  rank = len(shape)
  axis = random.randint(-rank, rank - 1)

  def some(begin, end, step=1):
    return (slice(None),) * (axis % rank) + (slice(begin, end, step),)

  def half(x):
    return _sizes(x)[axis] // 2

  def differences(x):
    n = half(x)
    size = _sizes(x)[axis]
    return x[some(None, n)] - x[some(size - n, None)]

  def by_place(x):
    n = _sizes(x)[axis]
    weights = tf.cast(tf.range(n), x.dtype) / tf.cast(n, x.dtype)
    wide = [1] * rank
    wide[axis] = -1
    return x * tf.reshape(weights, wide)

  def permuted(x):
    n = _sizes(x)[axis]
    return tf.gather(x, (tf.range(n) + 1) % n, axis=axis)

  def running(x):
    return _squash(tf.cumsum(x, axis))

  size = shape[axis]
  makes = {
    "argmax": lambda x: tf.cast(tf.argmax(_spread(x), axis), _DTYPE) / 8.0,
    "by_place": by_place,
    "cumsum": running,
    "cumprod": lambda x: tf.math.cumprod(tf.sin(x), axis, exclusive=True),
    "differences of halves": differences,
    "differences of neighbours": lambda x: x[some(1, None)] - x[some(None, -1)],
    "every other": lambda x: x[some(None, None, 2)],
    "expand_dims": lambda x: tf.expand_dims(x, axis),
    "first": lambda x: tf.gather(x, 0, axis=axis),
    "first two": lambda x: x[some(None, 2)],
    "halves": lambda x: (x[some(None, half(x))], x[some(half(x), None)]),
    "l2_normalize": lambda x: tf.math.l2_normalize(x, axis, 0.1),
    "last": lambda x: tf.gather(x, _sizes(x)[axis] - 1, axis=axis),
    "log_softmax": lambda x: _squash(tf.nn.log_softmax(x, axis)),
    "moments": lambda x: tf.nn.moments(x, [axis], keepdims=True),
    "normalized": lambda x: _normalized(x, [axis]),
    "permuted": permuted,
    "repeat": lambda x: tf.repeat(x, 2, axis % rank),
    "reverse": lambda x: tf.reverse(x, [axis]),
    "reverse by slices": lambda x: x[some(None, None, -1)],
    "roll": lambda x: tf.roll(x, 1, axis),
    "softmax": lambda x: tf.nn.softmax(x, axis),
    "sort": lambda x: tf.sort(_spread(x), axis),
    "sum over others": lambda x: _squash(
      tf.reduce_sum(x, axis, keepdims=True) - x
    ),
    "tile": lambda x: tf.tile(
      x, [1] * (axis % rank) + [2] + [1] * (rank - axis % rank - 1)
    ),
    "without the last": lambda x: x[some(None, -1)],
  }
  if size % 2 == 0:
    makes["split in two"] = lambda x: tf.split(x, 2, axis)
  if size <= _ROWS:
    makes["unstack"] = lambda x: tf.unstack(x, size, axis)
  step = _chosen(random, makes, (number,))
  return dataclasses.replace(step, name=f"{step.name} along {axis}")


def _normalized(x, axes):
  mean, variance = tf.nn.moments(x, axes, keepdims=True)
  return tf.nn.batch_normalization(x, mean, variance, None, None, 0.1)


def _move(random, tensors, name):
  """Something that changes the shape."""
  number = _one(random, tensors, 1)
  shape = _shape(tensors[number])
  rank = len(shape)
  order = random.sample(range(rank), rank)
  ones = [axis for axis, size in enumerate(shape) if size == 1]
  joined = random.randrange(max(1, rank - 1))
  amounts = [[random.randint(0, 1), random.randint(0, 1)] for _ in shape]

  def join_two(x):
    if rank == 1:
      return tf.reshape(x, [1, -1])
    sizes = _sizes(x)
    sizes[joined : joined + 2] = [-1]
    return tf.reshape(x, sizes)

  def divided(x):
    """The last dimension, in two."""
    sizes = _sizes(x)
    if isinstance(sizes[-1], int) and sizes[-1] % 2:
      return x + 0.1  # It depends on the batch, in a sum.
    return tf.reshape(x, [*sizes[:-1], 2, sizes[-1] // 2])

  def rows_first(x):
    axis = _rows_of(x, shape)
    return tf.reshape(x, [_sizes(x)[axis], -1])

  def rows_last(x):
    axis = _rows_of(x, shape)
    return tf.reshape(x, [-1, _sizes(x)[axis]])

  makes = {
    "flatten": lambda x: tf.reshape(x, [-1]),
    f"join {joined}": join_two,
    f"join {joined} by a name": lambda x: tf.reshape(
      x,
      [
        *_sizes(x)[:joined],
        tf.reduce_prod(tf.shape(x)[joined : joined + 2]),
        *_sizes(x)[joined + 2 :],
      ]
      if rank > 1
      else [-1],
    ),
    f"pad {amounts}": lambda x: tf.pad(x, amounts),
    "reshape like its shape": lambda x: tf.reshape(x, tf.shape(x)) * 0.9,
    f"rows last as they are {shape[-1]}": lambda x: tf.reshape(
      x, [-1, x.shape[-1]] if x.shape[-1] is not None else [1, -1]
    ),
    f"squeeze {ones}": lambda x: tf.squeeze(x, ones) if ones else x + 0.1,
    f"transpose {order}": lambda x: tf.transpose(x, order),
    f"transposed {order}": lambda x: tf.transpose(x, order),
  }
  if shape[-1] % 2 == 0 and not _is_of_batch(shape[-1]):
    makes["divided"] = divided
  if any(map(_is_of_batch, shape)):
    makes["rows first"] = rows_first
    makes["rows last"] = rows_last
  return _chosen(random, makes, (number,))


def _rows_of(x, drawn):
  del x
  return next(i for i, size in enumerate(drawn) if _is_of_batch(size))


def _indexed(random, tensors, name):
  """Something with the ids of examples."""
  number = _by_rows(random, tensors, 2 * _ROWS)
  shape = _shape(tensors[number])
  some = random.choices(range(_ROWS), k=2)

  def looked_up(ids, x):
    del x
    return tf.nn.embedding_lookup(variable(name, [_ROWS, _WIDTH]), ids)

  def counts(ids, x):
    del x
    _, places, number = tf.unique_with_counts(ids)
    return tf.cast(tf.gather(number, places), _DTYPE) / 8.0

  def others(ids, x):
    return tf.gather(x, ids % tf.shape(x)[0])

  def partitioned(ids, x):
    places = tf.dynamic_partition(tf.range(tf.shape(x)[0]), ids % 2, 2)
    parts = tf.dynamic_partition(x, ids % 2, 2)
    made = tf.dynamic_stitch(places, [parts[0] * 2.0, tf.sin(parts[1])])
    return tf.ensure_shape(tf.reshape(made, tf.shape(x)), x.shape)

  def centered(ids, x):
    means = tf.math.unsorted_segment_mean(x, ids, _ROWS)
    return x - tf.gather(means, ids)

  def by_number(ids, x):
    n = tf.shape(x)[0]
    made = tf.math.unsorted_segment_sum(x, ids % n, n)
    return tf.ensure_shape(_squash(tf.reshape(made, tf.shape(x))), x.shape)

  def words(ids, x):
    text = tf.strings.join(["id", tf.strings.as_string(ids)])
    buckets = tf.strings.to_hash_bucket_fast(text, _ROWS)
    return x * _wide(tf.gather(tf.linspace(0.1, 1.0, _ROWS), buckets), x)

  def masked(ids, x):
    mask = tf.cast(tf.sequence_mask(ids, 3, _DTYPE), _DTYPE)
    return _wide(tf.reduce_sum(mask, 1), x) * x

  def sparse(ids, x):
    of_ids = tf.sparse.from_dense(tf.one_hot(ids, _ROWS, dtype=_DTYPE))
    table = variable(name, [_ROWS, 3])
    return tf.sparse.sparse_dense_matmul(of_ids, table), x * 0.9

  def scattered(ids, x):
    return _squash(tf.scatter_nd(ids[:, tf.newaxis], x, [_ROWS, *shape[1:]]))

  def updated(ids, x):
    n = tf.shape(x)[0]
    return _squash(tf.tensor_scatter_nd_add(x, ids[:, tf.newaxis] % n, x))

  def ordered_segments(ids, x):
    del ids
    n = tf.shape(x)[0]
    pairs = tf.math.segment_mean(x, tf.range(n) // 2)
    return tf.gather(pairs, tf.range(n) // 2)

  makes = {
    "bincount": lambda ids, x: (
      tf.math.bincount(ids, minlength=_ROWS, maxlength=_ROWS, dtype=tf.float64)
      / 8.0
    ),
    "by_number": by_number,
    "centered": centered,
    "counts": counts,
    "looked up": looked_up,
    "looked up again": lambda ids, x: (
      tf.nn.embedding_lookup(variable(name, [_ROWS, *shape[1:]]), ids) + x
    ),
    "masked": masked,
    "of own rows": lambda ids, x: (
      tf.gather_nd(x, tf.stack([tf.range(tf.shape(x)[0]), ids % 2], 1))
      if len(shape) > 1 and shape[1] > 1
      else x * 0.5
    ),
    "one_hot": lambda ids, x: (
      tf.einsum("n...,nk->k...", x, tf.one_hot(ids, _ROWS, dtype=_DTYPE)) / 4.0
    ),
    "one_hot of places": lambda ids, x: (
      tf.tensordot(
        tf.one_hot(tf.range(tf.shape(x)[0]) // 2, 4, dtype=_DTYPE), x, [0, 0]
      )
      / 4.0
    ),
    "ordered_segments": ordered_segments,
    "others": others,
    "partitioned": partitioned,
    "scattered": scattered,
    "segment_max": lambda ids, x: tf.maximum(
      tf.math.unsorted_segment_max(x, ids, _ROWS), -2.0
    ),
    "segment_sum": lambda ids, x: (
      tf.math.unsorted_segment_sum(x, ids, _ROWS) / 4.0
    ),
    f"some {some}": lambda ids, x: (
      tf.gather(tf.math.unsorted_segment_sum(x, ids, _ROWS), some) / 4.0
    ),
    "sparse": sparse,
    "updated": updated,
    "weights of classes": lambda ids, x: (
      x
      * _wide(
        tf.gather(
          1.0 / (1.0 + tf.reduce_sum(tf.one_hot(ids, _ROWS, dtype=_DTYPE), 0)),
          ids,
        ),
        x,
      )
    ),
    "words": words,
  }
  return _chosen(random, makes, (_IDS, number))


def _wide(weights, x):
  """Returns a weight of each example, of the rank of x."""
  sizes = [-1] + [1] * (x.shape.rank - 1)
  return tf.reshape(tf.cast(weights, x.dtype), sizes)


def _picked(random, tensors, name):
  """Something about rows that are picked by what they hold."""
  number = _by_rows(random, tensors)

  def score(x):
    flat = tf.reshape(x, [tf.shape(x)[0], -1])
    return _spread(tf.reduce_sum(flat, 1))

  def mean_of_masked(x):
    kept = tf.boolean_mask(x, score(x) > 0.1)
    number = tf.cast(tf.shape(kept)[0], x.dtype)
    return tf.reduce_sum(tf.tanh(kept), 0) / (1.0 + number)

  def sum_of_where(x):
    places = tf.where(score(x) > 0.1)
    return _squash(tf.reduce_sum(tf.gather_nd(x, places), 0))

  def counted(x):
    kept = tf.boolean_mask(x, score(x) > 0.1)
    return tf.cast(tf.size(kept), x.dtype) / tf.cast(tf.size(x), x.dtype)

  def hardest(x):
    values, places = tf.math.top_k(score(x), 2)
    return values, tf.gather(x, places)

  def half(x):
    values, _ = tf.math.top_k(score(x), tf.shape(x)[0] // 2)
    return _squash(tf.reduce_mean(values))

  def above_median(x):
    values = tf.sort(score(x))
    middle = values[tf.shape(x)[0] // 2]
    return x * _wide(tf.cast(score(x) >= middle, x.dtype), x)

  def ordered(x):
    return tf.gather(x, tf.argsort(score(x)))

  def ranks(x):
    places = tf.argsort(tf.argsort(score(x)))
    return x * _wide(tf.cast(places, x.dtype) / 8.0, x)

  def mixed(x):
    return 0.7 * x + 0.3 * tf.reverse(tf.stop_gradient(x), [0])

  def back(x):
    places = tf.where(score(x) > 0.1)
    found = tf.gather_nd(x, places)
    zeros = tf.scatter_nd(places, found, tf.shape(x, tf.int64))
    return tf.ensure_shape(zeros, x.shape)

  def unique(x):
    places = tf.cast(tf.floor(2.0 * score(x)), tf.int32)
    _, own = tf.unique(places)
    return x * _wide(tf.cast(own, x.dtype) / 8.0, x)

  makes = {
    "above_median": above_median,
    "back": back,
    "counted": counted,
    "half": half,
    "hardest": hardest,
    "mean_of_masked": mean_of_masked,
    "mixed": mixed,
    "ordered": ordered,
    "ranks": ranks,
    "sum_of_where": sum_of_where,
    "unique": unique,
  }
  return _chosen(random, makes, (number,))


def _pairs(random, tensors, name):
  """Something about all pairs of examples, or all of them at once."""
  numbers = [
    i
    for i in _floats(tensors, 2)
    if _shape(tensors[i])[0] == _DRAWN
    and len(_shape(tensors[i])) == 2
    and _shape(tensors[i])[1] <= 2 * _ROWS
  ]
  number = random.choice([*numbers, *numbers[-3:]])
  width = _shape(tensors[number])[1]

  def eye(x):
    return tf.eye(tf.shape(x)[0], dtype=x.dtype)

  def contrast(x):
    scores = tf.matmul(x, x, transpose_b=True) - 9.0 * eye(x)
    return tf.reduce_logsumexp(scores, 1) / 9.0

  def in_batch(x):
    scores = tf.matmul(x, tf.sin(x), transpose_b=True)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
      labels=tf.range(tf.shape(x)[0]), logits=scores
    )

  def covariance(x):
    centered = x - tf.reduce_mean(x, 0)
    n = tf.cast(tf.shape(x)[0], x.dtype)
    return tf.matmul(centered, centered, transpose_a=True) / (n - 1.0)

  def whitened(x):
    matrix = covariance(x) + tf.eye(width, dtype=x.dtype)
    lower = tf.linalg.cholesky(matrix)
    return tf.transpose(tf.linalg.triangular_solve(lower, tf.transpose(x)))

  def log_determinant(x):
    gram = tf.matmul(x, x, transpose_b=True) + 2.0 * eye(x)
    return tf.linalg.logdet(gram) / 9.0

  def solved(x):
    gram = tf.matmul(x, x, transpose_b=True) + 2.0 * eye(x)
    return tf.linalg.solve(gram, x)

  def singular(x):
    return tf.linalg.svd(covariance(x), compute_uv=False)

  makes = {
    "contrast": contrast,
    "covariance": covariance,
    "in_batch": in_batch,
    "inverse": lambda x: tf.linalg.inv(
      covariance(x) + tf.eye(width, dtype=x.dtype)
    ),
    "distances": lambda x: tf.reduce_mean(
      tf.abs(x[:, tf.newaxis] - x[tf.newaxis]), 2
    ),
    "log_determinant": log_determinant,
    "singular": singular,
    "solved": solved,
    "whitened": whitened,
  }
  return _chosen(random, makes, (number,))


def _flow(random, tensors, name):
  """Loops, conds, functions."""
  number = _by_rows(random, tensors, 2 * _ROWS)
  shape = _shape(tensors[number])

  def cond_of_batch(x):
    return tf.cond(
      tf.reduce_mean(tf.sin(x)) > 0.01,
      lambda: tf.tanh(x),
      lambda: 0.5 * x,
    )

  def cond_mixes(x):
    return tf.cond(
      tf.shape(x)[0] > 4,
      lambda: tf.nn.softmax(x, 0),
      lambda: x - tf.reduce_mean(x, 0),
    )

  def cond_weights(x):
    scale = variable(name, shape[1:])
    return tf.cond(
      tf.reduce_max(_spread(x)) > 0.6,
      lambda: x * scale,
      lambda: tf.sin(x) + scale,
    )

  def cond_of_number(x):
    # The sum of a normalized batch is 0 but for rounding, which has any sign.
    return tf.cond(
      tf.reduce_sum(x) > 0.01, lambda: tf.reduce_mean(x), lambda: x_first(x)
    )

  def x_first(x):
    return tf.reduce_sum(x[0]) / 4.0

  def powers(x):
    return tf.while_loop(
      lambda i, y: i < 3,
      lambda i, y: (i + 1, tf.tanh(y + 0.5 * x)),
      [0, x],
    )[1]

  def until(x):
    """As often as the batch says."""
    return tf.while_loop(
      lambda i, y: tf.logical_and(i < 5, tf.reduce_mean(tf.abs(y)) > 0.3),
      lambda i, y: (i + 1, 0.8 * y),
      [0, x],
    )[1]

  def mixes(x):
    return tf.while_loop(
      lambda i, y: i < 2,
      lambda i, y: (i + 1, tf.tanh(2.0 * y - tf.reduce_mean(y, 0))),
      [0, x],
    )[1]

  def over_examples(x):
    """A running sum, example by example."""

    def body(i, total, found):
      total = 0.5 * total + x[i]
      return i + 1, total, found.write(i, total)

    n = tf.shape(x)[0]
    rows = tf.TensorArray(x.dtype, n, element_shape=x.shape[1:])
    start = tf.zeros(shape[1:], x.dtype)
    loop = tf.while_loop(lambda i, *_: i < n, body, [0, start, rows])
    return tf.ensure_shape(loop[2].stack(), x.shape)

  def called(x):
    @tf.function
    def inner(y):
      return tf.sin(y) * 0.9

    return inner(x)

  def called_mixes(x):
    @tf.function
    def inner(y):
      return y - tf.reduce_mean(y, 0)

    return inner(x)

  def called_loss(x):
    @tf.function
    def inner(y, z):
      return tf.reduce_mean(tf.square(y - tf.sin(z)))

    return inner(x, x * 0.3)

  def scan(x):
    return tf.scan(lambda a, y: 0.5 * a + y, x)

  def mapped(x):
    return tf.ensure_shape(
      tf.map_fn(lambda y: tf.sin(y) - tf.reduce_mean(y), x), x.shape
    )

  def case(x):
    return tf.switch_case(
      tf.shape(x)[0] % 2, [lambda: tf.tanh(x), lambda: x[::-1]]
    )

  makes = {
    "called": called,
    "called_loss": called_loss,
    "called_mixes": called_mixes,
    "case": case,
    "cond_mixes": cond_mixes,
    "cond_of_batch": cond_of_batch,
    "cond_of_number": cond_of_number,
    "cond_weights": cond_weights,
    "mapped": mapped,
    "mixes": mixes,
    "over_examples": over_examples,
    "powers": powers,
    "scan": scan,
    "until": until,
  }
  step = _chosen(random, makes, (number,))
  make = step.make
  return dataclasses.replace(step, make=lambda x: _reshaped_if_open(make(x), x))


def _reshaped_if_open(made, x):
  """Gives what a cond has made the static shape that it has."""
  if made.shape.rank is None:
    made = tf.ensure_shape(made, x.shape)
  return made


def _recurrent(random, tensors, name):
  """Loops over the second dimension."""
  numbers = [
    i
    for i in _floats(tensors, 3)
    if len(_shape(tensors[i])) == 3
    and _shape(tensors[i])[0] == _DRAWN
    and max(_shape(tensors[i])[1:]) <= 2 * _ROWS
  ]
  number = random.choice(numbers)
  _, steps, width = _shape(tensors[number])

  def cell(x):
    kernel = variable(f"{name}_x", [width, _WIDTH])
    own = variable(f"{name}_h", [_WIDTH, _WIDTH])
    state = tf.zeros([tf.shape(x)[0], _WIDTH], x.dtype)
    by_time = tf.transpose(x, [1, 0, 2])

    def body(i, h, found):
      h = tf.tanh(tf.matmul(by_time[i], kernel) + tf.matmul(h, own))
      return i + 1, h, found.write(i, h)

    rows = tf.TensorArray(x.dtype, steps, element_shape=[x.shape[0], _WIDTH])
    loop = tf.while_loop(lambda i, *_: i < steps, body, [0, state, rows])
    made = tf.transpose(loop[2].stack(), [1, 0, 2])
    return (
      tf.ensure_shape(loop[1], [x.shape[0], _WIDTH]),
      tf.ensure_shape(made, [x.shape[0], steps, _WIDTH]),
    )

  def attention(x):
    scores = tf.matmul(x, x, transpose_b=True)
    return tf.matmul(tf.nn.softmax(scores), x)

  def convolution(x):
    kernel = variable(f"{name}_k", [2, width, 3])
    return tf.tanh(tf.nn.conv1d(x, kernel, 1, "SAME"))

  def pooled(x):
    return tf.nn.avg_pool1d(x, 2, 1, "VALID") if steps > 1 else x

  def lengths(x):
    sizes = 1 + tf.range(tf.shape(x)[0]) % steps
    return tf.reverse_sequence(x, sizes, 1, 0)

  def layer(x):
    return _layer(name, x, width)

  makes = {
    "attention": attention,
    "cell": cell,
    "convolution": convolution,
    "layer": layer,
    "lengths": lengths,
    "pooled": pooled,
  }
  return _chosen(random, makes, (number,))


def _trainable(random, tensors, name):
  """Layers, and variables by themselves."""
  number = _one(random, tensors, 2)
  shape = _shape(tensors[number])
  if any(_is_of_batch(x) or x > 2 * _ROWS for x in shape[-1:]):
    return None
  is_resource = random.random() < 0.7

  def batch_norm(x):
    scale = variable(f"{name}_scale", shape[-1:])
    mean, variance = tf.nn.moments(x, [*range(len(shape) - 1)])
    old = variable(f"{name}_mean", shape[-1:], trainable=False)
    update = old.assign(0.9 * old.read_value() + 0.1 * mean)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return tf.nn.batch_normalization(x, mean, variance, None, scale, 0.1)

  def layer_norm(x):
    scale = variable(f"{name}_scale", shape[-1:])
    return _normalized(x, [-1]) * scale

  def alone(x):
    return variable(name, [shape[-1], 3], use_resource=is_resource), x * 0.9

  makes = {
    "batch_norm": batch_norm,
    "layer": lambda x: _layer(name, x, shape[-1]),
    "layer of relu": lambda x: _layer(name, x, shape[-1], tf.nn.relu),
    "layer_norm": layer_norm,
    "scaled": lambda x: (
      x * variable(name, shape[-1:], use_resource=is_resource)
    ),
    "variable": alone,
  }
  return _chosen(random, makes, (number,))


def _updates(random, tensors, name):
  """Writes variables that nothing trains."""
  number = _by_rows(random, tensors, 2 * _ROWS)
  shape = _shape(tensors[number])

  def of_rows():
    return variable(name, shape[1:], trainable=False)

  def update(op):
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, op)
    return op

  def average(ids, x):
    own = of_rows()
    old = own.read_value()
    update(own.assign(0.9 * old + 0.1 * tf.reduce_mean(x, 0)))
    return x - old

  def read_after(ids, x):
    own = of_rows()
    new = 0.9 * own.read_value() + 0.1 * tf.reduce_mean(x, 0)
    with tf.control_dependencies([update(own.assign(new))]):
      return x * own.read_value()

  def counter(ids, x):
    own = variable(name, [], trainable=False)
    number = tf.cast(tf.shape(x)[0], x.dtype)
    update(own.assign_add(number / 8.0))
    return tf.sin(x)

  def codes(ids, x):
    """A row of a table for each id, which the batch moves."""
    own = variable(name, [_ROWS, *shape[1:]], trainable=False)
    rows = tf.gather(own.read_value(), ids)
    sums = tf.math.unsorted_segment_sum(x - rows, ids, _ROWS)
    with tf.control_dependencies([rows]):
      update(own.assign_add(0.1 * sums))
    return x - rows

  def scattered(ids, x):
    own = variable(name, [_ROWS, *shape[1:]], trainable=False)
    old = own.read_value()
    with tf.control_dependencies([old]):
      update(own.scatter_add(tf.IndexedSlices(0.1 * x, ids)))
    return x * tf.gather(old, ids)

  def largest(ids, x):
    own = variable(name, [], trainable=False)
    old = own.read_value()
    update(own.assign(tf.maximum(old, tf.reduce_max(_spread(x)))))
    return x / (1.0 + tf.square(old))

  def summary(ids, x):
    v1.summary.scalar(name, tf.reduce_mean(x))
    v1.summary.histogram(f"{name}_all", x)
    return tf.tanh(x)

  makes = {
    "average": average,
    "codes": codes,
    "counter": counter,
    "largest": largest,
    "read_after": read_after,
    "scattered": scattered,
    "summary": summary,
  }
  return _chosen(random, makes, (_IDS, number))


def _unknown(random, tensors, name):
  """Ops that do anything: nobody can know what."""
  number = _by_rows(random, tensors)

  def by_numpy(function, is_stateful=True):
    def make(x):
      made = tf.numpy_function(function, [x], x.dtype, stateful=is_stateful)
      made.set_shape(x.shape)
      return made + 0.5 * x

    return make

  def by_python(x):
    # TensorFlow takes its gradient once; others may be asked for.
    y = tf.stop_gradient(x)
    made = tf.py_function(lambda y: y - tf.reduce_mean(y, 0), [y], x.dtype)
    made.set_shape(x.shape)
    return made + 0.5 * x

  def a_number(x):
    made = tf.numpy_function(lambda y: np.median(y), [x], x.dtype)
    made.set_shape([])
    return x - made

  @tf.custom_gradient
  def own_gradient(x):
    def gradient(dy):  # A sparse one, too.
      return tf.convert_to_tensor(dy) - tf.reduce_mean(dy, 0)

    return tf.sin(x), gradient

  @tf.custom_gradient
  def reversed_gradient(x):
    return tf.identity(x), lambda dy: -0.5 * tf.convert_to_tensor(dy)

  def clipped(x):
    return _clipped_gradient(x)

  def checked(x):
    is_right = tf.reduce_all(tf.abs(x) < 1e6)
    with tf.control_dependencies([v1.Assert(is_right, [x])]):
      return tf.identity(x)

  makes = {
    "a_number": a_number,
    "by_python": by_python,
    "centered": by_numpy(lambda x: x - x.mean(0)),
    "checked": checked,
    "clipped": clipped,
    "own_gradient": own_gradient,
    "reversed": by_numpy(lambda x: x[::-1]),
    "reversed_gradient": reversed_gradient,
    "sorted": by_numpy(lambda x: np.sort(x, 0)),
    "stateless": by_numpy(lambda x: x / (1.0 + np.abs(x).max()), False),
  }
  return _chosen(random, makes, (number,))


@tf.custom_gradient
def _clipped_gradient(x):
  return tf.tanh(x), lambda dy: tf.clip_by_norm(dy, 0.01)


def _gradients(random, tensors, name):
  """Gradients that the model itself asks for."""
  numbers = [
    i
    for i in _floats(tensors, 2)
    if len(_shape(tensors[i])) == 2
    and _shape(tensors[i])[0] == _DRAWN
    and _shape(tensors[i])[1] <= 2 * _ROWS
  ]
  number = random.choice([*numbers, *numbers[-3:]])
  width = _shape(tensors[number])[1]

  def net(x):
    kernel = variable(name, [width, 3])
    return kernel, tf.tanh(tf.matmul(x, kernel))

  def penalty(x):
    """Of each example's gradient with respect to what is made of it."""
    y = tf.identity(x)
    _, made = net(y)
    (gradient,) = tf.gradients(tf.reduce_sum(tf.square(made)), [y])
    return tf.sqrt(0.1 + tf.reduce_sum(tf.square(gradient), 1))

  def of_weights(x):
    kernel, made = net(x)
    (gradient,) = tf.gradients(tf.reduce_mean(tf.square(made)), [kernel])
    return tf.reduce_sum(tf.square(gradient)), made

  def adversarial(x):
    y = tf.identity(x)
    _, made = net(y)
    (gradient,) = tf.gradients(tf.reduce_mean(tf.square(made)), [y])
    step = tf.stop_gradient(tf.math.l2_normalize(gradient, epsilon=0.01))
    return net_again(x + 0.1 * step)

  def net_again(x):
    with v1.variable_scope(v1.get_variable_scope(), reuse=True):
      kernel = v1.get_variable(name, [width, 3], _DTYPE)
    return tf.sin(tf.matmul(x, kernel))

  def taped(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      made = tf.reduce_mean(tf.sin(x))
    return x - tape.gradient(made, x)

  makes = {
    "adversarial": adversarial,
    "of_weights": of_weights,
    "penalty": penalty,
    "taped": taped,
  }
  return _chosen(random, makes, (number,))


_KINDS = (
  _along,
  _along,
  _along,
  _binary,
  _binary,
  _binary,
  _concat,
  _flow,
  _flow,
  _gradients,
  _indexed,
  _indexed,
  _indexed,
  _move,
  _move,
  _pairs,
  _picked,
  _picked,
  _product,
  _product,
  _recurrent,
  _reduce,
  _reduce,
  _reduce,
  _same_shape,
  _select,
  _trainable,
  _trainable,
  _unary,
  _unary,
  _unknown,
  _updates,
)

# What becomes of a tensor in the loss.
LOSSES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
  "largest": lambda x: tf.tanh(tf.reduce_max(_spread(x))),
  "logsumexp": lambda x: tf.reduce_logsumexp(x) / 8.0,
  "mean": lambda x: tf.reduce_mean(tf.tanh(x)),
  "mean of rows": lambda x: tf.reduce_mean(
    tf.square(tf.reduce_mean(tf.tanh(x), 0) if x.shape.rank else x * 0.5)
  ),
  "root": lambda x: tf.sqrt(0.1 + tf.reduce_mean(tf.square(tf.tanh(x)))),
  "squares": lambda x: tf.reduce_mean(tf.square(tf.tanh(x) - 0.3)),
  "sum": lambda x: tf.reduce_sum(tf.tanh(x)) / 16.0,
}
