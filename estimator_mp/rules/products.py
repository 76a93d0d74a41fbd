"""Rules for products of matrices, and for other functions of matrices."""

from compat.private import op_registry
from estimator_mp.rules.rule import Label, Reduction, Rule, Whole
from estimator_mp.rules.table import Shapes, Table

import tensorflow as tf

TABLE = Table("""
MatMul SparseMatMul:
  m k ~transpose_a, k n ~transpose_b -> m n; sum, bilinear
BatchMatMul: b... m k ~adj_x, b... k n ~adj_y -> b... m n; sum, bilinear
BatchMatMulV2 BatchMatMulV3:
  ... m k ~adj_x, ... k n ~adj_y -> ... m n; sum, bilinear

Cross: ... X, ... X -> ... X; bilinear

Cholesky MatrixInverse MatrixLogarithm MatrixSquareRoot: b... M N -> b... M N
CholeskyGrad: b... M N, b... M N -> b... M N
LogMatrixDeterminant: b... _ _ -> b..., b...
MatrixDeterminant: b... _ _ -> b...
MatrixSolve: b... M _, b... M n -> b... M n
MatrixTriangularSolve: ... M _, ... M n -> ... M n
Qr: b... _ _ -> b... _ _, b... _ _

FFT IFFT: b... X -> b... X; linear
FFT2D IFFT2D: b... X Y -> b... X Y; linear
FFT3D IFFT3D: b... X Y Z -> b... X Y Z; linear
""")


@TABLE.rule("SparseTensorDenseMatMul")
def _sparse_product(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """By columns of the dense matrix; the sparse one says how many rows."""
  columns: tuple[Label, ...] = ("K", "n")
  if op.get_attr("adjoint_b"):
    columns = ("n", "K")
  value = shapes.value(op.inputs[2])
  sizes = {}
  if value is not None and value.shape == (2,):
    sizes[0, 0] = value[1 if op.get_attr("adjoint_a") else 0]
  return Rule((Whole(), Whole(), Whole(), columns), ((None, "n"),), sizes=sizes)


@TABLE.rule("Einsum")
def _einsum(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """As the equation says; a label that one operand has twice is a diagonal."""
  left, _, right = op.get_attr("equation").decode().partition("->")
  inputs: list[tuple[Label, ...]] = []
  for term, tensor in zip(left.split(","), op.inputs, strict=True):
    shape = shapes.shape(tensor)
    if shape is None:
      return None
    named = len(term.replace("...", ""))
    inputs.append(_letters(term, len(shape) - named))
  repeated = max(sum(x.startswith("...") for x in labels) for labels in inputs)
  output = _letters(right, repeated)
  twice = {
    label
    for labels in (*inputs, output)
    for label in labels
    if labels.count(label) > 1
  }

  def free(labels: tuple[Label, ...]) -> tuple[Label | None, ...]:
    return tuple(None if label in twice else label for label in labels)

  return Rule(
    tuple(map(free, inputs)),
    (free(output),),
    Reduction.SUM,
    tuple(frozenset([i]) for i in range(len(inputs))),
  )


def _letters(term: str, repeated: int) -> tuple[Label, ...]:
  """Returns the labels of one operand of an equation, such as "...ij"."""
  before, dots, after = term.partition("...")
  between = [f"...{i}" for i in range(repeated, 0, -1)] if dots else []
  # Its letters of both cases are labels along which tensors may be split.
  return (*_named(before), *between, *_named(after))


def _named(letters: str) -> list[Label]:
  return [f"{x}_" if x.islower() else f"{x.lower()}__" for x in letters]


@TABLE.rule("SelfAdjointEigV2", "Svd")
def _factors(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Values of each matrix of a batch, with vectors if these are wanted."""
  shape = shapes.shape(op.inputs[0])
  if shape is None:
    return None
  batch = tuple(f"b{i}" for i in range(len(shape) - 2))
  is_wanted = op.get_attr("compute_uv" if op.type == "Svd" else "compute_v")
  vectors = (
    (*batch, None, None) if is_wanted else None
  )  # Kernels leave it open.
  others = (vectors,) * (len(op.outputs) - 1)
  return Rule(((*batch, None, None),), ((*batch, None), *others))


# Inputs of recurrent cells that have no row for each sequence, and those that
# have one for the whole sequence, not for each step.
_WEIGHTS = frozenset(
  ("seq_len_max", "w", "wci", "wcf", "wco", "b", "w_ru", "w_c", "b_ru", "b_c")
)
_STARTS = frozenset(("cs_prev", "h_prev", "cs_prev_grad", "h_prev_grad"))


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
def _cell(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Sequences by themselves; of weights each has a share of the gradient.

  The inputs and outputs of a cell are [sequences, units] in one step, and
  [steps, sequences, units] in all steps of sequences.
  """

  def labels(name: str) -> tuple[Label | None, ...]:
    has_steps = op.type.startswith("Block") and name not in _STARTS
    return ("T", "n", None) if has_steps else ("n", None)

  return Rule(
    tuple(
      Whole() if x.name in _WEIGHTS else labels(x.name)
      for x in op_registry.definition_of(op).input_arg
    ),
    tuple(
      (None,) * (tensor.shape.rank or 0)
      if x.name.removesuffix("_grad") in _WEIGHTS
      else labels(x.name)
      for x, tensor in zip(
        op_registry.definition_of(op).output_arg, op.outputs, strict=True
      )
    ),
    Reduction.SUM,
    nonempty=True,
  )
