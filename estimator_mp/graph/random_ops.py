"""Random ops: numbers of each micro-batch's own.

A clone draws the numbers of the first micro-batch unless its seed differs:

- an op with seeds of its own (`tf.random.uniform`) gets one that follows from
  its name, its seed and the micro-batch, whatever the mesh;
- an op that reads its seed (`tf.random.stateless_uniform`, the draws of a
  `tf.random.Generator`) reads one that is mixed with the micro-batch's number,
  unless micro-batches differ in the seed already;
- a function (the body of a `tf.function`, of a loop or of a branch) is made
  once more for the micro-batch, with its ops treated so; see `functions`.

Draws of each slice have examples; the plan says which ops make them. Other ops
draw once, for all slices.
"""

import zlib

import tensorflow as tf

_MAX_SEED = 2**31 - 1


def has_seed(node: tf.compat.v1.NodeDef) -> bool:
  """Whether an op draws from a seed that it has as an attribute.

  Args:
    node: The op. With two zeros it draws other numbers in each run anyway, and
      one that is deterministic always draws the same for all examples.
  """
  attributes = node.attr
  return may_differ(node) and bool(
    attributes["seed"].i or attributes["seed2"].i
  )


def may_differ(node: tf.compat.v1.NodeDef) -> bool:
  """Whether an op may draw other numbers for other examples.

  Args:
    node: The op.
  """
  attributes = node.attr
  is_fixed = "deterministic" in attributes and attributes["deterministic"].b
  return "seed2" in attributes and not is_fixed


def seed_of_part(node: tf.compat.v1.NodeDef, number: int) -> int:
  """Returns the second seed by which a slice draws numbers of its own.

  Args:
    node: The op.
    number: The number of the slice.
  """
  text = f"{node.name}/{node.attr['seed2'].i}/{number}"
  return zlib.crc32(text.encode()) % _MAX_SEED + 1


def mask(number: int) -> int:
  """Returns the mask that a seed, or key, of a micro-batch is mixed with.

  Args:
    number: The number of the micro-batch.
  """
  # The same wherever it is drawn: a backward pass may draw its mask again.
  return zlib.crc32(f"micro-batch {number}".encode()) % _MAX_SEED + 1
