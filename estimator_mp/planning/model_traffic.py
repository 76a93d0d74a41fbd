"""The traffic of a model axis, read off the layouts of its tensors.

Whole tensors are on the first device. TensorFlow sends a tensor once to each
device that reads it, however many ops read it there.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from estimator_mp.analysis.symbolic_shapes import MEASURES, SymbolicShapes
from estimator_mp.graph import feeds, op_types, same_ops, variables
from estimator_mp.planning.split_plan import (
  BROADCAST,
  EXCHANGE,
  GATHER,
  SLICE,
  Gather,
  Sent,
)
from estimator_mp.propagate.layouts import (
  ONCE,
  Layout,
  Partial,
  Parts,
  Read,
  Repeated,
  Shard,
  Sizes,
)
from estimator_mp.propagate.propagation import Propagation
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf

# A maximum and a sum of a row, and the logarithm that comes back; and a term of
# a loss.
_NUMBERS_OF_SOFTMAX, _NUMBERS_OF_LOSS = 3, 4


class Traffic:
  """The tensors sent between devices of a model axis in a training step."""

  def __init__(
    self,
    layouts: Propagation,
    shapes: SymbolicShapes,
    count: int,
    sizes: Mapping[str, int],
    backward: Collection[tf.Operation],
  ):
    """Starts with nothing.

    Args:
      layouts: How ops are executed over the devices.
      shapes: The sizes of tensors.
      count: How many devices there are.
      sizes: The bytes of tensors for a nominal batch, by their names.
      backward: The ops that come after the forward pass.
    """
    self.gathers: list[Gather] = []
    self._layouts = layouts
    self._shapes = shapes
    self._count = count
    self._sizes = sizes
    self._backward = backward
    self._sent: dict[tuple[str, str], Sent] = {}
    # TensorFlow computes equal ops, and sends their results, once.
    self._same = same_ops.SameOps()
    self._seen: set[Hashable] = set()

  @property
  def sent(self) -> tuple[Sent, ...]:
    """The traffic, each tensor once for each kind of communication."""
    return tuple(self._sent.values())

  def add(self, ops: Iterable[tf.Operation]) -> None:
    """Adds the traffic of ops.

    Args:
      ops: Those of a step.
    """
    for op in ops:
      parts = self._layouts.parts.get(op)
      table = self._layouts.layout(op.inputs[0]) if op.inputs else ONCE
      of_rows = exchanged_rows(op, parts, table, self._shapes)
      if of_rows:
        tensor = op.outputs[0] if op.outputs else of_rows[0]
        num_bytes = bytes_of_rows(of_rows, table, self._sizes)
        self._enter(EXCHANGE, tensor, op, num_bytes)
        continue
      reads: Sequence[Read | None] = [None] * len(op.inputs)
      if parts is not None:
        reads = parts.reads
      if op.type not in MEASURES:
        for tensor, read in zip(op.inputs, reads, strict=True):
          if may_be_sent(tensor, self._shapes):
            self._read(op, tensor, read)
      if parts is not None and parts.exchanges:
        layout = self._layouts.layout(op.inputs[0])
        num_bytes = exchanged_bytes(
          op, layout, self._shapes, self._sizes, self._count
        )
        self._enter(EXCHANGE, op.outputs[0], op, num_bytes)

  def _read(
    self, op: tf.Operation, tensor: tf.Tensor, read: Read | None
  ) -> None:
    """Adds the read of an op; None reads all, on the first device."""
    layout = self._layouts.layout(tensor)
    size = self._sizes.get(tensor.name, 0)
    sent = moves(tensor, layout, read, size, self._count)
    for kind, num_bytes in sent.items():
      if kind == BROADCAST and self._is_there(tensor):
        continue
      reader = op if kind in (BROADCAST, SLICE) else tensor.op
      self._enter(kind, tensor, reader, num_bytes)
      if kind == GATHER and op not in self._layouts.parts:
        self.gathers.append(Gather(tensor.name, op.name, op.type))

  def _is_there(self, tensor: tf.Tensor) -> bool:
    """Whether all devices have the result of an equal op."""
    if tensor.op in self._layouts.parts:
      return False
    value: Hashable = self._same.first(tensor.op), tensor.value_index
    if tensor.op.type == "ReadVariableOp":  # Lowering lets all read one.
      read = variables.variable_of(tensor.op.inputs[0])
      value = read, frozenset(tensor.op.control_inputs)
    is_there = value in self._seen
    self._seen.add(value)
    return is_there

  def _enter(
    self, kind: str, tensor: tf.Tensor, op: tf.Operation, num_bytes: int
  ) -> None:
    is_back = tensor.op in self._backward
    both = (0, num_bytes) if is_back else (num_bytes, 0)
    self._sent.setdefault(
      (kind, tensor.name), Sent(kind, tensor.name, op.name, op.type, *both)
    )


def may_be_sent(tensor: tf.Tensor, shapes: SymbolicShapes) -> bool:
  """Whether a tensor is sent to those that read it, and not made by each.

  Args:
    tensor: The tensor.
    shapes: The sizes of tensors.
  """
  return not (
    op_types.is_handle(tensor)
    or tensor.op.type in MEASURES
    or tensor.op.type == "BroadcastGradientArgs"
    or shapes.value(tensor) is not None
  )


def moves(
  tensor: tf.Tensor,
  layout: Layout,
  read: Read | None,
  num_bytes: int,
  count: int,
) -> dict[str, int]:
  """Returns the bytes that are sent for an op to read a tensor, by kinds.

  Args:
    tensor: The tensor.
    layout: Its layout.
    read: How parts of the op read it; None if it is executed once.
    num_bytes: The bytes of the tensor.
    count: How many devices there are.
  """
  if isinstance(read, Sizes) or layout == read != ONCE:
    return {}
  sent: dict[str, int] = {}
  to_others = num_bytes * (count - 1)
  if isinstance(layout, Partial):
    sent[layout.reduction.value] = to_others
  elif isinstance(layout, Shard):
    sent[GATHER] = bytes_of_others(layout, num_bytes)
  if isinstance(read, Shard | Repeated):
    sent[SLICE] = bytes_of_others(read, num_bytes)
  elif (
    read is not None
    and not isinstance(read, Partial)
    and not feeds.can_be_copied(tensor.op)
  ):
    sent[BROADCAST] = to_others
  return sent


def bytes_of_others(split: Shard | Repeated, num_bytes: int) -> int:
  """Returns the bytes of a tensor's parts that are not on the first device.

  Args:
    split: How it is split.
    num_bytes: The bytes of all of it.
  """
  shard = split.shard if isinstance(split, Repeated) else split
  parts = shard.partition.parts
  numbers = [x for x in parts if isinstance(x, int)]
  if len(numbers) < len(parts) or not any(numbers):
    return num_bytes * (len(parts) - 1) // len(parts)
  return num_bytes * sum(numbers[1:]) // sum(numbers)


def exchanged_bytes(
  op: tf.Operation,
  layout: Layout,
  shapes: SymbolicShapes,
  sizes: Mapping[str, int],
  count: int,
) -> int:
  """Returns the bytes that the parts of an op send each other.

  Args:
    op: The op: a softmax over classes that are split.
    layout: The layout of its first input.
    shapes: The sizes of tensors.
    sizes: The bytes of tensors for a nominal batch, by their names.
    count: How many devices there are.
  """
  (tensor, *_), shape = op.inputs, shapes.shape(op.inputs[0])
  along: Size | None = None
  if shape is not None and isinstance(layout, Shard):
    along = shape[layout.dim]
  rows = sizes.get(tensor.name, 0) // (
    along if isinstance(along, int) and along else 1
  )
  numbers = _NUMBERS_OF_LOSS if len(op.outputs) > 1 else _NUMBERS_OF_SOFTMAX
  return numbers * (count - 1) * rows


def exchanged_rows(
  op: tf.Operation, parts: Parts | None, table: Layout, shapes: SymbolicShapes
) -> list[tf.Tensor]:
  """Returns the tensors of an op with an entry for each row of a table.

  Args:
    op: An op that looks rows up, or writes them.
    parts: How it is executed in parts; None if it is executed once.
    table: The layout of its first input.
    shapes: The sizes of tensors.

  Returns:
    The numbers of rows first; nothing if the op does neither.
  """
  if not isinstance(table, Shard) or table.dim:
    return []
  if parts is None:
    is_lookup = op_types.looks_up_rows(op)
    return [op.inputs[1], op.outputs[0]] if is_lookup else []
  rule = shapes.rule(op)
  if parts.owned is None or rule is None or op.outputs:
    return []
  ids = op.inputs[parts.owned[0]]
  return [
    ids,
    *(
      x
      for i, x in enumerate(op.inputs)
      if x is not ids and "Entries" in rule.labels(i)
    ),
  ]


def bytes_of_rows(
  tensors: Sequence[tf.Tensor], table: Layout, sizes: Mapping[str, int]
) -> int:
  """Returns the bytes sent for the rows of others, as if all rows differed.

  Args:
    tensors: The tensors with an entry for each row, the numbers of rows first.
    table: The layout of the table.
    sizes: The bytes of tensors for a nominal batch, by their names.
  """
  assert isinstance(table, Shard)
  first, *others = (x for x in table.partition.parts if isinstance(x, int))
  elsewhere, ids = sum(others), tensors[0]
  count = max(sizes.get(ids.name, 0) // max(int(ids.dtype.size), 1), 1)
  wanted = min(count * elsewhere // max(first + elsewhere, 1), elsewhere)
  return sum(wanted * (sizes.get(x.name, 0) // count) for x in tensors)
