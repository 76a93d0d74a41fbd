"""Rules for reductions, sorts, counts and cumulative sums."""

import dataclasses

from estimator_mp.rules.rule import Label, Reduction, Rule, Whole
from estimator_mp.rules.table import Shapes, Table

import tensorflow as tf

TABLE = Table("""
L2Loss: b... -> (); sum
LogSoftmax Softmax: b... classes -> b... classes; exchanged(classes)
SparseSoftmaxCrossEntropyWithLogits:
  n classes, n -> n, n classes; exchanged(classes)
SoftmaxCrossEntropyWithLogits:
  ... classes, ... classes -> ..., ... classes; exchanged(classes)

NthElement: b... _, = -> b...
TopKV2: b... _, = -> b... _, b... _
LowerBound UpperBound: b _, b v -> b v
Unique: X -> _, X
UniqueWithCounts: X -> _, X, _
InTopK InTopKV2: n _, n, =* -> n
""")

_REDUCTIONS = {
  "All": Reduction.ALL,
  "Any": Reduction.ANY,
  "Max": Reduction.MAX,
  "Mean": Reduction.SUM,
  "Min": Reduction.MIN,
  "Prod": Reduction.PRODUCT,
  "Sum": Reduction.SUM,
}


@TABLE.rule(*_REDUCTIONS)
def _reduce(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Over the split dimension parts add up, or are multiplied, or compared.

  Those of a mean do if each is a sum that is divided by the size of the whole.
  """
  rule = _over_axes(op, shapes, op.get_attr("keep_dims"))
  if rule is None:
    return None
  linear = (frozenset([0]),) if op.type in ("Mean", "Sum") else ()
  return dataclasses.replace(
    rule,
    reduction=_REDUCTIONS[op.type],
    linear=linear,
    # An average of integers is rounded, and a maximum of nothing is infinite.
    nonempty=op.type in ("Max", "Min"),
  )


@TABLE.rule("EuclideanNorm")
def _norm(op: tf.Operation, shapes: Shapes) -> Rule | None:
  return _over_axes(op, shapes, op.get_attr("keep_dims"))


@TABLE.rule("ArgMax", "ArgMin")
def _place_of_extreme(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Parts of the dimension that is reduced compare their results."""
  rule = _over_axes(op, shapes, keep_dims=False)
  if rule is None or not op.inputs[0].dtype.is_floating:
    return rule
  if op.outputs[0].dtype not in (tf.int32, tf.int64):
    return rule  # Others may not hold the places of the whole dimension.
  labels = tuple(
    x if x in (rule.outputs[0] or ()) else "classes" for x in rule.labels(0)
  )
  if labels.count("classes") != 1:
    return rule
  return dataclasses.replace(
    rule, inputs=(labels, Whole()), exchanged={"classes": 0}, nonempty=True
  )


def _over_axes(
  op: tf.Operation, shapes: Shapes, keep_dims: bool
) -> Rule | None:
  """Returns a rule of which dimensions stay, and of which are reduced.

  Along dimensions that may be reduced, or may not, nothing is split: whether
  two sizes are equal is sometimes known only when a step runs.

  Args:
    op: A reduction, whose second input has the numbers of dimensions.
    shapes: The sizes of its inputs.
    keep_dims: Whether dimensions stay, with size 1.
  """
  shape = shapes.shape(op.inputs[0])
  over = None if shape is None else shapes.axes(op.inputs[1], len(shape))
  if shape is None or over is None:
    return None
  dimensions: list[Label | None] = [f"d{i}" for i in range(len(shape))]
  for i in over.maybe:
    dimensions[i] = None
  if over.maybe and not keep_dims:
    return None  # How many dimensions are left is not known, and which.
  left = [i for i in range(len(shape)) if keep_dims or i not in over.sure]
  output = [None if i in over.sure else dimensions[i] for i in left]
  ones = [place for place, i in enumerate(left) if i in over.sure]
  sizes = {(0, place): 1 for place in ones}
  return Rule((tuple(dimensions), Whole()), (tuple(output),), sizes=sizes)


@TABLE.rule("Cumprod", "Cumsum", "CumulativeLogsumexp")
def _running(op: tf.Operation, shapes: Shapes) -> Rule | None:
  shape = shapes.shape(op.inputs[0])
  over = None if shape is None else shapes.axes(op.inputs[1], len(shape))
  if shape is None or over is None or over.maybe:
    return None
  labels = tuple(
    f"D{i}" if i in over.sure else f"d{i}" for i in range(len(shape))
  )
  linear = (frozenset([0]),) if op.type == "Cumsum" else ()
  return Rule((labels, Whole()), (labels,), linear=linear)


@TABLE.rule("Bincount", "DenseBincount")
def _counts(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """How often there is each number, in all or in each row; or whether.

  Weights are as many as numbers, or none.
  """
  values, weights = shapes.shape(op.inputs[0]), shapes.shape(op.inputs[2])
  if values is None or weights is None:
    return None
  labels = tuple(f"n{i}" for i in range(len(values)))
  has_weights = 0 not in weights
  if has_weights and len(weights) != len(values):
    return None
  is_binary = op.type == "DenseBincount" and op.get_attr("binary_output")
  by_rows = op.type == "DenseBincount" and len(values) == 2
  output = (labels[0], None) if by_rows else (None,)
  return Rule(
    (labels, Whole(), labels if has_weights else Whole()),
    (output,),
    Reduction.MAX if is_binary else Reduction.SUM,
  )
