"""Rules for ops that take, or put, entries at indices.

As long as indices are not of the split dimension, each part takes from, or puts
into, its own entries. Of rows that are split, each part takes those that it
has, and they are put together on the first device: so the gradient of a part is
of the rows that were taken of it. Where indices are split, parts take for their
own, of all there is, and what they put makes a sum.
"""

from estimator_mp.graph import op_types
from estimator_mp.model_axis import axes, choices
from estimator_mp.model_axis.decisions import (
  Composite,
  Decision,
  OnPart,
  Operand,
  OwnShard,
  Partial,
  PartInputs,
  PartOutputs,
  PerPart,
  Reduction,
  Replicate,
  Resized,
  Shard,
  Shards,
  Shifted,
  Table,
)
from estimator_mp.model_axis.rules import reductions

import tensorflow as tf

TABLE = Table()


@TABLE.rule("Gather", "GatherV2")
def _gather(op: tf.Operation, splits: Shards) -> Decision | None:
  params, indices, *rest = splits
  ranks = [tensor.shape.rank for tensor in op.inputs]
  if None in ranks[:2] or any(rest):
    return None
  axis, batch_dims = 0, 0
  if op.type == "GatherV2":
    named = axes.constant_axes(op.inputs[2], ranks[0])
    if named is None:
      return None
    axis = named[0]
    batch_dims = op.get_attr("batch_dims")
    batch_dims += ranks[1] if batch_dims < 0 else 0
  others = (Replicate(),) * (len(op.inputs) - 2)
  if any(x is not None and x.axis < batch_dims for x in (params, indices)):
    batch = axes.only([params, indices])
    if batch is None:
      return None
    return PerPart((batch, batch, *others), (batch,))
  if params is None and indices is not None:
    rows = indices.at(axis + indices.axis - batch_dims)
    return PerPart((Replicate(), indices, *others), (rows,))
  if params is None or indices is not None:
    return None
  if params.axis == axis:
    return _gather_entries(op, params, axis, batch_dims)
  output = params.axis
  if params.axis > axis:
    output += ranks[1] - batch_dims - 1
  return PerPart((params, Replicate(), *others), (params.at(output),))


def _gather_entries(
  op: tf.Operation, params: Shard, axis: int, batch_dims: int
) -> Composite | None:
  """Returns how entries of the split dimension are taken.

  Args:
    op: The op.
    params: How what they are taken of is split.
    axis: The dimension.
    batch_dims: How many leading dimensions are those of the indices, too.
  """
  of_rows = not axis and not batch_dims
  dtype = op.inputs[0].dtype
  if not (of_rows or dtype.is_floating or dtype.is_integer):
    return None
  if not all(params.sizes):
    return None
  if op.inputs[1].dtype not in (tf.int32, tf.int64):
    return None

  def build(
    op: tf.Operation, inputs: PartInputs, on_part: OnPart
  ) -> PartOutputs:
    places: list[tf.Tensor] = []
    found: list[tf.Tensor] = []
    for part, size in enumerate(params.sizes):
      with on_part(part):
        entries, local = inputs[part][:2]
        # An index in no part is an error in the first, or the last one's op.
        is_own = tf.fill(tf.shape(local), True)
        if part:
          is_own &= local >= 0
        if part < len(params.sizes) - 1:
          is_own &= local < tf.constant(size, local.dtype)
        if of_rows:
          places.append(tf.where(tf.reshape(is_own, [-1]))[:, 0])
          own = tf.gather(tf.reshape(local, [-1]), places[-1])
          found.append(tf.gather(entries, own))
        else:
          own = tf.where(is_own, local, tf.zeros_like(local))
          taken = tf.gather(entries, own, axis=axis, batch_dims=batch_dims)
          for _ in range(batch_dims, axis):
            is_own = tf.expand_dims(is_own, batch_dims)
          for _ in range(axis + 1, op.inputs[0].shape.rank):
            is_own = tf.expand_dims(is_own, -1)
          found.append(tf.where(is_own, taken, tf.zeros_like(taken)))
    with on_part(0):
      if not of_rows:
        return [tf.add_n(found)]
      rows = tf.dynamic_stitch(
        [tf.cast(place, tf.int32) for place in places], found
      )
      shape = [tf.shape(inputs[0][1]), tf.shape(inputs[0][0])[1:]]
      return [tf.reshape(rows, tf.concat(shape, 0))]

  operands: list[Operand] = [Replicate()] * len(op.inputs)
  operands[:2] = [params, Shifted(params.offsets)]
  shapes = (op.outputs[0].shape,)
  return Composite(tuple(operands), (Replicate(),), build, shapes)


@TABLE.rule("GatherNd")
def _gather_nd(op: tf.Operation, splits: Shards) -> PerPart | None:
  params, indices = splits
  if params is None and indices is not None:
    return of_vectors(op.inputs[1], indices)
  depth = _depth(op.inputs[1])
  if params is None or indices is not None or depth is None:
    return None
  if params.axis < depth[1] or not all(params.sizes):
    return None
  output = params.at(params.axis - depth[1] + depth[0])
  return PerPart((params, Replicate()), (output,))


def of_vectors(indices: tf.Tensor, split: Shard) -> PerPart | None:
  """Returns how entries of something whole are taken by vectors of indices.

  Args:
    indices: The vectors, which are in the last dimension.
    split: How they are split.
  """
  rank = indices.shape.rank
  if rank is None or split.axis >= rank - 1:
    return None
  return PerPart((Replicate(), split), (split,))


@TABLE.rule("LookupTableFindV2")
def _find(op: tf.Operation, splits: Shards) -> PerPart | None:
  """The values of keys, each of which is a scalar, in a lookup table."""
  table, keys, default = splits
  if table is not None or keys is None or default is not None:
    return None
  made = op.inputs[0].op
  if made.type not in op_types.TABLES_OF_SCALARS:
    return None
  # Otherwise there is a default for each key.
  names_shape = "value_shape" in made.node_def.attr
  shape = tf.TensorShape(made.get_attr("value_shape") if names_shape else [])
  if shape.rank is None or op.inputs[2].shape.rank != shape.rank:
    return None
  return PerPart((Replicate(), keys, Replicate()), (keys,))


def _depth(indices: tf.Tensor) -> tuple[int, int] | None:
  """Returns how many dimensions indices have, and how many they are of.

  Args:
    indices: Vectors of indices into the first dimensions of a tensor.

  Returns:
    The number of dimensions of the indices besides that of a vector, and the
    length of a vector; None if they are not known.
  """
  rank = indices.shape.rank
  length = None if rank is None else axes.size(indices, rank - 1)
  return None if length is None else (rank - 1, length)


@TABLE.rule("ScatterNd")
def _scatter_nd(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Parts of the updates make a sum, as those of the same place do."""
  indices, updates, shape = splits
  depth = _depth(op.inputs[0])
  if shape is not None or depth is None:
    return None
  some = axes.only([indices, updates])
  if some is not None and some.axis < depth[0]:
    dtype = op.inputs[1].dtype
    if not (dtype.is_floating or dtype.is_integer or dtype.is_complex):
      return None
    return PerPart((some, some, Replicate()), (Partial(),))
  if updates is None or indices is not None or not all(updates.sizes):
    return None
  output = updates.at(updates.axis - depth[0] + depth[1])
  resized = Resized(output.axis, output.sizes)
  return PerPart((Replicate(), updates, resized), (output,))


@TABLE.rule(
  "TensorScatterAdd",
  "TensorScatterMax",
  "TensorScatterMin",
  "TensorScatterSub",
  "TensorScatterUpdate",
)
def _tensor_scatter(op: tf.Operation, splits: Shards) -> PerPart | None:
  tensor, indices, updates = splits
  depth = _depth(op.inputs[1])
  if indices is not None or depth is None:
    return None
  if updates is not None:
    put = updates.at(updates.axis - depth[0] + depth[1])
    if updates.axis < depth[0] or tensor not in (None, put):
      return None
    tensor = put
  if tensor is None or tensor.axis < depth[1] or not all(tensor.sizes):
    return None
  updates = tensor.at(tensor.axis - depth[1] + depth[0])
  return PerPart((tensor, Replicate(), updates), (tensor,))


@TABLE.rule("OneHot")
def _one_hot(op: tf.Operation, splits: Shards) -> PerPart | None:
  indices, *others = splits
  rank = op.outputs[0].shape.rank
  if indices is None or any(others) or rank is None:
    return None
  axis = op.get_attr("axis") % rank
  output = indices.at(indices.axis + (axis <= indices.axis))
  return PerPart((indices, *[Replicate()] * 3), (output,))


@TABLE.rule("ReverseSequence")
def _reverse_sequence(op: tf.Operation, splits: Shards) -> PerPart | None:
  split, lengths = splits
  rank = op.inputs[0].shape.rank
  if split is None or rank is None:
    return None
  if split.axis == op.get_attr("seq_dim") % rank:
    return None
  if split.axis == op.get_attr("batch_dim") % rank:
    if lengths not in (None, split.at(0)):
      return None
    return PerPart((split, split.at(0)), (split,))
  return (
    None if lengths is not None else PerPart((split, Replicate()), (split,))
  )


@TABLE.rule(
  "MatrixBandPart", "MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"
)
def _band(op: tf.Operation, splits: Shards) -> PerPart | None:
  return choices.first_input(op, splits, axes.last(op.inputs[0], 2))


@TABLE.rule("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def _of_diagonals(op: tf.Operation, splits: Shards) -> PerPart | None:
  """The last two dimensions, those of the matrices, are not split."""
  return choices.first_input(op, splits, axes.last(op.outputs[0], 2))


@TABLE.rule("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _put_diagonals(op: tf.Operation, splits: Shards) -> PerPart | None:
  *values, split_of_band = [*splits, None][:3]
  split, rank = axes.only(values), op.inputs[0].shape.rank
  if split is None or split_of_band is not None or rank is None:
    return None
  if split.axis >= rank - 2:
    return None
  return PerPart((split, split, *[Replicate()] * (len(splits) - 2)), (split,))


@TABLE.rule("InTopK", "InTopKV2")
def _in_top_k(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Of other examples, not of other classes."""
  examples = axes.only(splits[:2])
  if examples is None or examples.axis != 0:
    return None
  others = (Replicate(),) * (len(splits) - 2)
  return PerPart((examples, examples, *others), (examples,))


@TABLE.rule(
  "SegmentMax",
  "SegmentMean",
  "SegmentMin",
  "SegmentProd",
  "SegmentSum",
  "SparseSegmentMean",
  "SparseSegmentMeanGrad",
  "SparseSegmentMeanWithNumSegments",
  "SparseSegmentSqrtN",
  "SparseSegmentSqrtNGrad",
  "SparseSegmentSqrtNWithNumSegments",
  "SparseSegmentSum",
  "SparseSegmentSumGrad",
)
def _segments(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Segments are of the first dimension, and others stay."""
  return choices.first_input(op, splits, [0])


@TABLE.rule("SparseSegmentSumWithNumSegments")
def _sparse_segments(op: tf.Operation, splits: Shards) -> Decision | None:
  """Parts of the rows that are listed have sums."""
  data, indices, ids, number = splits
  listed = axes.only([indices, ids])
  if data is not None or number is not None or listed is None:
    return _segments(op, splits)
  return PerPart((Replicate(), listed, listed, Replicate()), (Partial(),))


_REDUCTIONS = {
  "UnsortedSegmentMax": Reduction.MAXIMUM,
  "UnsortedSegmentMin": Reduction.MINIMUM,
  "UnsortedSegmentProd": Reduction.PRODUCT,
  "UnsortedSegmentSum": Reduction.SUM,
}


@TABLE.rule(*_REDUCTIONS)
def _unsorted_segments(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Segments are of all dimensions of the ids; parts of rows have sums.

  A segment that a part has no row of is what changes no sum there, or product,
  maximum or minimum. The gradient of a maximum is shared by all equal entries,
  of which a part does not know.
  """
  data, ids, num_segments = splits
  rank = op.inputs[1].shape.rank
  if num_segments is not None or rank is None:
    return None
  if ids is not None or (data is not None and data.axis < rank):
    rows = axes.only([data, ids])
    is_extreme = op.type in ("UnsortedSegmentMax", "UnsortedSegmentMin")
    if rows is None or (is_extreme and reductions.has_gradient(op.outputs[0])):
      return None
    return PerPart((rows, rows, Replicate()), (Partial(_REDUCTIONS[op.type]),))
  if data is None:
    return None
  output = data.at(data.axis - rank + 1)
  return PerPart((data, Replicate(), Replicate()), (output,))


@TABLE.rule("DynamicPartition")
def _partition(op: tf.Operation, splits: Shards) -> PerPart | None:
  data, partitions = splits
  rank = op.inputs[1].shape.rank
  if data is None or partitions is not None or rank is None:
    return None
  if data.axis < rank:
    return None
  output = data.at(data.axis - rank + 1)
  return PerPart((data, Replicate()), (output,) * len(op.outputs))


@TABLE.rule("DynamicStitch", "ParallelDynamicStitch")
def _stitch(op: tf.Operation, splits: Shards) -> PerPart | None:
  count = len(splits) // 2
  ranks = [tensor.shape.rank for tensor in op.inputs[:count]]
  if None in ranks or any(splits[:count]):
    return None
  outputs = [
    None if split is None else split.at(split.axis - rank + 1)
    for split, rank in zip(splits[count:], ranks, strict=True)
  ]
  output = axes.only(outputs)
  if output is None or output.axis < 1:
    return None
  data = [output.at(output.axis - 1 + rank) for rank in ranks]
  return PerPart((*[Replicate()] * count, *data), (output,))


@TABLE.rule("Switch")
def _switch(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Each part goes where the tensor, or the handle, goes."""
  data, predicate = splits
  if data is None or predicate is not None:
    return None
  is_handle = op.inputs[0].dtype == tf.resource
  return PerPart((OwnShard() if is_handle else data, Replicate()), (data, data))


@TABLE.rule("Merge")
def _merge(op: tf.Operation, splits: Shards) -> PerPart | None:
  """A tensor made without inputs in a branch may exist if it is not taken."""
  split = axes.only(splits)
  if split is None or any(own is None for own in splits):
    return None
  return PerPart((split,) * len(splits), (split, Replicate()))
