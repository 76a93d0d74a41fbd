"""Mirrors: copies of variables on the devices of further replicas.

A variable of the model is on a device of replica 0: it has the name, is
initialized, restored, updated by the optimizer and saved. Its mirrors are read
by the other replicas, and whatever writes the variable is followed by its
mirrors:

- A write of a training step is followed by a copy, and whoever waits for the
  write waits for the copies as well. A sparse write is followed by a copy of
  the rows that it wrote.
- Any other write may be run alone: by a hook, by `variable.load`, which feeds
  an initializer, or by a Saver. Then nothing after it would run. So the mirrors
  are written first, by the same op, and the write waits for them. This costs a
  training step nothing.
- Some writes cannot be made twice: those in functions, and an optimizer's that
  has slots. If a training step does not run them, all that reads the mirrors
  waits for a copy of the variable, in each step.

Hooks make ops, too. So writes are looked for when the graph is finalized.

So all replicas have the same weights, bit for bit, and the work of the
optimizer is done once (Xu et al., "Automatic Cross-Replica Sharding of Weight
Update in Data-Parallel Training", 2020, arXiv:2004.13336).
"""

import dataclasses
import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from compat.private import graph_edits, graph_reads
from estimator_mp.graph import colocation, function_bodies, placed_ops
from estimator_mp.pipeline import slices

import tensorflow as tf

_SETS = frozenset(["Assign", "AssignVariableOp"])
_WRITES_ROWS = ("ResourceScatter", "ResourceSparseApply")


@dataclasses.dataclass(frozen=True)
class Mirrored:
  """A variable with its mirrors.

  Attributes:
    variable: The op of the variable.
    mirrors: The handles (or references, for a v1 variable) of its mirrors.
  """

  variable: tf.Operation
  mirrors: Sequence[tf.Tensor]


class Way(enum.Enum):
  """When the mirrors of a variable that is written are written.

  FIRST: The write waits for them, whoever runs it.
  AFTER: Whoever waits for the write waits for them.
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
    variables: The variables.
    way: How their mirrors follow.
  """

  op: tf.Operation
  variables: Sequence[Mirrored]
  way: Way


def find_writes(
  ops: Sequence[tf.Operation],
  mirrored: Sequence[Mirrored],
  forward: Collection[tf.Operation],
  step: Collection[tf.Operation],
  repeated: Collection[tf.Operation],
) -> list[Write]:
  """Finds the writes of mirrored variables.

  Args:
    ops: Ops in the order of the graph. Those that give variables their first
      values are left out if the mirrors cannot be written first.
    mirrored: The variables.
    forward: Ops that do not write unless their type says so.
    step: What a training step runs.
    repeated: The writes that replicas make themselves.

  Raises:
    ValueError: If a write is in a v1 loop.
  """
  by_variable = {entry.variable: entry for entry in mirrored}
  starts = initializers()
  global_step = tf.compat.v1.train.get_global_step()
  step_counter = getattr(
    getattr(global_step, "handle", global_step), "op", None
  )
  found = []
  for op in ops:
    variables = [
      by_variable[variable]
      for variable in dict.fromkeys(
        map(colocation.variable_of, function_bodies.written_states(op))
      )
      if variable in by_variable
    ]
    if not variables or (op in forward and not slices.is_write(op)):
      continue
    _check_loop(op, variables[0])
    # An optimizer's train op writes the global step: hooks run it alone, too.
    is_train_op = step_counter in [entry.variable for entry in variables]
    is_alone = op not in step
    way = Way.AFTER
    if is_alone or is_train_op:
      if op in repeated or _can_be_made_twice(op):
        way = Way.FIRST
      elif is_alone and op not in starts:
        way = Way.EACH_STEP
    if way is Way.FIRST or op not in starts:
      found.append(Write(op, variables, way))
  return found


def _check_loop(op: tf.Operation, entry: Mirrored) -> None:
  """Raises if an op is in a v1 loop, which nothing outside can wait for."""
  if graph_reads.outermost_loop(op) is not None:
    raise ValueError(
      f"{op.name} writes {entry.variable.name} in a loop of TensorFlow 1, "
      "where no replica can follow; write it after the loop, call "
      "tf.compat.v1.enable_control_flow_v2(), or use "
      'variables="shared"'
    )


def _can_be_made_twice(op: tf.Operation) -> bool:
  """Whether an op with a mirror in its variable's place writes the same."""
  states = function_bodies.written_states(op)
  # An op in the branch of a v1 cond that reads nothing there runs in all cases.
  is_simple = len(states) == 1 and len(op.inputs) > 1
  return is_simple and slices.is_write(op)


class Mirrors:
  """What keeps the mirrors of one graph equal to their variables.

  Attributes:
    copy_all: The op that copies all variables, for the beginning.
  """

  def __init__(
    self,
    mirrored: Sequence[Mirrored],
    forward: Collection[tf.Operation],
    repeated: Mapping[tf.Operation, Sequence[tf.Operation]],
  ):
    """Starts with no write followed.

    Args:
      mirrored: The variables, of the default graph.
      forward: Ops that do not write unless their type says so.
      repeated: The writes that replicas make themselves: the ops that do so.
    """
    self._graph = tf.compat.v1.get_default_graph()
    self._mirrored = mirrored
    self._forward = forward
    self._repeated = repeated
    self._step: set[tf.Operation] = set()
    self._writes: list[Write] = []
    self._num_seen = 0
    # What no step runs, so that it need not wait for a copy of each step.
    self._alone: set[tf.Operation] = set()
    with placed_ops.apart_from_caller("mirror"):
      everything = [copy for entry in mirrored for copy in _copies(entry)]
      self.copy_all = _join(everything, "")
    self._alone.update(everything)

  def follow_step(self, train_op: tf.Operation) -> tf.Operation:
    """Lets the writes of a training step be followed by writes of mirrors.

    Args:
      train_op: What a training step runs.

    Returns:
      What it has to run now.
    """
    self._step = slices.ops_run_with(train_op)
    return self._follow(
      [op for op in self._graph.get_operations() if op in self._step], train_op
    )

  def follow_others(self) -> None:
    """Lets all other writes be followed, when the graph is complete."""
    ops = self._graph.get_operations()
    with self._graph.as_default():
      self._follow([op for op in ops if op not in self._step], None)
    self._num_seen = len(self._graph.get_operations())

  def check_is_complete(self) -> None:
    """Raises if there is a write that the mirrors do not follow.

    Raises:
      RuntimeError: If the graph was not finalized, or got more writes after
        that.
    """
    if not self._num_seen:
      raise RuntimeError(
        "a session was made of a graph that is not finalized, so replicas do "
        "not know yet what writes their variables; call "
        "tf.compat.v1.get_default_graph().finalize() before, as "
        "tf.compat.v1.train.MonitoredTrainingSession does"
      )
    new = self._graph.get_operations()[self._num_seen :]
    self._num_seen += len(new)
    with self._graph.as_default():
      writes = find_writes(new, self._mirrored, (), (), ())
    if writes:
      raise RuntimeError(
        f"{writes[0].op.name} writes {writes[0].variables[0].variable.name}, "
        "but was made after the graph was finalized, so the replicas would "
        "keep the old value; make it in model_fn or in a hook's begin()"
      )

  def _follow(self, ops: Sequence[tf.Operation], train_op: Any) -> Any:
    """Follows the writes among ops; returns what a step has to run now."""
    writes = find_writes(
      ops, self._mirrored, self._forward, self._step, self._repeated
    )
    self._writes += writes
    with placed_ops.apart_from_caller("mirror"):
      waiting = self._waiting_for([w for w in writes if w.way is not Way.FIRST])
      for write in writes:
        if write.way is Way.FIRST:
          self._write_first(write)
          continue
        copies = self._repeated.get(write.op)
        if copies is None:
          after = _ends(write.op)
          copies = [
            c for x in write.variables for c in _copies(x, write.op, after)
          ]
        if copies:
          for other in waiting.get(write.op, ()):
            graph_edits.add_control_inputs(other, copies)
          if write.op is train_op:
            train_op = _join([write.op, *copies], write.op.device)
      self._copy_in_each_step(writes)
    return train_op

  def _waiting_for(
    self, writes: Sequence[Write]
  ) -> dict[tf.Operation, list[tf.Operation]]:
    """Returns the ops that wait for each write."""
    waiting: dict[tf.Operation, list[tf.Operation]] = {
      write.op: [] for write in writes
    }
    for op in self._graph.get_operations() if writes else ():
      for before in {*op.control_inputs, *(t.op for t in op.inputs)}:
        if before in waiting:
          waiting[before].append(op)
    return waiting

  def _write_first(self, write: Write) -> None:
    """Lets a write wait for its mirrors."""
    first = self._repeated.get(write.op) or [
      _made_again(write.op, mirror)
      for entry in write.variables
      for mirror in entry.mirrors
    ]
    graph_edits.add_control_inputs(write.op, first)
    if write.op not in self._step:
      self._alone.update(first)

  def _copy_in_each_step(self, writes: Sequence[Write]) -> None:
    """Lets all that a step does with mirrors wait for copies."""
    entries = {
      entry.variable: entry
      for write in writes
      if write.way is Way.EACH_STEP
      for entry in write.variables
    }
    for entry in entries.values():
      readers = [
        [x for x in mirror.consumers() if x not in self._alone]
        for mirror in entry.mirrors
      ]
      copies = _copies(entry)
      for copy, of_mirror in zip(copies, readers, strict=True):
        for reader in of_mirror:
          graph_edits.add_control_inputs(reader, [copy])
      for write in self._writes:
        if entry in write.variables and self._has_value(write.op):
          graph_edits.add_control_inputs(write.op, copies)

  def _has_value(self, write: tf.Operation) -> bool:
    """Whether a variable is sure to have a value when it is written."""
    is_update = slices.is_write(write) and write.type not in _SETS
    return write in self._step or is_update


class MirrorHook(tf.estimator.SessionRunHook):
  """Sets mirrors to their variables when a session has been made.

  Estimator initializes or restores variables before; mirrors are in no
  checkpoint.
  """

  def __init__(self, mirrors: Mirrors):
    """Initializes the hook.

    Args:
      mirrors: The mirrors.
    """
    self._mirrors = mirrors
    self._version = -1

  def after_create_session(self, session, coord):
    """Copies all variables to their mirrors.

    Raises:
      RuntimeError: If the mirrors do not follow all writes.
    """
    self._check(session.graph)
    session.run(self._mirrors.copy_all)

  def before_run(self, run_context):
    """Sees whether somebody has made ops since the graph was finalized.

    Raises:
      RuntimeError: If the mirrors do not follow all writes.
    """
    self._check(run_context.session.graph)

  def _check(self, graph: tf.Graph) -> None:
    if graph.version != self._version:
      self._mirrors.check_is_complete()
      self._version = graph.version


def initializers() -> set[tf.Operation]:
  """Returns the ops that give variables their first values."""
  return {
    variable.initializer
    for variable in (
      *tf.compat.v1.global_variables(),
      *tf.compat.v1.local_variables(),
    )
  }


def _made_again(op: tf.Operation, mirror: tf.Tensor) -> tf.Operation:
  """Returns an op that does to a mirror what another does to its variable."""
  (state,) = function_bodies.written_states(op)
  # A reference also says what is to be done before.
  before = [] if colocation.is_variable(state.op) else [state.op]
  with (
    tf.compat.v1.device(mirror.device),
    tf.control_dependencies([*op.control_inputs, *before]),
  ):
    return op.graph.create_op(
      op.type,
      [mirror if tensor is state else tensor for tensor in op.inputs],
      [tensor.dtype for tensor in op.outputs],
      [tensor.dtype for tensor in op.inputs],
      op.name,
      {
        name: value
        for name, value in op.node_def.attr.items()
        if not name.startswith("_")
      },
    )


def _copies(
  entry: Mirrored,
  write: tf.Operation | None = None,
  after: Sequence[tf.Operation] = (),
) -> list[tf.Operation]:
  """Returns the ops that copy what was written of a variable to its mirrors."""
  source = entry.variable.outputs[0]
  with tf.control_dependencies(after):
    if source.dtype != tf.resource:
      with tf.compat.v1.device(source.device):
        value = tf.identity(source)
      return [_assigned_reference(mirror, value) for mirror in entry.mirrors]
    indices = None if write is None else _written_rows(write)
    dtype = tf.dtypes.as_dtype(entry.variable.get_attr("dtype"))
    with tf.compat.v1.device(source.device):
      if indices is None:
        value = tf.raw_ops.ReadVariableOp(resource=source, dtype=dtype)
      else:
        value = tf.raw_ops.ResourceGather(
          resource=source, indices=indices, dtype=dtype
        )
  copies = []
  for mirror in entry.mirrors:
    with tf.compat.v1.device(mirror.device):
      if indices is None:
        copy = tf.raw_ops.AssignVariableOp(resource=mirror, value=value)
      else:
        copy = tf.raw_ops.ResourceScatterUpdate(
          resource=mirror, indices=indices, updates=value
        )
      copies.append(copy)
  return copies


def _ends(write: tf.Operation) -> list[tf.Operation]:
  """Returns the ops after which a write has happened.

  A function is sure to have made its writes only when its outputs are there:
  control dependencies on a functional `If` do not wait for what is in it.
  """
  outputs = [t for t in write.outputs if t.dtype != tf.resource]
  if not outputs or slices.is_write(write):
    return [write]
  with tf.compat.v1.device(write.device):
    return [tf.identity(tensor).op for tensor in outputs]


def _assigned_reference(mirror: tf.Tensor, value: tf.Tensor) -> tf.Operation:
  with tf.compat.v1.device(mirror.device):
    return tf.raw_ops.Assign(ref=mirror, value=value).op


def _written_rows(write: tf.Operation) -> tf.Tensor | None:
  """Returns the indices of the rows that an op writes; None for all rows."""
  names = [argument.name for argument in write.op_def.input_arg]
  is_by_rows = write.type.startswith(_WRITES_ROWS) and "Nd" not in write.type
  if not is_by_rows or "indices" not in names:
    return None
  return write.inputs[names.index("indices")]


def _join(ops: Sequence[tf.Operation], device: str) -> tf.Operation:
  """Returns an op that waits for others."""
  with tf.compat.v1.device(device), tf.control_dependencies(ops):
    return tf.no_op("copied")
