"""Rules for products of matrices: Einstein sums of two tensors, and their kin.

A dimension of the result that is split leaves the parts of the result; one that
is summed over leaves a sum over devices. Other functions of a matrix, as its
inverse, are computed of each matrix of a batch.
"""

from collections.abc import Sequence
from typing import TypeAlias

from estimator_mp.model_axis import axes, choices
from estimator_mp.model_axis.decisions import (
  Operand,
  Output,
  Partial,
  PerPart,
  Replicate,
  Shard,
  Shards,
  Table,
)

import tensorflow as tf

TABLE = Table()

# A dimension: a letter, or if it may be repeated for that of another operand,
# its place from the last, counted down from -1.
_Label: TypeAlias = str | int
_Labels: TypeAlias = tuple[_Label, ...]


@TABLE.rule("MatMul", "SparseMatMul")
def _matmul(op: tf.Operation, splits: Shards) -> PerPart | None:
  a = ("k", "m") if op.get_attr("transpose_a") else ("m", "k")
  b = ("n", "k") if op.get_attr("transpose_b") else ("k", "n")
  return _contraction(op, splits, [a, b], ("m", "n"))


@TABLE.rule("BatchMatMul")
def _batch_matmul(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Both operands have the same batch dimensions."""
  rank = op.inputs[0].shape.rank
  if rank is None or rank != op.inputs[1].shape.rank:
    return None
  batch = tuple(f"batch {axis}" for axis in range(rank - 2))
  a, b = _matrices(op)
  return _contraction(op, splits, [batch + a, batch + b], (*batch, "m", "n"))


@TABLE.rule("BatchMatMulV2", "BatchMatMulV3")
def _broadcast_matmul(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Batch dimensions are broadcast."""
  ranks = [tensor.shape.rank for tensor in op.inputs]
  if None in ranks:
    return None
  batches = [tuple(range(2 - rank, 0)) for rank in ranks]
  a, b = _matrices(op)
  return _contraction(
    op,
    splits,
    [batches[0] + a, batches[1] + b],
    (*max(batches, key=len), "m", "n"),
  )


def _matrices(op: tf.Operation) -> tuple[_Labels, _Labels]:
  """Returns the labels of the last two dimensions of both operands."""
  a = ("k", "m") if op.get_attr("adj_x") else ("m", "k")
  b = ("n", "k") if op.get_attr("adj_y") else ("k", "n")
  return a, b


@TABLE.rule("Einsum")
def _einsum(op: tf.Operation, splits: Shards) -> PerPart | None:
  equation = op.get_attr("equation").decode()
  left, _, right = equation.partition("->")
  operands = [
    _labels(term, tensor.shape.rank)
    for term, tensor in zip(left.split(","), op.inputs, strict=True)
  ]
  known = [labels for labels in operands if labels is not None]
  if len(known) < len(operands):
    return None
  repeated = [
    sum(isinstance(label, int) for label in labels) for labels in known
  ]
  named = len(right.replace("...", ""))
  result = _labels(right, max(repeated) + named if "..." in right else named)
  return None if result is None else _contraction(op, splits, known, result)


def _labels(term: str, rank: int | None) -> _Labels | None:
  """Returns the dimensions of one operand of an equation.

  Args:
    term: Such as "bij" or "...ij".
    rank: The rank of the operand.

  Returns:
    A label for each dimension; None if the rank is not known.
  """
  if rank is None:
    return None
  before, dots, after = term.partition("...")
  repeated = range(len(before) + len(after) - rank, 0) if dots else ()
  return (*before, *repeated, *after)


def _contraction(
  op: tf.Operation,
  splits: Shards,
  operands: Sequence[_Labels],
  result: _Labels,
) -> PerPart | None:
  """Decides along one of the dimensions that are split.

  Args:
    op: A sum of products, with a label for each dimension of its operands.
    splits: How each of its inputs is split.
    operands: The labels of each input's dimensions.
    result: Those of the output's. Over labels that are not among them products
      are summed.

  Returns:
    The one that sends the fewest bytes. A sum over what only one operand is
    split in may send more than to gather that operand: then None.
  """
  if any(tensor.shape.rank is None for tensor in op.inputs):
    return None
  decisions = [
    decision
    for labels, split in zip(operands, splits, strict=True)
    if split is not None
    and (
      decision := _along(op, labels[split.axis], split.sizes, operands, result)
    )
  ]
  return choices.cheapest(op, splits, decisions)


def _along(
  op: tf.Operation,
  label: _Label,
  sizes: tuple[int, ...],
  operands: Sequence[_Labels],
  result: _Labels,
) -> PerPart | None:
  """Returns what becomes of a product that is split in a dimension.

  A diagonal is not split. An operand with a size of its own in the dimension is
  repeated, or it is unknown whether it is.
  """
  if max(labels.count(label) for labels in (*operands, result)) > 1:
    return None
  reads: list[Operand] = []
  for tensor, labels in zip(op.inputs, operands, strict=True):
    if label not in labels:
      reads.append(Replicate())
      continue
    split = Shard(labels.index(label), sizes)
    size = axes.size(tensor, split.axis)
    if size == split.size or (size is None and isinstance(label, str)):
      reads.append(split)
    elif size == 1 and isinstance(label, int):
      reads.append(Replicate())
    else:
      return None
  if label in result:
    output: Output = Shard(result.index(label), sizes)
  elif isinstance(label, str):
    output = Partial()
  else:
    return None
  return PerPart(tuple(reads), (output,))


@TABLE.rule("SparseTensorDenseMatMul")
def _sparse_matmul(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Columns of the dense operand are columns of the result."""
  *sparse, dense = splits
  columns = 0 if op.get_attr("adjoint_b") else 1
  if any(sparse) or dense is None or dense.axis != columns:
    return None
  return PerPart((Replicate(), Replicate(), Replicate(), dense), (dense.at(1),))


@TABLE.rule("Cross")
def _cross(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Of vectors in the last dimension, of which there are as many in both."""
  rank = op.inputs[0].shape.rank
  if rank is None or op.inputs[1].shape.rank is None:
    return None

  def along(split: Shard) -> PerPart | None:
    if split.axis == rank - 1:
      return None
    return PerPart((split, split), (split,))

  return choices.least_gathered(op, splits, along)


# How many of the last dimensions of what an op reads, and makes, are no batch.
_OF_BATCHES = {
  **dict.fromkeys(
    (
      "Cholesky",
      "CholeskyGrad",
      "LogMatrixDeterminant",
      "MatrixDeterminant",
      "MatrixInverse",
      "MatrixLogarithm",
      "MatrixSolve",
      "MatrixSquareRoot",
      "MatrixTriangularSolve",
      "Qr",
    ),
    2,
  ),
  "FFT": 1,
  "FFT2D": 2,
  "FFT3D": 3,
  "IFFT": 1,
  "IFFT2D": 2,
  "IFFT3D": 3,
}


@TABLE.rule(*_OF_BATCHES)
def _batch(op: tf.Operation, splits: Shards) -> PerPart | None:
  """All inputs and outputs have the same batch dimensions."""
  split = axes.only(splits)
  ranks = {tensor.shape.rank for tensor in op.inputs}
  if split is None or len(ranks) > 1:
    return None
  rank = ranks.pop()
  if rank is None or split.axis >= rank - _OF_BATCHES[op.type]:
    return None
  # One that is repeated is not there in parts.
  if any(axes.size(x, split.axis) != split.size for x in op.inputs):
    return None
  return PerPart((split,) * len(op.inputs), (split,) * len(op.outputs))


@TABLE.rule("SelfAdjointEigV2", "Svd")
def _factors(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Values of each matrix of a batch, with vectors if these are wanted."""
  (split,) = splits
  rank = op.inputs[0].shape.rank
  if split is None or rank is None or split.axis >= rank - 2:
    return None
  wanted = op.get_attr("compute_uv" if op.type == "Svd" else "compute_v")
  if not wanted and any(tensor.consumers() for tensor in op.outputs[1:]):
    return None  # Kernels leave open what that is.
  vectors = split if wanted else Replicate()
  outputs = (split, *[vectors] * (len(op.outputs) - 1))
  return PerPart((split,), outputs)


# The inputs of recurrent cells that have no row for each sequence.
_OF_CELLS = frozenset(
  ("seq_len_max", "w", "wci", "wcf", "wco", "b", "w_ru", "w_c", "b_ru", "b_c")
)
_OF_START = frozenset(("cs_prev", "h_prev", "cs_prev_grad", "h_prev_grad"))


@TABLE.rule(
  "BlockLSTM",
  "BlockLSTMGrad",
  "BlockLSTMGradV2",
  "BlockLSTMV2",
  "GRUBlockCell",
  "GRUBlockCellGrad",
  "LSTMBlockCell",
  "LSTMBlockCellGrad",
)
def _cell(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Sequences by themselves; of weights each has a share of the gradient.

  The inputs and outputs of a cell are [sequences, units] in one step, and
  [steps, sequences, units] in all steps of sequences.
  """

  def axis_of(name: str) -> int:
    return int(op.type.startswith("Block") and name not in _OF_START)

  names = [argument.name for argument in op.op_def.input_arg]
  sizes: set[tuple[int, ...]] = set()
  for name, split in zip(names, splits, strict=True):
    if split is None:
      continue
    if name in _OF_CELLS or split.axis != axis_of(name):
      return None
    sizes.add(split.sizes)
  if len(sizes) != 1 or 0 in (of_all := sizes.pop()):
    return None
  return PerPart(
    tuple(
      Replicate() if name in _OF_CELLS else Shard(axis_of(name), of_all)
      for name in names
    ),
    tuple(
      Partial()
      if argument.name.removesuffix("_grad") in _OF_CELLS
      else Shard(axis_of(argument.name), of_all)
      for argument in op.op_def.output_arg
    ),
  )
