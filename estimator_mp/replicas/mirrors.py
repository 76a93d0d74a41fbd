"""Mirrors: the variables that replicas have copies of, and their writers.

A variable of the model is on a device of replica 0: it has the name, is
initialized, restored, updated by the optimizer and saved. Its mirrors are read
by the other replicas, and whatever writes the variable is followed by its
mirrors, in one of three ways:

- `AFTER`: A write of a training step is followed by a copy, or by each
  replica's own update; ops that wait for the write wait for the mirrors, too. A
  sparse write is followed by a copy of the rows that it wrote.
- `FIRST`: Any other write may be run alone: by a hook, by `variable.load`,
  which feeds an initializer, or by a Saver. Then nothing after it would run. So
  the mirrors are written first, by the same op, and the write waits for them.
  This costs a training step nothing.
- `EACH_STEP`: Some of these cannot be made twice: those in functions, and an
  optimizer's that has slots. If a training step does not run them, all that
  reads the mirrors waits for a copy of the variable, in each step.

A first value that cannot be written `FIRST` reaches the mirrors when a session
has been made. `lower.mirroring` does all this to a graph.

So all replicas have the same weights, bit for bit, and the work of the
optimizer is done once (Xu et al., "Automatic Cross-Replica Sharding of Weight
Update in Data-Parallel Training", 2020, arXiv:2004.13336).
"""

import dataclasses
import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from compat.private import graph_reads
from estimator_mp.graph import op_types, traversal
from estimator_mp.graph import variables as variables_lib

import tensorflow as tf

# The handles of each variable's mirrors, by its op.
Mirrors: TypeAlias = Mapping[tf.Operation, Sequence[tf.Tensor]]


def find_mirrored(ops: Sequence[tf.Operation]) -> list[tf.Operation]:
  """Finds variables, and whatever is computed from variables alone.

  Args:
    ops: The ops that slices read and that do not differ between slices, in the
      order of the graph.

  Returns:
    Those of `ops` that each replica has for itself, in their order. Writes are
    not among them: replica 0 makes them for all. Neither is a reference, such
    as the global step of TensorFlow 1: all read that of replica 0.
  """
  able = [op for op in ops if not _is_once(op)]
  first = [op for op in able if op.type == "VarHandleOp"]
  return traversal.descendants(first, able)


def _is_once(op: tf.Operation) -> bool:
  """Whether replica 0 does something for all, as it draws random numbers."""
  return (
    op_types.is_write(op)
    or op.type in op_types.RANDOM
    or op.type in op_types.MOVES_GENERATOR
  )


class Way(enum.Enum):
  """When the mirrors of a variable that is written are written.

  FIRST: The write waits for them, whatever runs it.
  AFTER: Ops that wait for the write wait for them.
  EACH_STEP: AFTER, and before anything reads them.
  """

  FIRST = "first"
  AFTER = "after"
  EACH_STEP = "each step"


@dataclasses.dataclass(frozen=True)
class Write:
  """An op that may write variables with mirrors.

  Attributes:
    op: The op.
    variables: The ops of the variables.
    way: How their mirrors follow.
  """

  op: tf.Operation
  variables: Sequence[tf.Operation]
  way: Way

  @property
  def rows(self) -> tf.Tensor | None:
    """The indices of the rows that it writes; None for all rows."""
    names = [argument.name for argument in self.op.op_def.input_arg]
    if not op_types.is_row_write(self.op) or "indices" not in names:
      return None
    return self.op.inputs[names.index("indices")]


def find_writes(
  ops: Iterable[tf.Operation],
  mirrored: Collection[tf.Operation],
  forward: Collection[tf.Operation] = (),
  step: Collection[tf.Operation] = (),
  repeated: Collection[tf.Operation] = (),
) -> list[Write]:
  """Finds the writes of mirrored variables that mirrors have to follow.

  Args:
    ops: Ops of the default graph, in its order.
    mirrored: The ops of the variables.
    forward: Ops that do not write unless their type says so.
    step: The op of a training step.
    repeated: The writes that replicas make themselves.

  Raises:
    ValueError: If a write is in a v1 loop.
  """
  starts = set(variables_lib.initial_writes())
  step_counter = _step_counter()
  writes = []
  for op in ops:
    written = variables_lib.written_variables(op)
    variables = [variable for variable in written if variable in mirrored]
    if not variables or (op in forward and not op_types.is_write(op)):
      continue
    _check_loop(op, variables[0])
    # An optimizer's train op writes the global step: hooks run it alone, too.
    if (step_counter in variables or op not in step) and (
      op in repeated or _can_be_made_twice(op)
    ):
      writes.append(Write(op, variables, Way.FIRST))
    elif op not in starts:
      way = Way.AFTER if op in step else Way.EACH_STEP
      writes.append(Write(op, variables, way))
  return writes


def _step_counter() -> tf.Operation | None:
  """Returns the op of the global step; None if there is none."""
  variable = tf.compat.v1.train.get_global_step()
  return getattr(getattr(variable, "handle", variable), "op", None)


def _check_loop(op: tf.Operation, variable: tf.Operation) -> None:
  """Raises if an op is in a v1 loop, which nothing outside can wait for."""
  if graph_reads.outermost_loop(op) is not None:
    raise ValueError(
      f"{op.name} writes {variable.name} in a loop of TensorFlow 1, "
      "where no replica can follow; write it after the loop, call "
      "tf.compat.v1.enable_control_flow_v2(), or use "
      'variables="shared"'
    )


def _can_be_made_twice(op: tf.Operation) -> bool:
  """Whether an op with a mirror in its variable's place writes the same."""
  written = variables_lib.written_states(op)
  # An op in the branch of a v1 cond that reads nothing there runs in all cases.
  is_simple = len(written) == 1 and len(op.inputs) > 1
  return is_simple and op_types.is_write(op)
