"""The batch plan: the ops that are executed in parts of the batch, as data."""

import dataclasses
from collections.abc import Collection, Mapping

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Rows:
  """How slices of the batch lie in a tensor: one after another.

  Attributes:
    axis: Along which axis.
    per_example: How long the axis is for each example; None if only the session
      knows, as of examples of any length that are laid one after another.
  """

  axis: int
  per_example: int | None


# Each slice has one row.
BY_SLICE = Rows(0, 0)


@dataclasses.dataclass(frozen=True)
class Cut:
  """An operand of which each slice reads its own rows."""

  rows: Rows


@dataclasses.dataclass(frozen=True)
class Size:
  """An operand that is a shape, and names how many rows each slice has.

  Attributes:
    index: Which element of the vector does.
    per_example: How many rows those are for each example; None if only the
      session knows.
  """

  index: int
  per_example: int | None


@dataclasses.dataclass(frozen=True)
class Places:
  """An operand of indices of rows, which each slice counts from its first on.

  Attributes:
    rows: How slices lie in the indices.
    taken: The rows that each example takes of its own, from 0: a tensor of the
      plain graph, as the next one; see `plan.places`.
    offsets: Where the rows of each example begin in the whole batch.
  """

  rows: Rows
  taken: tf.Tensor
  offsets: tf.Tensor


# The replacement of an input in a slice: its rows, places in these, a shape of
# its own, or the whole tensor (None).
Reads = Cut | Places | Size | None


@dataclasses.dataclass(frozen=True)
class PartedOp:
  """An op that is done for each slice.

  Attributes:
    op: The op of the plain graph.
    reads: The replacement of each input in a slice.
    shares: For each output, whether slices add their shares of it.
    own: For each output, whether slices have one each, as the moments of a
      batch normalization per micro-batch: a reader in parts reads that of its
      slice, any other their mean, weighted by examples.
    divisor: How many entries of the whole batch a mean is of, besides those in
      `counted`; the slice's share is a sum that is divided by them. None for
      ops that are no mean over examples.
    counted: The other axes of a mean, whose sizes only the session may know.
    is_composite: Whether several ops stand for it, among which slices exchange
      results (`lower.slicing.composites`).
  """

  op: tf.Operation
  reads: tuple[Reads, ...]
  shares: tuple[bool, ...]
  own: tuple[bool, ...] = ()
  divisor: Rows | None = None
  counted: tuple[int, ...] = ()
  is_composite: bool = False


@dataclasses.dataclass(frozen=True)
class BatchPlan:
  """The ops that are executed in parts, among some ops.

  Attributes:
    ops: The ops that are, each after the ops that it reads.
    rows: How the slices lie in the outputs of these ops, by the tensors' names.
      An output that is no share, and not here, is the same in each slice.
    of_inputs: The ops among them that depend on inputs alone. Readers that need
      an output of theirs whole read the plain op's.
  """

  ops: tuple[PartedOp, ...]
  rows: Mapping[str, Rows]
  of_inputs: frozenset[tf.Operation]


@dataclasses.dataclass(frozen=True)
class BatchOps:
  """Which ops of the plain graph depend on the batch.

  Attributes:
    depends: Those that do.
    of_inputs: Those that depend on nothing but inputs, if on anything.
    whole: Those that read what slices could have, and cannot be executed in
      parts; with each, whether its sizes are known for any number of examples.
  """

  depends: Collection[tf.Operation]
  of_inputs: Collection[tf.Operation]
  whole: Mapping[tf.Operation, bool]
