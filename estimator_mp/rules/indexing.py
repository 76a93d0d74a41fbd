"""Rules for ops that take, or put, entries at indices.

Each part takes entries at its own indices from all rows, or from its own
columns. Entries that parts put at indices add up, or the largest stays.
"""

from estimator_mp.graph import op_types
from estimator_mp.rules import places
from estimator_mp.rules.rule import Label, Reduction, Rule, SizesOf, Whole
from estimator_mp.rules.shapes import dict_of, entries, number, numbered
from estimator_mp.rules.table import Shapes, Table

import tensorflow as tf

TABLE = Table("""
MatrixBandPart: b... M N, =, = -> b... M N; linear(0)
MatrixDiagPart: b... _ _ -> b... _; linear
MatrixDiagPartV2 MatrixDiagPartV3: b... _ _, =, = -> b... _ _
MatrixDiag: b... M -> b... M M; linear
MatrixSetDiag: b... M N, b... _ -> b... M N; linear

SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum: _ d..., = -> _ d...
SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum: _ d..., =, = -> _ d...
SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments SparseSegmentSqrtNGrad
  SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad:
  _ d..., =, =, = -> _ d...
SparseSegmentSumWithNumSegments: _ d..., r, r, = -> _ d...; sum
""")


@TABLE.rule("Gather", "GatherV2")
def _gather(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Entries of one dimension, by indices of all or of each row of a batch."""
  values, indices = map(shapes.shape, op.inputs[:2])
  if values is None or indices is None:
    return None
  axis, num_batch = 0, 0
  if op.type == "GatherV2":
    named = number(shapes, op.inputs[2])
    if named is None:
      return None
    axis, num_batch = named % len(values), op.get_attr("batch_dims")
    num_batch += len(indices) if num_batch < 0 else 0
  of_values: list[Label | None] = [*numbered(len(values))]
  of_values[axis] = None
  picks = [*numbered(len(indices), "i")]
  picks[:num_batch] = of_values[:num_batch]
  by_example = axis == num_batch == 0 and places.begin_with_examples(
    op.inputs[1], values[0], shapes
  )
  if by_example:
    of_values[0] = picks[0] = "rows"
  output = (*of_values[:axis], *picks[num_batch:], *of_values[axis + 1 :])
  others = [Whole()] * (len(op.inputs) - 2)
  linear = (frozenset([0]),) if op.inputs[0].dtype.is_floating else ()
  return Rule(
    (tuple(of_values), tuple(picks), *others),
    (output,),
    None,
    linear,
    {(0, 0): indices[0]} if by_example else {},
    is_proportional=by_example,
    places=(1, "rows", values[0]) if by_example else None,
  )


@TABLE.rule("ResourceGather")
def _gather_rows(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Rows of a variable, or the columns of them that a part has."""
  values = shapes.variable_shape(op.inputs[0])
  indices = shapes.shape(op.inputs[1])
  num_batch = op.get_attr("batch_dims")
  if values is None or indices is None or num_batch < 0:
    return None
  table: list[Label | None] = [*numbered(len(values))]
  table[num_batch] = None
  picks = [*numbered(len(indices), "i")]
  picks[:num_batch] = table[:num_batch]
  output = (*table[:num_batch], *picks[num_batch:], *table[num_batch + 1 :])
  return Rule(
    (tuple(table), tuple(picks)),
    (output,),
    sizes={
      (0, len(output) - i): values[len(values) - i]
      for i in range(1, len(values) - num_batch)
    },
  )


@TABLE.rule("GatherNd", "ResourceGatherNd")
def _gather_vectors(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Vectors in the last dimension are indices of the first dimensions."""
  read = shapes.shape if op.type == "GatherNd" else shapes.variable_shape
  values, indices = read(op.inputs[0]), shapes.shape(op.inputs[1])
  if values is None or not indices or not isinstance(indices[-1], int):
    return None
  depth = indices[-1]
  of_values = (None,) * depth + numbered(len(values) - depth)
  picks = numbered(len(indices) - 1, "i")
  return Rule(
    (of_values, (*picks, None)),
    ((*picks, *of_values[depth:]),),
    nonempty=True,
    linear=(frozenset([0]),) if op.type == "GatherNd" else (),
  )


@TABLE.rule("ScatterNd")
def _scatter(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Updates of the same place add up."""
  indices, updates = map(shapes.shape, op.inputs[:2])
  sizes = entries(shapes, op.inputs[2])
  if not indices or updates is None or not isinstance(indices[-1], int):
    return None
  picks = numbered(len(indices) - 1, "i")
  dims = numbered(len(updates) - len(picks))
  output = ((None,) * indices[-1] + dims,)
  dtype = op.inputs[1].dtype
  adds = dtype.is_floating or dtype.is_integer or dtype.is_complex
  return Rule(
    ((*picks, None), (*picks, *dims), Whole() if sizes is None else SizesOf()),
    output,
    Reduction.SUM if adds else None,
    (frozenset([1]),),
    dict_of(sizes or []),
    nonempty=True,
  )


@TABLE.rule(
  "TensorScatterAdd",
  "TensorScatterMax",
  "TensorScatterMin",
  "TensorScatterSub",
  "TensorScatterUpdate",
)
def _tensor_scatter(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Columns by themselves: rows that are put may be anywhere."""
  values, indices = map(shapes.shape, op.inputs[:2])
  if values is None or not indices or not isinstance(indices[-1], int):
    return None
  depth = indices[-1]
  of_values = (None,) * depth + numbered(len(values) - depth)
  updates = (None,) * (len(indices) - 1) + of_values[depth:]
  return Rule((of_values, Whole(), updates), (of_values,), nonempty=True)


@TABLE.rule("LookupTableFindV2")
def _find(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """The values of keys, each of which is a scalar, in a lookup table."""
  table = op.inputs[0].op
  keys, default = map(shapes.shape, op.inputs[1:])
  if table.type not in op_types.TABLES_OF_SCALARS or keys is None:
    return None
  # Otherwise there is a default for each key.
  names_shape = "value_shape" in table.node_def.attr
  shape = tf.TensorShape(table.get_attr("value_shape") if names_shape else [])
  if shape.rank is None or default is None or len(default) != shape.rank:
    return None
  labels = numbered(len(keys), "i")
  output = labels + (None,) * shape.rank
  return Rule((Whole(), labels, Whole()), (output,))


@TABLE.rule("OneHot")
def _one_hot(op: tf.Operation, shapes: Shapes) -> Rule | None:
  indices, depth = shapes.shape(op.inputs[0]), entries(shapes, op.inputs[1])
  if indices is None:
    return None
  labels = numbered(len(indices), "i")
  axis = op.get_attr("axis") % (len(labels) + 1)
  return Rule(
    (labels, SizesOf(0, (axis,)), Whole(), Whole()),
    ((*labels[:axis], "depth", *labels[axis:]),),
    sizes={(0, axis): depth[0]} if depth else {},
    owned=(0, "depth"),
  )


@TABLE.rule("ReverseSequence")
def _reverse_sequence(op: tf.Operation, shapes: Shapes) -> Rule | None:
  shape = shapes.shape(op.inputs[0])
  if shape is None:
    return None
  of_steps = op.get_attr("seq_dim") % len(shape)
  labels = tuple(
    f"D{i}" if i == of_steps else f"d{i}" for i in range(len(shape))
  )
  batch = labels[op.get_attr("batch_dim") % len(shape)]
  return Rule((labels, (batch,)), (labels,), None, (frozenset([0]),))


@TABLE.rule("MatrixDiagV2", "MatrixDiagV3")
def _of_diagonals(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Matrices are the last two dimensions, made of one diagonal or of a band."""
  shape, rank = shapes.shape(op.inputs[0]), op.outputs[0].shape.rank
  if shape is None or rank is None:
    return None
  batch = numbered(rank - 2, "b")
  of_diagonals = batch + (None,) * (len(shape) - len(batch))
  others = [Whole()] * (len(op.inputs) - 1)
  return Rule((of_diagonals, *others), ((*batch, None, None),))


@TABLE.rule("MatrixSetDiagV2", "MatrixSetDiagV3")
def _put_diagonals(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Matrices, and for each of them one diagonal or a band."""
  matrices, diagonals = map(shapes.shape, op.inputs[:2])
  if matrices is None or diagonals is None:
    return None
  batch = numbered(len(matrices) - 2, "b")
  labels = (*batch, "M", "N")
  of_diagonals = batch + (None,) * (len(diagonals) - len(batch))
  return Rule((labels, of_diagonals, Whole()), (labels,))


_REDUCTIONS = {
  "UnsortedSegmentMax": Reduction.MAX,
  "UnsortedSegmentMin": Reduction.MIN,
  "UnsortedSegmentProd": Reduction.PRODUCT,
  "UnsortedSegmentSum": Reduction.SUM,
}


@TABLE.rule(*_REDUCTIONS)
def _unsorted_segments(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Segments are of all dimensions of the ids; parts of rows are reduced.

  A segment that a part has no row of is neutral there: it changes no sum, or
  product, maximum or minimum.
  """
  values, ids = map(shapes.shape, op.inputs[:2])
  count = entries(shapes, op.inputs[2])
  if values is None or ids is None:
    return None
  rows, columns = numbered(len(ids), "r"), numbered(len(values) - len(ids))
  if count and places.begin_with_examples(op.inputs[1], count[0], shapes):
    return Rule(
      (rows + columns, rows, SizesOf(0, (0,))),
      ((rows[0], *columns),),
      sizes={(0, 0): count[0]},
      is_proportional=True,
      places=(1, "r0", count[0]),
    )
  return Rule(
    (rows + columns, rows, SizesOf(0, (0,))),
    (("segments", *columns),),
    _REDUCTIONS[op.type],
    (frozenset([0]),) if op.type == "UnsortedSegmentSum" else (),
    {(0, 0): count[0]} if count else {},
    owned=(1, "segments"),
  )


@TABLE.rule("DynamicPartition")
def _partition(op: tf.Operation, shapes: Shapes) -> Rule | None:
  values, ids = map(shapes.shape, op.inputs)
  if values is None or ids is None:
    return None
  columns = numbered(len(values) - len(ids))
  of_values = (None,) * len(ids) + columns
  return Rule((of_values, Whole()), ((None, *columns),) * len(op.outputs))


@TABLE.rule("DynamicStitch", "ParallelDynamicStitch")
def _stitch(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Rows of any number, at places that indices say."""
  count = len(op.inputs) // 2
  of_inputs = [shapes.shape(tensor) for tensor in op.inputs]
  if None in of_inputs:
    return None
  ranks = [len(x or ()) for x in of_inputs]
  columns = numbered(ranks[count] - ranks[0])
  rows = tuple((None,) * rank + columns for rank in ranks[:count])
  return Rule((*[Whole()] * count, *rows), ((None, *columns),))
