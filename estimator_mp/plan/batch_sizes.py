"""Sizes of tensors, for rules that are applied to parts of the batch.

Rules are told sizes of two parts that differ, and that nothing else of a model
has by chance. Where the graph knows the size of the batch, these are of that;
elsewhere they are of a large prime number of examples (`plan.odd_sizes`).
"""

import abc

from estimator_mp.model_axis import axes
from estimator_mp.model_axis.decisions import Operand, Output, Resized, Shard
from estimator_mp.plan import odd_sizes
from estimator_mp.plan.batch_plan import Cut, Reads, Rows, Size

import tensorflow as tf


class Sizes(abc.ABC):
  """Tells rules how large tensors are.

  Attributes:
    parts: The examples of two parts.
    are_real: Whether the program's tensors are so large.
  """

  are_real: bool

  def __init__(self, parts: tuple[int, int]):
    """Starts with the examples of two parts."""
    self.parts = parts

  @abc.abstractmethod
  def op(self, op: tf.Operation) -> tf.Operation | None:
    """Returns an op with shapes that rules can read; None if it has none."""

  @abc.abstractmethod
  def rows(self, tensor: tf.Tensor) -> Rows | None:
    """Returns where a tensor that is whole may be cut."""

  def has_known(self, tensor: tf.Tensor) -> bool:
    """Whether the number of examples alone says how large a tensor is."""
    sized = self.op(tensor.op)
    if sized is None:
      return False
    return bool(sized.outputs[tensor.value_index].shape.is_fully_defined())

  def is_of_batch(self, split: Operand | Output) -> bool:
    """Whether something is split as the batch is."""
    if not isinstance(split, Shard):
      return False
    factor = split.sizes[0] // self.parts[0]
    return bool(factor) and split.sizes == tuple(x * factor for x in self.parts)

  def rows_of(self, split: Shard) -> Rows:
    """Returns where parts of a tensor lie in it, by these sizes."""
    return Rows(split.axis, split.sizes[0] // self.parts[0])

  def real(self, rows: Rows) -> Rows:
    """Returns rows as they are in the program."""
    if self.are_real or rows.per_example == 1:
      return rows
    return Rows(rows.axis, None)

  def reads(self, sized: tf.Tensor, operand: Operand) -> Reads:
    """Returns what each slice reads in place of a tensor."""
    if isinstance(operand, Shard):
      return Cut(self.real(self.rows_of(operand)))
    if isinstance(operand, Resized):
      if axes.named_size(sized, operand.index) == -1:
        return None  # It follows from the other sizes.
      rows = self.real(Rows(0, operand.sizes[0] // self.parts[0]))
      return Size(operand.index, rows.per_example)
    return None


class StaticSizes(Sizes):
  """Those of a batch whose size the graph knows."""

  are_real = True

  def __init__(self, size: int, graph: tf.Graph):
    """Starts with the size, and a graph of ops of which it tells no shape."""
    less = size // 2 - (size % 2 == 0 and size > 2)
    super().__init__((less, size - less))
    self._size = size
    self._graph = graph

  def op(self, op: tf.Operation) -> tf.Operation | None:
    """As `Sizes.op`."""
    try:
      return self._graph.get_operation_by_name(op.name)
    except KeyError:
      return op

  def rows(self, tensor: tf.Tensor) -> Rows | None:
    """As `Sizes.rows`."""
    sized = self.op(tensor.op)
    assert sized is not None
    found = sized.outputs[tensor.value_index].shape
    shape = found.as_list() if found.rank else [None]
    if not shape[0] or shape[0] % self._size:
      return None
    return Rows(0, shape[0] // self._size)


class OddBatchSizes(Sizes):
  """Those of a batch of a large prime number of examples."""

  are_real = False

  def __init__(self, graph: tf.Graph):
    """Starts with a graph where the batch has that size."""
    size = odd_sizes.BATCH
    super().__init__((size // 2, size - size // 2))
    self._graph = graph

  def op(self, op: tf.Operation) -> tf.Operation | None:
    """As `Sizes.op`."""
    try:
      return self._graph.get_operation_by_name(op.name)
    except KeyError:  # It cannot do with another size of the batch.
      return None

  def rows(self, tensor: tf.Tensor) -> Rows | None:
    """As `Sizes.rows`."""
    try:
      shape = self._graph.get_tensor_by_name(tensor.name).shape
    except KeyError:
      return None
    sizes = shape.as_list() if shape.rank else []
    odd = odd_sizes.BATCH
    found = [i for i, size in enumerate(sizes) if size and size % odd == 0]
    return Rows(found[0], sizes[found[0]] // odd) if len(found) == 1 else None
