"""Demands: ops that are executed once, though they are only read in parts.

    labels -> OneHot [n, C] -> Mul with logits that are split along C
    m -> ReadVariableOp     -> Mul with a gradient that is split

Layouts follow from inputs to outputs. A tensor that depends on nothing split is
whole, and would be sliced for its readers. Where all of them read the same
parts, or would add them up, and to make these reads less than that sends, it is
made in parts; and a variable that is read so may be split in the same way.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from estimator_mp.analysis.symbolic_shapes import MEASURES
from estimator_mp.graph import op_types, variables
from estimator_mp.propagate.layouts import (
  ONCE,
  Partial,
  Parts,
  Shard,
  Sizes,
  is_whole,
)
from estimator_mp.propagate.propagation import Propagation

import tensorflow as tf

# A variable that is read in parts, and so is split, is assigned parts.
_ASSIGNMENTS = frozenset(
  ["AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp"]
)


@dataclasses.dataclass(frozen=True)
class Demands:
  """The layouts that readers ask for.

  Attributes:
    ops: Ops that are to be executed in parts, and how their output is split.
    variables: Whole variables that are read so, and how.
  """

  ops: Mapping[tf.Operation, Shard]
  variables: Mapping[tf.Operation, Shard]


def find(
  ops: Sequence[tf.Operation],
  layouts: Propagation,
  able: Collection[tf.Operation],
  sizes: Mapping[str, int],
  fetched: Collection[str] = (),
  may_follow: Callable[[tf.Operation], bool] = lambda variable: False,
) -> Demands:
  """Finds ops that could be executed in parts.

  Args:
    ops: The ops of a step, each after those that it reads.
    layouts: How they are executed.
    able: Those that may be in parts.
    sizes: The bytes of tensors, by their names, as far as known.
    fetched: The names of tensors that are needed whole.
    may_follow: Whether a whole variable may be split as it is read, or written.
  """
  left = frozenset(able)
  while True:
    wanted, of_variables = _asked(ops, layouts, left, fetched, may_follow)
    dear = _dear(ops, layouts, wanted, sizes)
    if not dear:
      return Demands(
        {op: layout for op, (layout, _) in wanted.items()}, of_variables
      )
    left -= dear


def _asked(
  ops: Sequence[tf.Operation],
  layouts: Propagation,
  able: Collection[tf.Operation],
  fetched: Collection[str],
  may_follow: Callable[[tf.Operation], bool],
) -> tuple[dict[tf.Operation, tuple[Shard, Parts]], dict[tf.Operation, Shard]]:
  """Returns ops and variables of which all readers ask for the same parts."""
  # The layout that all readers of a tensor ask for; None if they disagree.
  asked: dict[str, Shard | None] = dict.fromkeys(fetched)
  # Those that read it whole, with the numbers of inputs.
  whole: dict[str, list[tuple[tf.Operation, int]]] = {}
  wanted: dict[tf.Operation, tuple[Shard, Parts]] = {}
  of_variables: dict[tf.Operation, Shard] = {}
  for op in reversed(ops):
    parts = layouts.parts.get(op)
    output = None
    if len(op.outputs) == 1:
      name = op.outputs[0].name
      output = asked.get(name)
      readers = whole.get(name, ())
      written = {reader: _written(reader) for reader, _ in readers}
      if output is not None and not all(
        (written[reader] is not None and may_follow(written[reader]))
        or (reader in able and _adds_up(layouts.along_input(reader, i, output)))
        for reader, i in readers
      ):
        output = None
      if output is not None:
        for variable in filter(None, written.values()):
          of_variables.setdefault(variable, output)
    if parts is None and op.type == "ReadVariableOp" and output is not None:
      variable = variables.variable_of(op.inputs[0])
      if may_follow(variable):
        of_variables.setdefault(variable, output)
    has_handle = any(op_types.is_resource(x) for x in op.inputs)
    if parts is None and output is not None and op in able and not has_handle:
      parts = layouts.along_output(op, output)
      if parts is not None and (parts.exchanges or parts.outputs != (output,)):
        parts = None
      if parts is not None:
        wanted[op] = output, parts
    for index, tensor in enumerate(op.inputs):
      is_part = not is_whole(layouts.layout(tensor))
      if is_part or op_types.is_resource(tensor) or op.type in MEASURES:
        continue
      read = None if parts is None else parts.reads[index]
      name = tensor.name
      if parts is None and op.type not in _ASSIGNMENTS:
        whole.setdefault(name, []).append((op, index))
      elif parts is not None and not isinstance(read, Sizes):
        part = read if isinstance(read, Shard) else None
        asked[name] = part if asked.get(name, part) == part else None
  return wanted, of_variables


def _written(op: tf.Operation) -> tf.Operation | None:
  """Returns the variable to which an op writes its input; None if none."""
  if op.type != "AssignVariableOp":
    return None
  return variables.variable_of(op.inputs[0])


def _adds_up(parts: Parts | None) -> bool:
  """Whether an op that is executed once could as well read parts."""
  return (
    parts is not None
    and not parts.exchanges
    and all(isinstance(output, Partial) for output in parts.outputs)
  )


def _dear(
  ops: Sequence[tf.Operation],
  layouts: Propagation,
  wanted: Mapping[tf.Operation, tuple[Shard, Parts]],
  sizes: Mapping[str, int],
) -> set[tf.Operation]:
  """Returns ops whose parts are sent more than slices of the results."""
  dear: set[tf.Operation] = set()
  known = {
    tensor.name
    for op, parts in layouts.parts.items()
    for tensor, read in zip(op.inputs, parts.reads, strict=True)
    if is_whole(layouts.layout(tensor)) and read == ONCE
  }
  for op in ops:
    if op not in wanted:
      continue
    output, parts = wanted[op]
    if parts.owned is not None:
      continue  # Its result is a table, or as wide as one is long.
    count, num_bytes = len(output.partition.parts), 0
    for tensor, read in zip(op.inputs, parts.reads, strict=True):
      is_there = (
        isinstance(read, Sizes)
        or tensor.op.type in op_types.CONSTANTS
        or (read == ONCE and tensor.name in known)
        or (tensor.op in wanted and tensor.op not in dear)
        or read == layouts.layout(tensor) != ONCE
      )
      if not is_there:
        times = 1 if isinstance(read, Shard) else count
        num_bytes += sizes.get(tensor.name, 0) * times
    if num_bytes > sizes.get(op.outputs[0].name, 0):
      dear.add(op)
  return dear
