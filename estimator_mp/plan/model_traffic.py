"""The traffic of a model axis, read off the layouts of its tensors.

Whole tensors are on the first device. TensorFlow sends a tensor once to each
device that reads it, however many ops read it there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from estimator_mp.analysis.symbolic_shapes import MEASURES, SymbolicShapes
from estimator_mp.graph import feeds, op_types, same_ops
from estimator_mp.model_axis import costs
from estimator_mp.model_axis.costs import Sent
from estimator_mp.model_axis.inference import Gather
from estimator_mp.propagate.layouts import (
  ONCE,
  Layout,
  Partial,
  Read,
  Repeated,
  Shard,
  Sizes,
  is_whole,
)
from estimator_mp.propagate.propagation import Propagation

import tensorflow as tf

# A maximum and a sum of a row, and the logarithm that comes back; and a term of
# a loss.
_NUMBERS_OF_SOFTMAX, _NUMBERS_OF_LOSS = 3, 4


class Traffic:
  """What is sent between the devices of a model axis in a training step."""

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
    self._others = count - 1
    self._count = count
    self._sizes = sizes
    self._backward = backward
    self._sent: dict[tuple[str, str], Sent] = {}
    # What is computed several times TensorFlow computes, and sends, once.
    self._same = same_ops.SameOps()
    self._seen: set[tuple[tf.Operation, int]] = set()

  @property
  def sent(self) -> tuple[Sent, ...]:
    """What is sent, each tensor once for each kind of communication."""
    return tuple(self._sent.values())

  def add(self, ops: Iterable[tf.Operation]) -> None:
    """Adds what ops read.

    Args:
      ops: Those of a step.
    """
    for op in ops:
      how = self._layouts.parts.get(op)
      rows = self._layouts.layout(op.inputs[0]) if op.inputs else ONCE
      if how is None and op.type == "ResourceGather" and rows != ONCE:
        self._exchange(op, rows, [op.inputs[1], op.outputs[0]])
        continue
      rule = self._shapes.rule(op)
      if how is not None and how.owned is not None and rule and not op.outputs:
        of_rows = [
          x for i, x in enumerate(op.inputs) if "Entries" in rule.labels(i)
        ]
        ids = op.inputs[how.owned[0]]
        others = [x for x in of_rows if x is not ids]
        self._exchange(op, rows, [ids, *others])
        continue
      reads: Sequence[Read | None] = [None] * len(op.inputs)
      if how is not None:
        reads = how.reads
      for tensor, read in zip(op.inputs, reads, strict=True):
        if not op_types.is_handle(tensor) and not isinstance(read, Sizes):
          self._read(op, tensor, read)
      if how is not None and how.exchanges:
        count = self._bytes(op.inputs[0]) // (self._size_along(op) or 1)
        has_loss = len(op.outputs) > 1
        numbers = _NUMBERS_OF_LOSS if has_loss else _NUMBERS_OF_SOFTMAX
        num_bytes = numbers * self._others * count
        self._enter(costs.EXCHANGE, op.outputs[0], op, num_bytes)

  def _exchange(
    self, op: tf.Operation, rows: Layout, tensors: Sequence[tf.Tensor]
  ) -> None:
    """Adds what is sent for the rows that others have, as if all differed.

    Args:
      op: What looks rows up, or writes them.
      rows: The layout of the table.
      tensors: What has an entry for each row, the numbers of rows first.
    """
    assert isinstance(rows, Shard)
    first, *others = (x for x in rows.partition.parts if isinstance(x, int))
    elsewhere, ids = sum(others), tensors[0]
    count = max(self._bytes(ids) // max(int(ids.dtype.size), 1), 1)
    wanted = min(count * elsewhere // max(first + elsewhere, 1), elsewhere)
    num_bytes = sum(wanted * (self._bytes(x) // count) for x in tensors)
    tensor = op.outputs[0] if op.outputs else ids
    self._enter(costs.EXCHANGE, tensor, op, num_bytes)

  def _read(
    self, op: tf.Operation, tensor: tf.Tensor, read: Read | None
  ) -> None:
    """Adds what an op reads; of None it is all, on the first device."""
    own = self._layouts.layout(tensor)
    if tensor.op.type in MEASURES or op.type in MEASURES:
      return
    if own == read and not (own == ONCE and op in self._layouts.parts):
      return
    is_size = tensor.op.type == "BroadcastGradientArgs"
    if is_size or self._shapes.value(tensor) is not None:
      return  # It is made for each device.
    num_bytes = self._bytes(tensor)
    if not is_whole(own):
      self._join(op, tensor, own, num_bytes)
    if isinstance(read, Shard | Repeated):
      part = num_bytes * self._others // self._count
      self._enter(costs.SLICE, tensor, op, part)
    elif (
      read is not None
      and not isinstance(read, Partial)
      and not feeds.can_be_copied(tensor.op)
    ):
      value = self._same.first(tensor.op), tensor.value_index
      if tensor.op in self._layouts.parts or value not in self._seen:
        self._enter(costs.BROADCAST, tensor, op, num_bytes * self._others)
      self._seen.add(value)

  def _join(
    self, op: tf.Operation, tensor: tf.Tensor, own: Layout, num_bytes: int
  ) -> None:
    """Adds what makes a tensor whole, for all that read it so."""
    if isinstance(own, Partial):
      kind = own.reduction.value
      self._enter(kind, tensor, tensor.op, num_bytes * self._others)
      return
    part = num_bytes * self._others // self._count
    self._enter(costs.GATHER, tensor, tensor.op, part)
    if op not in self._layouts.parts:
      self.gathers.append(Gather(tensor.name, op.name, op.type))

  def _enter(
    self, kind: str, tensor: tf.Tensor, op: tf.Operation, num_bytes: int
  ) -> None:
    is_back = tensor.op in self._backward
    both = (0, num_bytes) if is_back else (num_bytes, 0)
    self._sent.setdefault(
      (kind, tensor.name), Sent(kind, tensor.name, op.name, op.type, *both)
    )

  def _bytes(self, tensor: tf.Tensor) -> int:
    return self._sizes.get(tensor.name, 0)

  def _size_along(self, op: tf.Operation) -> int | None:
    """Returns the size of the dimension by which an op's input is split."""
    shape = self._shapes.shape(op.inputs[0])
    layout = self._layouts.layout(op.inputs[0])
    if shape is None or not isinstance(layout, Shard):
      return None
    size = shape[layout.axis]
    return size if isinstance(size, int) else None
