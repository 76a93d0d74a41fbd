"""Rules for ops that work entry by entry."""

import dataclasses

from estimator_mp.rules import notation
from estimator_mp.rules.rule import Labels, Rule
from estimator_mp.rules.table import Shapes, Table, ranks_of

import tensorflow as tf

TABLE = Table("""
Abs Acos Acosh Angle Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e
  BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1
  Bucketize Ceil CheckNumerics ComplexAbs Cos Cosh Dawsn Digamma Elu Erf
  Erfc Erfinv Exp Expint Expm1 FakeQuantWithMinMaxArgs Floor FresnelCos
  FresnelSin Inv Invert IsFinite IsInf IsNan LeakyRelu Lgamma Log Log1p
  LogicalNot Ndtri OnesLike PopulationCount Reciprocal Relu Relu6 Rint Round
  Rsqrt Selu Sigmoid Sign Sin Sinh Softplus Softsign Spence Sqrt Square Tan Tanh
  ZerosLike:
  s... -> s...

Conj Identity Imag Neg PreventGradient Real Snapshot StopGradient:
  s... -> s...; linear

AsString DecodeBase64 EncodeBase64 StaticRegexFullMatch StaticRegexReplace
  StringLength StringLower StringStrip StringToHashBucket
  StringToHashBucketFast StringToHashBucketStrong StringToNumber StringUpper
  UnicodeScript UnicodeTranscode:
  s... -> s...

RegexFullMatch: s..., = -> s...
RegexReplace: s..., =, = -> s...

Atan2 Betainc BitwiseAnd BitwiseOr BitwiseXor ClipByValue Complex FloorDiv
  FloorMod Greater GreaterEqual Igamma IgammaGradA Igammac LeftShift Less
  LessEqual LogicalAnd LogicalOr Maximum Minimum Mod NextAfter Polygamma Pow
  RandomGammaGrad RightShift SquaredDifference Substr TruncateDiv TruncateMod
  Xdivy Xlog1py Xlogy Zeta FakeQuantWithMinMaxVars:
  ...* -> ...

Add AddV2 Sub: ..., ... -> ...; linear
Mul: ..., ... -> ...; bilinear
MulNoNan: ..., ... -> ...
Div DivNoNan RealDiv: ..., ... -> ...; linear(0)
SelectV2: ..., ..., ... -> ...; linear(1 2)

AddN: s...* -> s...; linear
ApproximateEqual: s..., s... -> s...

EluGrad FakeQuantWithMinMaxArgsGradient LeakyReluGrad Relu6Grad ReluGrad
  SeluGrad SoftplusGrad SoftsignGrad:
  s..., s... -> s...; linear(0)

InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad:
  s..., s... -> s...; linear(1)

FakeQuantWithMinMaxVarsGradient: s..., s..., =, = -> s..., (), (); sum

BiasAdd: [b... c], c -> [b... c]; linear
BiasAddV1: b... c, c -> b... c; linear
BiasAddGrad: [b... c] -> c; sum, linear
""")


_CAST = notation.parse("Cast: s... -> s...")["Cast"]
_LINEAR_CAST = notation.parse("Cast: s... -> s...; linear")["Cast"]
_SUM = notation.parse("AddN: s...* -> s...; linear")["AddN"]
_EQUAL = notation.parse("Equal: ..., ... -> ...")["Equal"]


@TABLE.rule("Cast")
def _cast(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Sums are cast after or before: where that is not more coarse."""
  (before,), (after,) = op.inputs, op.outputs
  is_linear = (
    before.dtype.is_floating
    and after.dtype.is_floating
    and after.dtype.size >= before.dtype.size
  )
  template = _LINEAR_CAST if is_linear else _CAST
  return template.bind(op, ranks_of(op, shapes))


@TABLE.rule("Equal", "NotEqual")
def _equal(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Of shapes that do not fit these ops may make a scalar."""
  if not op.get_attr("incompatible_shape_error"):
    return None
  return _EQUAL.bind(op, ranks_of(op, shapes))


@TABLE.rule("StringJoin")
def _join_texts(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Each input is a scalar, or has the shape of the others."""
  ranks = ranks_of(op, shapes)
  known = [rank for rank in ranks if rank is not None]
  if len(known) < len(ranks) or len({*known} - {0}) > 1:
    return None
  labels = tuple(f"s{i}" for i in range(max(known)))
  return Rule(tuple(labels if rank else () for rank in known), (labels,))


@TABLE.rule("IdentityN")
def _tuple(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Tensors that have nothing in common."""
  ranks = ranks_of(op, shapes)
  if None in ranks:
    return None
  labels: list[Labels] = [
    tuple(f"t{i}d{j}" for j in range(rank or 0)) for i, rank in enumerate(ranks)
  ]
  return Rule(tuple(labels), tuple(labels), is_tuple=True)


@TABLE.rule("AccumulateNV2", "EnsureShape", "PlaceholderWithDefault")
def _of_known_shape(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """A sum, or a tensor, whose shape is an attribute, too."""
  rule = _SUM.bind(op, ranks_of(op, shapes))
  return rule and dataclasses.replace(rule, shape_attribute="shape")


@TABLE.rule("Select")
def _select(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """The condition has the shape of the values, or is one of their rows."""
  of_condition, *ranks = ranks_of(op, shapes)
  rank = next((x for x in ranks if x is not None), None)
  if rank is None or of_condition not in (0, 1, rank):
    return None
  labels = tuple(f"s{i}" for i in range(rank))
  condition = labels if of_condition == rank else labels[:of_condition]
  return Rule(
    (condition, labels, labels), (labels,), linear=(frozenset([1, 2]),)
  )
