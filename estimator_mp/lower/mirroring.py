"""Mirroring: a write of a variable is followed by its mirrors.

`replicas.mirrors` finds the writes of a variable and the way in which its
mirrors follow; the ops that do so are made here, at three times:

    model_fn has returned  -> the writes of a training step are followed
    graph is finalized     -> those that hooks and Savers made are, too
    a session was made     -> all mirrors are set: they are in no checkpoint
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from compat.private import graph_edits
from estimator_mp.graph import op_types, placed_ops, traversal
from estimator_mp.graph import variables as variables_lib
from estimator_mp.graph.definitions import Definitions, op_name
from estimator_mp.replicas import mirrors
from estimator_mp.replicas.mirrors import Mirrors, Way

import tensorflow as tf


def with_mirrors(
  spec: tf.estimator.EstimatorSpec,
  mirrored: Mirrors,
  forward: Collection[tf.Operation],
  repeated: Mapping[tf.Operation, Sequence[tf.Operation]],
) -> tf.estimator.EstimatorSpec:
  """Returns a spec whose training keeps mirrors equal to their variables.

  Args:
    spec: The spec whose `train_op` updates the variables.
    mirrored: The mirrors of variables of the default graph.
    forward: Ops that do not write unless their type says so.
    repeated: The writes that replicas make themselves: the ops that do so.
  """
  hook = MirrorHook(mirrored, forward, repeated)
  train_op = getattr(spec.train_op, "op", spec.train_op)
  following = hook.follow_step(train_op)
  graph_edits.before_finalization(train_op.graph, hook.follow_others)
  if following is not train_op:
    spec = spec._replace(train_op=following)
  return spec._replace(training_hooks=(*spec.training_hooks, hook))


class MirrorHook(tf.estimator.SessionRunHook):
  """Keeps the mirrors of one graph equal to their variables.

  Estimator initializes or restores variables before a session is there for
  hooks; mirrors, which are in no checkpoint, are set then.
  """

  def __init__(
    self,
    mirrored: Mirrors,
    forward: Collection[tf.Operation],
    repeated: Mapping[tf.Operation, Sequence[tf.Operation]],
  ):
    """Starts with no write followed.

    Args:
      mirrored: As for `with_mirrors`, like the others.
      forward: Ops of forward and backward passes.
      repeated: The writes that each replica makes itself: the ops that do so.
    """
    self._graph = tf.compat.v1.get_default_graph()
    self._mirrored = mirrored
    self._forward = forward
    self._repeated = repeated
    self._step: set[tf.Operation] = set()
    self._writes: list[mirrors.Write] = []
    self._num_seen = 0  # Ops, when the graph was complete.
    self._version = -1
    # Ops that no step runs, and that need not wait for a copy of each step.
    self._alone: set[tf.Operation] = set()
    with placed_ops.apart_from_caller("mirror"):
      everything = [x for op in mirrored for x in _copies(op, mirrored[op])]
      self._copy_all = _join(everything, "")
    self._alone.update(everything)

  def follow_step(self, train_op: tf.Operation) -> tf.Operation:
    """Lets the writes of a training step be followed by writes of mirrors.

    Args:
      train_op: The op of a training step.

    Returns:
      The op that the step has to run now.
    """
    self._step = traversal.ops_run_with(train_op)
    copies = self._follow(
      op for op in self._graph.get_operations() if op in self._step
    )
    if not copies.get(train_op):
      return train_op
    with placed_ops.apart_from_caller("mirror"):
      return _join([train_op, *copies[train_op]], train_op.device)

  def follow_others(self) -> None:
    """Lets all other writes be followed, when the graph is complete."""
    ops = self._graph.get_operations()
    with self._graph.as_default():
      self._follow(op for op in ops if op not in self._step)
    self._num_seen = len(self._graph.get_operations())

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator
  ) -> None:
    """Copies all variables to their mirrors.

    Raises:
      RuntimeError: If the mirrors do not follow all writes.
    """
    self._check_is_complete(session.graph)
    session.run(self._copy_all)

  def before_run(self, run_context: tf.estimator.SessionRunContext) -> None:
    """Checks whether ops were made since the graph was finalized.

    Raises:
      RuntimeError: If the mirrors do not follow all writes.
    """
    self._check_is_complete(run_context.session.graph)

  def _check_is_complete(self, graph: tf.Graph) -> None:
    """Raises if there is a write that the mirrors do not follow."""
    if graph.version == self._version:
      return
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
      writes = mirrors.find_writes(new, self._mirrored)
    if writes:
      raise RuntimeError(
        f"{writes[0].op.name} writes {writes[0].variables[0].name}, "
        "but was made after the graph was finalized, so the replicas would "
        "keep the old value; make it in model_fn or in a hook's begin()"
      )
    self._version = graph.version

  def _follow(
    self, ops: Iterable[tf.Operation]
  ) -> dict[tf.Operation, Sequence[tf.Operation]]:
    """Lets mirrors follow the writes among ops.

    Returns:
      The ops that follow a write, by the write.
    """
    writes = mirrors.find_writes(
      ops, self._mirrored, self._forward, self._step, self._repeated
    )
    self._writes += writes
    waiting = self._waiting_for(
      [write.op for write in writes if write.way is not Way.FIRST]
    )
    following: dict[tf.Operation, Sequence[tf.Operation]] = {}
    with placed_ops.apart_from_caller("mirror"):
      for write in writes:
        if write.way is Way.FIRST:
          continue
        copies = self._repeated.get(write.op)
        if copies is None:
          after = _ends(write.op)
          copies = [
            copy
            for variable in write.variables
            for copy in _copies(
              variable, self._mirrored[variable], write.rows, after
            )
          ]
        for other in waiting[write.op]:
          graph_edits.add_control_inputs(other, copies)
        following[write.op] = copies
      self._write_first([x for x in writes if x.way is Way.FIRST])
      each_step = dict.fromkeys(
        variable
        for write in writes
        if write.way is Way.EACH_STEP
        for variable in write.variables
      )
      for variable in each_step:
        self._copy_in_each_step(variable)
    return following

  def _waiting_for(
    self, writes: Sequence[tf.Operation]
  ) -> dict[tf.Operation, list[tf.Operation]]:
    """Returns the ops that wait for each write."""
    waiting: dict[tf.Operation, list[tf.Operation]] = {op: [] for op in writes}
    for op in self._graph.get_operations() if writes else ():
      for before in waiting.keys() & traversal.sources(op):
        waiting[before].append(op)
    return waiting

  def _write_first(self, writes: Sequence[mirrors.Write]) -> None:
    """Lets writes wait for their mirrors."""
    definitions = Definitions(self._graph)
    copies = {
      write.op: [
        _define_copy(definitions, write.op, mirror)
        for variable in write.variables
        for mirror in self._mirrored[variable]
      ]
      for write in writes
      if not self._repeated.get(write.op)
    }
    # At once: each import takes longer the larger the graph is.
    made = definitions.import_into_graph() if copies else {}
    for write in writes:
      first = self._repeated.get(write.op) or [
        made[name] for name in copies[write.op]
      ]
      graph_edits.add_control_inputs(write.op, first)
      if write.op not in self._step:
        self._alone.update(first)

  def _copy_in_each_step(self, variable: tf.Operation) -> None:
    """Lets all that a step does with mirrors wait for copies.

    The writes of the step itself come after, as they do in replica 0. Those
    that may give a variable its first value do not: there is nothing to copy
    before.
    """
    readers = [
      [x for x in mirror.consumers() if x not in self._alone]
      for mirror in self._mirrored[variable]
    ]
    copies = _copies(variable, self._mirrored[variable])
    for copy, of_mirror in zip(copies, readers, strict=True):
      for reader in of_mirror:
        graph_edits.add_control_inputs(reader, [copy])
    for write in self._writes:
      if variable in write.variables and self._has_value(write.op):
        graph_edits.add_control_inputs(write.op, copies)

  def _has_value(self, write: tf.Operation) -> bool:
    """Whether a variable is sure to have a value when it is written."""
    is_update = op_types.is_write(write) and write.type not in op_types.ASSIGNS
    return write in self._step or is_update


def _define_copy(
  definitions: Definitions, op: tf.Operation, mirror: tf.Tensor
) -> str:
  """Returns the name of a copy that writes a mirror in place of a variable."""
  (state,) = variables_lib.written_states(op)
  with definitions.on(mirror.device):
    copy = definitions.copy(
      op,
      f"estimator_mp/mirror/{op.name}",
      [mirror.name if x is state else x.name for x in op.inputs],
      [x.name for x in op.control_inputs],
    )
  return op_name(copy)


def _ends(write: tf.Operation) -> list[tf.Operation]:
  """Returns the ops after which a write has happened.

  A function is sure to have made its writes only when its outputs are there:
  control dependencies on a functional `If` do not wait for the ops in it.
  """
  outputs = [t for t in write.outputs if t.dtype != tf.resource]
  if not outputs or op_types.is_write(write):
    return [write]
  with tf.compat.v1.device(write.device):
    return [tf.identity(tensor).op for tensor in outputs]


def _copies(
  variable: tf.Operation,
  handles: Sequence[tf.Tensor],
  rows: tf.Tensor | None = None,
  after: Sequence[tf.Operation] = (),
) -> list[tf.Operation]:
  """Returns the ops that copy a variable, or rows of it, to its mirrors."""
  source = variable.outputs[0]
  dtype = tf.dtypes.as_dtype(variable.get_attr("dtype"))
  with tf.control_dependencies(after), tf.compat.v1.device(source.device):
    if rows is None:
      value = tf.raw_ops.ReadVariableOp(resource=source, dtype=dtype)
    else:
      value = tf.raw_ops.ResourceGather(
        resource=source, indices=rows, dtype=dtype
      )
  copies = []
  for mirror in handles:
    with tf.compat.v1.device(mirror.device):
      if rows is None:
        copy = tf.raw_ops.AssignVariableOp(resource=mirror, value=value)
      else:
        copy = tf.raw_ops.ResourceScatterUpdate(
          resource=mirror, indices=rows, updates=value
        )
      copies.append(copy)
  return copies


def _join(ops: Sequence[tf.Operation], device: str) -> tf.Operation:
  """Returns an op that waits for others."""
  with tf.compat.v1.device(device), tf.control_dependencies(ops):
    return tf.no_op("copied")
