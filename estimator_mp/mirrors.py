"""Mirrors: copies of variables on the devices of further replicas.

A variable of the model is on a device of replica 0: it has the name, is
initialized, restored, updated by the optimizer and saved. Its mirrors are read
by the other replicas. Whatever writes the variable is followed by a copy to its
mirrors, and whoever waits for the write waits for the copies as well. A sparse
write is followed by a copy of the rows that it wrote.

So all replicas have the same weights, bit for bit, and the work of the
optimizer is done once (Xu et al., "Automatic Cross-Replica Sharding of Weight
Update in Data-Parallel Training", 2020, arXiv:2004.13336).
"""

import dataclasses
import weakref
from collections.abc import Collection, Mapping, Sequence

from compat import private_graph
from estimator_mp import graph_slice, states, units

import tensorflow as tf

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


# Names of variables and of their mirrors: ops would keep their graphs alive.
# Not a graph collection: those are written into checkpoints' meta graphs.
_names: weakref.WeakKeyDictionary[tf.Graph, dict[str, list[str]]] = (
  weakref.WeakKeyDictionary()
)


def record_mirrors(mirrored: Sequence[Mirrored]) -> None:
  """Attaches mirrored variables to the default graph, for `get_mirrors`.

  Args:
    mirrored: The variables.
  """
  _names[tf.compat.v1.get_default_graph()] = {
    entry.variable.name: [mirror.name for mirror in entry.mirrors]
    for entry in mirrored
  }


def get_mirrors(graph: tf.Graph) -> tuple[Mirrored, ...]:
  """Returns the mirrored variables of a graph; none if it has no replicas.

  Args:
    graph: The graph.
  """
  return tuple(
    Mirrored(
      graph.get_operation_by_name(variable),
      [graph.get_tensor_by_name(name) for name in names],
    )
    for variable, names in _names.get(graph, {}).items()
  )


class MirrorHook(tf.estimator.SessionRunHook):
  """Sets mirrors to their variables when a session has been made.

  Estimator initializes or restores variables before; mirrors are in no
  checkpoint.
  """

  def __init__(self, copy_all: tf.Operation):
    """Initializes the hook.

    Args:
      copy_all: The op of `follow_writes` that copies all variables.
    """
    self._copy_all = copy_all

  def after_create_session(self, session, coord):
    """Copies all variables to their mirrors."""
    session.run(self._copy_all)


def follow_writes(
  mirrored: Sequence[Mirrored],
  train_op: tf.Operation,
  forward: Collection[tf.Operation],
  repeated: Mapping[tf.Operation, Sequence[tf.Operation]],
) -> tuple[tf.Operation, tf.Operation]:
  """Lets each write of a variable be followed by writes of its mirrors.

  Args:
    mirrored: The variables.
    train_op: What a training step runs.
    forward: Ops that do not write unless their type says so.
    repeated: The writes that replicas make themselves: the ops that do so.

  Returns:
    The op that a training step has to run now, and one that copies all
    variables, for the beginning.
  """
  graph = train_op.graph
  ops = graph.get_operations()
  by_variable = {entry.variable: entry for entry in mirrored}
  starts = initializers()
  waiting: dict[tf.Operation, list[tf.Operation]] = {}
  for op in ops:
    for before in {*op.control_inputs, *(t.op for t in op.inputs)}:
      waiting.setdefault(before, []).append(op)
  with (
    tf.compat.v1.name_scope(None),
    tf.control_dependencies(None),
    tf.compat.v1.name_scope("estimator_mp/mirror"),
  ):
    for op in ops:
      copies = repeated.get(op)
      if copies is None and op not in starts:
        written = [
          by_variable[variable]
          for variable in dict.fromkeys(map(units.variable_of, op.inputs))
          if variable in by_variable
          if graph_slice.is_write(op) or (op not in forward and _may_write(op))
        ]
        after = _ends(op) if written else ()
        copies = [c for entry in written for c in _copies(entry, op, after)]
      if not copies:
        continue
      for other in waiting.get(op, ()):
        private_graph.add_control_inputs(other, copies)
      if op is train_op:
        train_op = _join(copies, op.device)
    everything = [copy for entry in mirrored for copy in _copies(entry)]
    return train_op, _join(everything, "")


def initializers() -> set[tf.Operation]:
  """Returns the ops that give variables their first values."""
  return {
    variable.initializer
    for variable in (
      *tf.compat.v1.global_variables(),
      *tf.compat.v1.local_variables(),
    )
  }


def _may_write(op: tf.Operation) -> bool:
  """Whether an op that gets a variable's handle may change the variable."""
  # A function (If, While, PartitionedCall) may do anything.
  has_handle = any(t.dtype == tf.resource for t in op.inputs)
  return has_handle and op.op_def.is_stateful and op.type not in states.READS


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
  if not outputs or graph_slice.is_write(write):
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
