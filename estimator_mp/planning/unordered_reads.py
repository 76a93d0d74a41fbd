"""Unordered reads: those that no edge orders before a write of their variable.

BERT's optimizer assigns the step that its learning rate reads, and neither
waits for the other. On one device TensorFlow happens to begin with the reads;
on three, each with its own executor, a read came after the write twice in 600
steps. So reads that can begin at once, and that the program makes first, come
first.
"""

from collections.abc import Collection, Iterable

from estimator_mp.graph import (
  control_flow,
  frames,
  op_types,
  traversal,
  variables,
)

import tensorflow as tf

_LOOKUPS = frozenset(["ResourceGather", "ResourceGatherNd"])


def find(
  ops: Collection[tf.Operation], lookups: bool = False
) -> dict[tf.Operation, list[tf.Operation]]:
  """Returns which reads each write has to wait for.

  Args:
    ops: The ops that run in a step, in the order in which they were made.
    lookups: Whether reads of rows count, too: each slice looks up by itself.
  """
  numbers = {op: number for number, op in enumerate(ops)}
  in_branches = control_flow.ops_in_branches([*ops])
  # A loop begins there, so nothing outside of it can wait for them.
  in_branches |= {op for op in ops if op.type in op_types.ENTERS}
  reads: dict[tf.Operation, list[tf.Operation]] = {}
  for op in ops:
    read = _variable_read_at_once(op)
    if read is None and lookups and op.type in _LOOKUPS:
      read = variables.variable_of(op.inputs[0])
    if read is not None and op not in in_branches:
      reads.setdefault(read, []).append(op)
  pairs = [
    (read, op)
    for variable, readers in reads.items()
    for op in dict.fromkeys(traversal.consumers(variable))
    if op in numbers and op not in in_branches
    if variable in variables.written_variables(op)
    for read in readers
    if numbers[read] < numbers[op]
  ]
  if not pairs:
    return {}
  waits: dict[tf.Operation, list[tf.Operation]] = {}
  order = _Order({op for pair in pairs for op in pair}, ops)
  for read, write in pairs:
    if not order.is_before(read, write) and not order.is_before(write, read):
      waits.setdefault(write, []).append(read)
  return waits


def _variable_read_at_once(op: tf.Operation) -> tf.Operation | None:
  """Returns the variable of which an op reads the memory as a step begins.

  A handle's reader gives a value that stays. A reference's gives the memory of
  the variable on, and who reads that is the reader, if it is on the device.
  """
  inputs = op.inputs
  if len(inputs) != 1 or op.control_inputs:
    return None
  (value,) = inputs
  if op.type == "ReadVariableOp":
    return variables.variable_of(value)
  is_of_reference = (
    value.op.type == "Identity"
    and op_types.is_reference(value.op.inputs[0])
    and not value.op.control_inputs
    and value.op.device == op.device
  )
  return variables.variable_of(value.op.inputs[0]) if is_of_reference else None


def find_of_references(
  ops: Collection[tf.Operation],
) -> dict[tf.Operation, list[tf.Operation]]:
  """Returns which readers of reference variables each write has to wait for.

  Who reads a reference reads memory, and later than it seems: `Identity` and
  its like hand the memory on. In a plain graph gradients wait for each other
  (`tf.tuple`), so that none is computed from a variable that is updated
  already.

  Args:
    ops: The ops that run in a step, in the order in which they were made.
  """
  inside = set(ops)
  writes: dict[tf.Operation, list[tf.Operation]] = {}
  for op in ops:
    for state in variables.written_states(op):
      if op_types.is_reference(state):
        writes.setdefault(variables.variable_of(state), []).append(op)
  if not writes:
    return {}
  loops = frames.Frames(ops)
  inner = control_flow.ops_in_branches([*ops])
  inner |= {op for op in ops if loops.output_frame(op) is not None}

  def outside(op: tf.Operation) -> list[tf.Operation]:
    """Returns an op, or its descendants outside if nothing can wait for it."""
    reached = traversal.walk(
      [op], lambda x: traversal.consumers(x) if x in inner else ()
    )
    return [x for x in reached if x in inside and x not in inner]

  pairs: list[tuple[tf.Operation, tf.Operation]] = []
  for variable, of_variable in writes.items():
    readers = dict.fromkeys(
      end
      for reader in readers_of(variable)
      if reader in inside
      for end in outside(reader)
    )
    pairs += [
      (reader, write)
      for write in of_variable
      if write not in inner
      for reader in readers
      if reader not in of_variable
    ]
  waits: dict[tf.Operation, list[tf.Operation]] = {}
  order = _Order({op for pair in pairs for op in pair}, ops)
  for reader, write in pairs:
    if not order.is_before(reader, write) and not order.is_before(
      write, reader
    ):
      waits.setdefault(write, []).append(reader)
  return waits


def readers_of(variable: tf.Operation) -> list[tf.Operation]:
  """Returns the ops that read a variable, or its memory, whenever they run.

  Args:
    variable: The op of a handle, or of a reference, which ops hand on.
  """
  handed_on = traversal.walk(
    [variable],
    lambda op: [
      x for x in traversal.consumers(op) if x.type in op_types.SHARES_MEMORY
    ],
  )
  return [
    reader
    for op in handed_on
    for reader in traversal.consumers(op)
    if reader.type not in op_types.SHARES_MEMORY
  ]


class _Order:
  """Which of some ops come before an op, as the bits of a number.

  There are hundreds of them, and a graph is large: a number is faster than a
  set by far.
  """

  def __init__(
    self, some: Iterable[tf.Operation], ops: Collection[tf.Operation]
  ):
    self._bits = {op: 1 << index for index, op in enumerate(some)}
    self._masks: dict[tf.Operation, int] = {}
    self._sources = {op: traversal.sources(op) for op in ops}
    traversal.repeat_until_stable(
      self._visit, traversal.in_order(ops, self._sources.__getitem__)
    )

  def _visit(self, op: tf.Operation) -> bool:
    """Adds the predecessors of an op's sources; says if it is more."""
    mask = 0
    for source in self._sources[op]:
      mask |= self._masks.get(source, 0) | self._bits.get(source, 0)
    is_more = mask != self._masks.get(op, 0)
    self._masks[op] = mask
    return is_more

  def is_before(self, one: tf.Operation, other: tf.Operation) -> bool:
    return bool(self._masks[other] & self._bits[one])
