"""Rules for loop variables, and for containers of the tensors of rounds.

A container (a list, a `TensorArray`, an optional) has the dimensions of its
elements: to split it is to split each of them. A `TensorArray` is known by its
flow, and a stack by the tensors that are pushed.
"""

from estimator_mp.rules.rule import Rule, SizesOf, Whole
from estimator_mp.rules.shapes import dict_of, numbered
from estimator_mp.rules.table import Shapes, Table
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf

TABLE = Table("""
Exit LoopCond NextIteration: s... -> s...; linear
Switch: s..., = -> s..., s...; linear(0)
StackPushV2: =, s... -> s...; linear(1)

TensorListFromTensor: _ e..., #0 -> e...; linear(0)
TensorListGetItem: e..., =, #0 -> e...; linear(0)
TensorListLength: e... -> (); alike
TensorListPopBack: e..., #1 -> e..., e...; linear(0)
TensorListPushBack: e..., e... -> e...; linear
TensorListResize: e..., = -> e...; linear(0)
TensorListScatterIntoExistingList: e..., _ e..., = -> e...; linear(0 1)
TensorListScatterV2: _ e..., =, #0, = -> e...; linear(0)
TensorListSetItem: e..., =, e... -> e...; linear(0 2)

OptionalFromValue: e... -> e...; linear
OptionalHasValue: e... -> (); alike

TensorArrayGradV3: =, e... -> (), e...; alike
TensorArrayReadV3: =, =, e... -> e...; linear(2)
TensorArrayScatterV3: =, =, _ e..., e... -> e...; linear(2 3)
TensorArraySizeV3: =, e... -> (); alike
TensorArrayWriteV3: =, =, e..., e... -> e...; linear(2 3)
""")

# Ops that make containers with nothing in them; the flow of a gradient begins
# with a constant.
EMPTY = frozenset(
  [
    "Const",
    "EmptyTensorList",
    "OptionalNone",
    "TensorArrayV3",
    "TensorListReserve",
  ]
)
# Ops whose output of some number is a container though it has a dtype of
# numbers.
FLOWS = {
  "TensorArrayGradV3": 1,
  "TensorArrayScatterV3": 0,
  "TensorArrayV3": 1,
  "TensorArrayWriteV3": 0,
}
# They make objects with a state of their own.
OBJECTS = frozenset(["StackV2", "TensorArrayV3"])
# They work on the state of an object, which nothing else sees.
KEEPERS = OBJECTS | frozenset(
  [
    "StackCloseV2",
    "StackPopV2",
    "StackPushV2",
    "TensorArrayCloseV3",
    "TensorArrayGatherV3",
    "TensorArrayGradV3",
    "TensorArrayReadV3",
    "TensorArrayScatterV3",
    "TensorArraySizeV3",
    "TensorArrayWriteV3",
  ]
)
_ANY_SHAPE = {"element_shape": tf.TensorShape(None)}
_ANY_SHAPES = {"output_shapes": [tf.TensorShape(None)]}


@TABLE.rule("EmptyTensorList", "TensorListReserve")
def _new_list(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """A list whose elements have a shape. In a list of lists they have none."""
  value = shapes.value(op.inputs[0])
  is_of_lists = op.get_attr("element_dtype") == tf.variant
  if value is None or not value.ndim or is_of_lists:
    return None
  sizes = list(value)
  if not all(shapes.is_size(size) for size in sizes):
    return None
  return Rule(
    (SizesOf(), Whole()), (numbered(len(sizes)),), sizes=dict_of(sizes)
  )


@TABLE.rule("TensorListGather", "TensorListStack")
def _stack(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """The elements of a list, behind each other."""
  element = shapes.shape(op.inputs[0])
  if element is None:
    return None
  labels = numbered(len(element))
  others = [Whole()] * (len(op.inputs) - 2)
  sizes = SizesOf(0, tuple(range(1, len(element) + 1)))
  count: dict[tuple[int, int], Size] = {}
  if op.type == "TensorListGather" and (indices := shapes.shape(op.inputs[1])):
    count[0, 0] = indices[0]
  return Rule(
    (labels, *others, sizes),
    ((None, *labels),),
    linear=(frozenset([0]),),
    sizes=count,
  )


@TABLE.rule("TensorArrayV3")
def _new_array(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """An array: parts have elements of other shapes."""
  return Rule((Whole(),), (None, None), attributes=_ANY_SHAPE)


@TABLE.rule("TensorArrayGatherV3")
def _stack_array(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """The elements of an array, behind each other."""
  element, count = shapes.shape(op.inputs[2]), shapes.shape(op.inputs[1])
  if element is None or not count:
    return None
  labels = numbered(len(element))
  return Rule(
    (Whole(), Whole(), labels),
    ((None, *labels),),
    linear=(frozenset([2]),),
    sizes={(0, 0): count[0]},
    attributes=_ANY_SHAPE,
  )


@TABLE.rule("OptionalGetValue")
def _value(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """The only tensor of an optional."""
  element = shapes.shape(op.inputs[0])
  if element is None or len(op.outputs) != 1:
    return None
  labels = numbered(len(element))
  linear = (frozenset([0]),)
  return Rule((labels,), (labels,), linear=linear, attributes=_ANY_SHAPES)
