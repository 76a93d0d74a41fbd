"""Reshards: where a tensor is read in another layout than it has, as data.

    slice     the parts of a tensor that is whole
    concat    the whole of one that is split
    reduce    the whole of parts that add up

A tensor that is computed and read in the same parts costs nothing. All others
are sent between devices, or wait for all slices. Reports read this list;
`lower.resharding` makes the ops by the same layouts.
"""

import dataclasses
import enum
from collections.abc import Collection, Sequence

from estimator_mp.analysis.symbolic_shapes import MEASURES, SymbolicShapes
from estimator_mp.propagate.layouts import Partial, Repeated, Shard, is_whole
from estimator_mp.propagate.propagation import Propagation
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf


class Kind(enum.Enum):
  """The kind of a reshard."""

  SLICE = "slice"
  CONCAT = "concat"
  REDUCE = "reduce"


@dataclasses.dataclass(frozen=True)
class Reshard:
  """A change of a tensor's layout over slices.

  Attributes:
    tensor: The name of the tensor of the plain graph.
    kind: The kind of the change.
    num_bytes: Those of the whole tensor; None if its sizes are not known.
    is_of_inputs: Whether it depends on inputs alone, so that no slice has to
      make it first.
    readers: The names of the ops that read the result.
  """

  tensor: str
  kind: Kind
  num_bytes: Size | None
  is_of_inputs: bool
  readers: tuple[str, ...]


def find(
  ops: Sequence[tf.Operation],
  batch: Propagation,
  of_inputs: Collection[tf.Operation],
  shapes: SymbolicShapes,
  fetched: Collection[tf.Tensor] = (),
) -> list[Reshard]:
  """Finds the reshards of a step.

  Args:
    ops: The ops of a step, each after those that it reads.
    batch: How ops are executed over slices.
    of_inputs: Ops that depend on inputs alone: their results are there whole,
      and in parts if a slice reads these.
    shapes: The sizes of tensors.
    fetched: Tensors that are read whole though no op reads them.
  """
  reads: dict[tuple[tf.Tensor, Kind], list[str]] = {}

  def join(tensor: tf.Tensor, reader: tf.Operation | None) -> None:
    layout = batch.layout(tensor)
    if tensor.op in batch.parts and not is_whole(layout):
      kind = Kind.CONCAT if isinstance(layout, Shard) else Kind.REDUCE
      readers = reads.setdefault((tensor, kind), [])
      readers += [] if reader is None else [reader.name]

  for tensor in fetched:
    if tensor.op not in of_inputs:
      join(tensor, None)
  wanted: set[tf.Operation] = set()
  for op in reversed(ops):
    parts = batch.parts.get(op)
    if op in of_inputs and op not in wanted:
      parts = None  # Nobody reads its parts.
    for index, tensor in enumerate(op.inputs):
      read = None if parts is None else parts.reads[index]
      if isinstance(read, Shard | Repeated | Partial):
        if read == batch.layout(tensor) and tensor.op in batch.parts:
          wanted.add(tensor.op)
          continue
        if isinstance(read, Shard | Repeated):
          reads.setdefault((tensor, Kind.SLICE), []).append(op.name)
      is_of_inputs = op in of_inputs or tensor.op in of_inputs
      is_size = op.type in MEASURES or tensor.op.type in MEASURES
      if not is_of_inputs and not is_size:
        join(tensor, op)
  return [
    Reshard(
      tensor.name,
      kind,
      _num_bytes(tensor, shapes),
      tensor.op in of_inputs,
      tuple(reversed(readers)),
    )
    for (tensor, kind), readers in reversed(reads.items())
  ]


def _num_bytes(tensor: tf.Tensor, shapes: SymbolicShapes) -> Size | None:
  shape = shapes.shape(tensor)
  if shape is None:
    return None
  return polynomials.product(shape) * (tensor.dtype.size or 8)
