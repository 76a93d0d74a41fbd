"""Rules for ops on variables, and for random numbers.

A handle has the dimensions of its variable. A write has no output: parts of the
variable are written.
"""

from compat.private import op_registry
from estimator_mp.rules.rule import Input, Labels, Rule, SizesOf, Whole
from estimator_mp.rules.shapes import dict_of, entries, numbered
from estimator_mp.rules.table import Shapes, Table

import tensorflow as tf

TABLE = Table("""
VarIsInitializedOp: e... -> (); all
""")


@TABLE.rule("ReadVariableOp")
def _read(op: tf.Operation, shapes: Shapes) -> Rule | None:
  shape = shapes.variable_shape(op.inputs[0])
  if shape is None:
    return None
  labels = numbered(len(shape))
  return Rule((labels,), (labels,), sizes=dict_of(shape))


@TABLE.rule(
  "AssignVariableOp",
  "AssignAddVariableOp",
  "AssignSubVariableOp",
  "DisableCopyOnRead",
  "ResourceApplyAdaMax",
  "ResourceApplyAdadelta",
  "ResourceApplyAdagrad",
  "ResourceApplyAdagradDA",
  "ResourceApplyAdagradV2",
  "ResourceApplyAdam",
  "ResourceApplyAdamWithAmsgrad",
  "ResourceApplyAddSign",
  "ResourceApplyCenteredRMSProp",
  "ResourceApplyFtrl",
  "ResourceApplyFtrlV2",
  "ResourceApplyGradientDescent",
  "ResourceApplyKerasMomentum",
  "ResourceApplyMomentum",
  "ResourceApplyPowerSign",
  "ResourceApplyProximalAdagrad",
  "ResourceApplyProximalGradientDescent",
  "ResourceApplyRMSProp",
)
def _write(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Entry by entry: a variable, its slots, and a value of the same shape."""
  shape = shapes.variable_shape(op.inputs[0])
  if shape is None:
    return None
  labels = numbered(len(shape))
  inputs: list[Input] = []
  for tensor in op.inputs:
    is_scalar = tensor.dtype != tf.resource and shapes.shape(tensor) == ()
    inputs.append(() if is_scalar else labels)
  return Rule(tuple(inputs), ())


@TABLE.rule(
  "ResourceScatterAdd",
  "ResourceScatterDiv",
  "ResourceScatterMax",
  "ResourceScatterMin",
  "ResourceScatterMul",
  "ResourceScatterSub",
  "ResourceScatterUpdate",
  "ResourceSparseApplyAdadelta",
  "ResourceSparseApplyAdagrad",
  "ResourceSparseApplyAdagradV2",
  "ResourceSparseApplyCenteredRMSProp",
  "ResourceSparseApplyFtrl",
  "ResourceSparseApplyFtrlV2",
  "ResourceSparseApplyKerasMomentum",
  "ResourceSparseApplyMomentum",
  "ResourceSparseApplyProximalAdagrad",
  "ResourceSparseApplyProximalGradientDescent",
  "ResourceSparseApplyRMSProp",
)
def _write_rows(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Some rows of a variable and of its slots: by owner, or by columns."""
  shape = shapes.variable_shape(op.inputs[0])
  names = [
    argument.name for argument in op_registry.definition_of(op).input_arg
  ]
  rows = shapes.shape(op.inputs[names.index("indices")])
  if shape is None or rows is None:
    return None
  columns = numbered(len(shape))[1:]
  is_list = len(rows) == 1
  entries_of: Labels = ("Entries",) if is_list else (None,) * len(rows)
  inputs: list[Input] = []
  for name, tensor in zip(names, op.inputs, strict=True):
    labels: Labels = (*entries_of, *columns)
    if tensor.dtype == tf.resource:
      labels = ("rows" if is_list else None, *columns)
    elif name == "indices":
      labels = entries_of
    elif shapes.shape(tensor) == ():
      labels = ()
    inputs.append(labels)
  owned = (names.index("indices"), "rows") if is_list else None
  return Rule(tuple(inputs), (), owned=owned)


@TABLE.rule(
  "ResourceScatterNdAdd",
  "ResourceScatterNdMax",
  "ResourceScatterNdMin",
  "ResourceScatterNdSub",
  "ResourceScatterNdUpdate",
)
def _write_vectors(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Rows of a variable, if indices are of the first dimension alone."""
  shape = shapes.variable_shape(op.inputs[0])
  indices = shapes.shape(op.inputs[1])
  if shape is None or indices is None or len(indices) != 2 or indices[1] != 1:
    return None
  columns = numbered(len(shape))[1:]
  return Rule(
    (("rows", *columns), ("Entries", None), ("Entries", *columns)),
    (),
    owned=(1, "rows"),
  )


@TABLE.rule(
  "RandomStandardNormal",
  "RandomUniform",
  "RandomUniformInt",
  "StatelessRandomNormal",
  "StatelessRandomNormalV2",
  "StatelessRandomUniform",
  "StatelessRandomUniformV2",
  "StatelessTruncatedNormal",
  "StatelessTruncatedNormalV2",
  "TruncatedNormal",
)
def _random(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Numbers that have nothing to do with each other, as many as a shape says.

  Parts draw from seeds of their own.
  """
  sizes = entries(shapes, op.inputs[0])
  if sizes is None:
    return None
  others = [Whole()] * (len(op.inputs) - 1)
  labels = numbered(len(sizes))
  return Rule((SizesOf(), *others), (labels,), sizes=dict_of(sizes))


@TABLE.rule("RandomGamma", "RandomPoissonV2")
def _random_by_parameters(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """So many numbers, as a shape says, for each entry of a parameter."""
  sizes, parameters = entries(shapes, op.inputs[0]), shapes.shape(op.inputs[1])
  if sizes is None or parameters is None:
    return None
  per_entry = numbered(len(parameters), "p")
  return Rule(
    (SizesOf(), per_entry),
    ((*numbered(len(sizes)), *per_entry),),
    sizes=dict_of(sizes),
  )
