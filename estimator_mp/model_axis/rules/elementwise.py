"""Rules for ops that work entry by entry."""

from estimator_mp.model_axis import axes, choices
from estimator_mp.model_axis.decisions import (
  Operand,
  Output,
  OwnShard,
  Partial,
  PerPart,
  Reduction,
  Replicate,
  Shard,
  Shards,
  Table,
)

import tensorflow as tf

TABLE = Table()


@TABLE.rule(
  "Abs",
  "Acos",
  "Acosh",
  "Angle",
  "Asin",
  "Asinh",
  "Atan",
  "Atanh",
  "BesselI0",
  "BesselI0e",
  "BesselI1",
  "BesselI1e",
  "BesselJ0",
  "BesselJ1",
  "BesselK0",
  "BesselK0e",
  "BesselK1",
  "BesselK1e",
  "BesselY0",
  "BesselY1",
  "Bucketize",
  "Cast",
  "Ceil",
  "CheckNumerics",
  "ComplexAbs",
  "Conj",
  "Cos",
  "Cosh",
  "Dawsn",
  "Digamma",
  "Elu",
  "Erf",
  "Erfc",
  "Erfinv",
  "Exp",
  "Expint",
  "Expm1",
  "FakeQuantWithMinMaxArgs",
  "Floor",
  "FresnelCos",
  "FresnelSin",
  "Identity",
  "Imag",
  "Inv",
  "Invert",
  "IsFinite",
  "IsInf",
  "IsNan",
  "LeakyRelu",
  "Lgamma",
  "Log",
  "Log1p",
  "LogicalNot",
  "Ndtri",
  "Neg",
  "OnesLike",
  "PopulationCount",
  "PreventGradient",
  "Real",
  "Reciprocal",
  "Relu",
  "Relu6",
  "Rint",
  "Round",
  "Rsqrt",
  "Selu",
  "Sigmoid",
  "Sign",
  "Sin",
  "Sinh",
  "Snapshot",
  "Softplus",
  "Softsign",
  "Spence",
  "Sqrt",
  "Square",
  "StopGradient",
  "Tan",
  "Tanh",
  "ZerosLike",
)
def _unary(op: tf.Operation, splits: Shards) -> PerPart | None:
  (split,) = splits
  if split is None:
    return None
  is_handle = op.inputs[0].dtype == tf.resource
  return PerPart((OwnShard() if is_handle else split,), (split,))


@TABLE.rule(
  "AsString",
  "DecodeBase64",
  "EncodeBase64",
  "RegexFullMatch",
  "RegexReplace",
  "StaticRegexFullMatch",
  "StaticRegexReplace",
  "StringLength",
  "StringLower",
  "StringStrip",
  "StringToHashBucket",
  "StringToHashBucketFast",
  "StringToHashBucketStrong",
  "StringToNumber",
  "StringUpper",
  "UnicodeScript",
  "UnicodeTranscode",
)
def _of_text(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Texts, or what they are made of, one by one; a pattern is for all."""
  return choices.first_input(op, splits)


@TABLE.rule("Substr")
def _substring(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Texts, positions and lengths."""
  return _aligned(op, splits)


@TABLE.rule("StringJoin")
def _join_texts(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Each input is a scalar, or has the shape of the others."""
  ranks = [tensor.shape.rank for tensor in op.inputs]
  if None in ranks:
    return None

  def along(split: Shard) -> PerPart:
    return PerPart(
      tuple(split if rank else Replicate() for rank in ranks), (split,)
    )

  return choices.least_gathered(op, splits, along)


@TABLE.rule("IdentityN")
def _tuple(op: tf.Operation, splits: Shards) -> PerPart | None:
  if any(tensor.dtype == tf.resource for tensor in op.inputs):
    return None
  operands = tuple(split or Replicate() for split in splits)
  outputs = tuple(split or Replicate() for split in splits)
  return PerPart(operands, outputs)


@TABLE.rule(
  "Add",
  "AddV2",
  "Atan2",
  "Betainc",
  "BitwiseAnd",
  "BitwiseOr",
  "BitwiseXor",
  "ClipByValue",
  "Complex",
  "Div",
  "DivNoNan",
  "FakeQuantWithMinMaxVars",
  "FloorDiv",
  "FloorMod",
  "Greater",
  "GreaterEqual",
  "Igamma",
  "IgammaGradA",
  "Igammac",
  "LeftShift",
  "Less",
  "LessEqual",
  "LogicalAnd",
  "LogicalOr",
  "Maximum",
  "Minimum",
  "Mod",
  "Mul",
  "MulNoNan",
  "NextAfter",
  "Polygamma",
  "Pow",
  "RandomGammaGrad",
  "RealDiv",
  "RightShift",
  "SelectV2",
  "SquaredDifference",
  "Sub",
  "TruncateDiv",
  "TruncateMod",
  "Xdivy",
  "Xlog1py",
  "Xlogy",
  "Zeta",
)
def _broadcast(op: tf.Operation, splits: Shards) -> PerPart | None:
  return _aligned(op, splits)


def _aligned(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Operands are broadcast, so that dimensions are counted from the last."""
  ranks = [tensor.shape.rank for tensor in op.inputs]
  rank = max((known for known in ranks if known is not None), default=0)
  if None in ranks:
    return None
  return choices.least_gathered(
    op,
    splits,
    lambda split: _broadcast_along(op, split, rank),
    [
      split and split.at(split.axis + rank - own)
      for split, own in zip(splits, ranks, strict=True)
    ],
  )


def _broadcast_along(
  op: tf.Operation, split: Shard, rank: int
) -> PerPart | None:
  """Parts read what an operand has in the dimension, or all that is repeated.

  An operand of an unknown size there may be repeated, or not.
  """
  operands: list[Operand] = []
  for tensor in op.inputs:
    axis = split.axis - rank + tensor.shape.rank
    size = axes.size(tensor, axis) if axis >= 0 else 1
    if size == split.size:
      operands.append(split.at(axis))
    elif size == 1:
      operands.append(Replicate())
    else:
      return None
  return PerPart(tuple(operands), (split,))


@TABLE.rule("Equal", "NotEqual")
def _equal(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Of shapes that do not fit these ops may make a scalar."""
  if not op.get_attr("incompatible_shape_error"):
    return None
  return _aligned(op, splits)


@TABLE.rule(
  "AddN",
  "ApproximateEqual",
  "EluGrad",
  "FakeQuantWithMinMaxArgsGradient",
  "InvGrad",
  "LeakyReluGrad",
  "ReciprocalGrad",
  "Relu6Grad",
  "ReluGrad",
  "RsqrtGrad",
  "SeluGrad",
  "SigmoidGrad",
  "SoftplusGrad",
  "SoftsignGrad",
  "SqrtGrad",
  "TanhGrad",
)
def _of_one_shape(op: tf.Operation, splits: Shards) -> PerPart | None:
  """All inputs have one shape, which the graph may know of some only."""
  if any(tensor.shape.rank is None for tensor in op.inputs):
    return None
  return choices.least_gathered(
    op, splits, lambda split: PerPart((split,) * len(splits), (split,))
  )


@TABLE.rule("AccumulateNV2")
def _accumulate(op: tf.Operation, splits: Shards) -> PerPart | None:
  """As AddN, but that an attribute tells the shape, too."""
  shape = tf.TensorShape(op.get_attr("shape"))
  if shape.rank is None:
    return None

  def along(split: Shard) -> PerPart:
    before, after = shape[: split.axis], shape[split.axis + 1 :]
    attributes = tuple(
      {
        "shape": tf.compat.v1.AttrValue(
          shape=before.concatenate([size]).concatenate(after).as_proto()
        )
      }
      for size in split.sizes
    )
    return PerPart((split,) * len(splits), (split,), attributes)

  return choices.least_gathered(op, splits, along)


@TABLE.rule("Select")
def _select(op: tf.Operation, splits: Shards) -> PerPart | None:
  """The condition has the shape of what it selects, or is one of its rows."""
  condition, rank, other = (tensor.shape.rank for tensor in op.inputs)
  if None in (condition, rank, other) or condition not in (0, 1, rank):
    return None

  def along(split: Shard) -> PerPart:
    by_rows = condition == 1 and not split.axis
    selects = split if condition == rank or by_rows else Replicate()
    return PerPart((selects, split, split), (split,))

  return choices.least_gathered(op, splits, along)


@TABLE.rule("BiasAdd", "BiasAddV1")
def _bias_add(op: tf.Operation, splits: Shards) -> PerPart | None:
  rank = op.inputs[0].shape.rank
  if rank is None:
    return None
  value, bias = splits
  channels = channel_axis(op, rank)

  def along(split: Shard) -> PerPart:
    added = split.at(0) if split.axis == channels else Replicate()
    return PerPart((split, added), (split,))

  candidates = [value, bias and bias.at(channels)]
  return choices.least_gathered(op, splits, along, candidates)


def channel_axis(op: tf.Operation, rank: int) -> int:
  """Returns the dimension that a bias is added to.

  Args:
    op: An op with a `data_format`, or without one: the last dimension.
    rank: The rank of the tensor that the bias is added to.
  """
  if "data_format" not in op.node_def.attr:
    return rank - 1
  return 1 if op.get_attr("data_format") == b"NCHW" else rank - 1


@TABLE.rule("FakeQuantWithMinMaxVarsGradient")
def _fake_quant_gradient(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Gradients of entries, and of the two numbers that all of them read."""
  numbers: tuple[Operand, ...] = (Replicate(), Replicate())
  sums: tuple[Output, ...] = (Partial(Reduction.SUM), Partial(Reduction.SUM))
  return choices.least_gathered(
    op,
    splits,
    lambda split: PerPart((split, split, *numbers), (split, *sums)),
    splits[:2],
  )
