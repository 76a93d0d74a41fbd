"""Draws: random numbers of each micro-batch's own.

A clone draws what the first micro-batch draws unless it gets another seed:

- an op with seeds of its own (`tf.random.uniform`) gets one that follows from
  its name, its seed and the micro-batch, whatever the mesh;
- an op that reads its seed (`tf.random.stateless_uniform`, the draws of a
  `tf.random.Generator`) reads one that is mixed with the micro-batch's number,
  unless micro-batches differ in the seed already;
- a function (the body of a `tf.function`, of a loop or of a branch) is made
  once more for the micro-batch, with its ops treated so; see `functions`.

What is drawn from a seed and has no examples, such as a fixed projection, is
not cloned, and so it is the same for all.
"""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator

from estimator_mp.graph import op_types

import tensorflow as tf

_MAX_SEED = 2**31 - 1


def has_seed(node: tf.compat.v1.NodeDef) -> bool:
  """Whether an op draws from a seed that it has as an attribute.

  Args:
    node: The op. With two zeros it draws other numbers in each run anyway, and
      one that is deterministic always draws the same for all examples.
  """
  attributes = node.attr
  if "seed2" not in attributes:
    return False
  is_fixed = "deterministic" in attributes and attributes["deterministic"].b
  return not is_fixed and bool(attributes["seed"].i or attributes["seed2"].i)


def reseed(node: tf.compat.v1.NodeDef, seed: int, number: int) -> None:
  """Gives an op the seed of a micro-batch.

  Args:
    node: The op; its name and second seed count.
    seed: Its second seed in the first micro-batch.
    number: The number of the micro-batch.
  """
  text = f"{node.name}/{seed}/{number}"
  node.attr["seed2"].i = zlib.crc32(text.encode()) % _MAX_SEED + 1


def mixed_seed(seed: tf.Tensor, number: int) -> tf.Tensor:
  """Returns a seed, or key, of a micro-batch.

  Args:
    seed: That of the first micro-batch.
    number: The number of the micro-batch.
  """
  return tf.bitwise.bitwise_xor(seed, tf.constant(mask(number), seed.dtype))


def mask(number: int) -> int:
  """Returns what a seed, or key, of a micro-batch is mixed with.

  Args:
    number: The number of the micro-batch.
  """
  # The same wherever it is drawn: a backward pass may draw its mask again.
  return zlib.crc32(f"micro-batch {number}".encode()) % _MAX_SEED + 1


def reads_seed(op: tf.Operation, differs: Callable[[tf.Tensor], bool]) -> bool:
  """Whether a clone of an op has to draw from a seed that is mixed.

  Args:
    op: An op that is cloned.
    differs: Whether a tensor differs between micro-batches.
  """
  index = op_types.SEED_INPUTS.get(op.type)
  return index is not None and not differs(op.inputs[index])


def is_for_examples(
  op: tf.Operation,
  differs: Callable[[tf.Tensor], bool],
  num_rows: Collection[int],
) -> bool:
  """Whether what an op draws has a row for each example of a micro-batch.

  Where the graph knows how many examples there are, the op's shape is a
  constant that does not tell.

  Args:
    op: An op that does not differ between micro-batches.
    differs: Whether a tensor differs between them.
    num_rows: How many rows the features of a micro-batch have.
  """
  return op.type in op_types.SEED_INPUTS and any(
    joins_rows(joint, num_rows) for joint in _joints(op, differs)
  )


# What was drawn, as a reader gets it, and what comes of it and of examples.
Joint = tuple[tf.TensorShape, tf.TensorShape]


def _joints(
  op: tf.Operation, differs: Callable[[tf.Tensor], bool]
) -> Iterator[Joint]:
  """Yields where what is made of draws alone meets what differs."""
  seen = {op}
  todo = [op]
  while todo:
    for tensor in todo.pop().outputs:
      for reader in tensor.consumers():
        if reader in seen or reader.type in op_types.SEEDED:
          continue
        seen.add(reader)
        if not any(differs(t) for t in reader.inputs if t.op not in seen):
          todo.append(reader)
        elif reader.type in op_types.ROW_BY_ROW:
          yield tensor.shape, reader.outputs[0].shape


def has_examples(drawn: tf.TensorShape, joints: Iterable[Joint]) -> bool:
  """Whether what is drawn with a shape that differs has rows of examples.

  Args:
    drawn: The shape.
    joints: What it is joined with.
  """
  # One row is the same for all examples, unless there is one example.
  return _num_rows(drawn) != 1 or any(
    _num_rows(joined) == 1 for _, joined in joints
  )


def joins_rows(joint: Joint, num_rows: Collection[int]) -> bool:
  """Whether each row of what was drawn is for a row of examples.

  Args:
    joint: What was drawn, and what comes of it and of examples.
    num_rows: How many rows the features of a micro-batch have.
  """
  drawn, joined = joint
  if drawn.rank is None or joined.rank is None:
    return True
  rows = _num_rows(drawn)
  if drawn.rank != joined.rank or rows is None or rows != _num_rows(joined):
    return False
  is_like_examples = any(n and rows % n == 0 for n in num_rows)
  if rows == 1:
    return is_like_examples
  return drawn.as_list() == joined.as_list() or is_like_examples


def _num_rows(shape: tf.TensorShape) -> int | None:
  """Returns the first dimension; in TensorFlow 1's behavior too, a number."""
  return shape.as_list()[0] if shape.rank else None
