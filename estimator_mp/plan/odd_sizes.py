"""Odd sizes: the shapes that tensors have for a batch of a large prime size.

Most graphs leave the size of the batch open, and a rule may need to know which
dimension is one of examples, and how many it has for each. So the same ops are
imported into a graph of their own, for a batch of `BATCH` examples: a dimension
that is a multiple of it is one of examples. This is an oracle for sizes; the
rules say whether an op may be executed in parts. How XLA's sharding propagation
follows a dimension through reshapes is described in GSPMD (Xu et al., 2021,
arXiv:2105.04663).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from estimator_mp.graph import resized
from estimator_mp.graph.batch_inputs import Input

import tensorflow as tf

BATCH = 100_003
_ROWS = 200_003  # Of what has any number of rows, such as a sparse tensor.
_UNKNOWN_DIMENSIONS = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149)


class OddSizes:
  """The ops of one graph, for a batch of some size."""

  def __init__(
    self,
    inputs: Sequence[Input],
    differs: Callable[[tf.Tensor], bool],
    batch: int = BATCH,
  ):
    """Starts with the inputs alone.

    Args:
      inputs: The features and labels that have examples.
      differs: Whether a tensor depends on them.
      batch: How many examples there are to be.
    """
    self._differs = differs
    self._batch = batch
    self._sizes: dict[str, list[int]] = {}
    self._constants: dict[str, list[int]] = {}
    for entry in inputs:
      self._add_input(entry)

  def _add_input(self, entry: Input) -> None:
    parts = tf.nest.flatten(entry.value, expand_composites=True)
    if isinstance(entry.value, tf.SparseTensor):
      sizes = [self._batch, *_known(entry.value.shape.as_list()[1:])]
      self._sizes[parts[0].name] = [_ROWS, len(sizes)]
      self._sizes[parts[1].name] = [_ROWS]
      self._constants[parts[2].name] = sizes
    elif isinstance(entry.value, tf.RaggedTensor):
      for index, part in enumerate(parts):
        rows = _ROWS * (index + 2)
        self._sizes[part.name] = [rows, *_known(part.shape.as_list()[1:])]
      # The outermost of the row splits comes after the values.
      self._sizes[parts[1].name] = [self._batch + 1]
    else:
      self.add_rows(entry.value, entry.axis)

  def add_rows(
    self, tensor: tf.Tensor, axis: int = 0, per_example: int = 1
  ) -> None:
    """Says that a tensor has rows for each example.

    Args:
      tensor: A tensor of a known rank.
      axis: The axis of its examples.
      per_example: How long the axis is for each of them.
    """
    sizes = _known(tensor.shape.as_list())
    sizes[axis] = per_example * self._batch
    self._sizes[tensor.name] = sizes

  def is_known(self, tensor: tf.Tensor) -> bool:
    """Whether the size of a tensor was said.

    Args:
      tensor: A tensor.
    """
    return tensor.name in self._sizes or tensor.name in self._constants

  def has_row_per_example(self, tensor: tf.Tensor) -> bool:
    """Whether the first dimension of a tensor is that of the examples.

    Args:
      tensor: A tensor that depends on the batch, or not.
    """
    if tensor.name in self._sizes:
      sizes: Sequence[int | None] = self._sizes[tensor.name]
    else:
      try:
        found = self.graph([tensor.op]).get_tensor_by_name(tensor.name)
      except KeyError:
        return False
      sizes = found.shape.as_list() if found.shape.rank else []
    return bool(sizes) and sizes[0] == self._batch

  def graph(self, ops: Iterable[tf.Operation]) -> tf.Graph:
    """Returns a graph with the shapes of a batch of that size.

    Args:
      ops: Ops of the graph, in order.

    Returns:
      A graph of these and of what leads to them, by the same names, but for
      what cannot work for another size of the batch.
    """
    wanted = list(ops)
    before = self._ancestors([x for op in wanted for x in op.inputs])
    rest = list(dict.fromkeys([*before, *wanted]))
    while rest:
      try:
        graph = resized.copy_of(rest, self._stand_in, self._is_outside)
      except (ValueError, tf.errors.OpError) as error:
        rest = self._without(rest, _failed(error, rest))
        continue
      if not self._reshape(graph, rest):
        return graph
    return tf.Graph()

  def _reshape(self, graph: tf.Graph, ops: Iterable[tf.Operation]) -> bool:
    """Finds the shapes of sparse tensors, which TensorFlow leaves to a session.

    Args:
      graph: The graph of the imported copies.
      ops: The ops that were copied.

    Returns:
      Whether that says more.
    """
    found = {}
    for op in ops:
      if op.type == "SparseReshape" and not self.is_known(op.outputs[1]):
        _, old, new = graph.get_operation_by_name(op.name).inputs
        with graph.as_default():
          shape = tf.reshape(tf.zeros(old), new).shape
        if shape.is_fully_defined():
          found[op.outputs[1].name] = shape.as_list()
    self._constants.update(found)
    return bool(found)

  def _ancestors(self, tensors: Iterable[tf.Tensor]) -> list[tf.Operation]:
    """Returns what leads to tensors, from the inputs on, in order."""
    found: dict[tf.Operation, None] = {}
    todo = [(tensor, False) for tensor in tensors]
    feeding_back: list[tf.Operation] = []
    while todo or feeding_back:
      if not todo:  # A loop's body, after what comes before the loop.
        todo += [(x, False) for x in feeding_back.pop().inputs]
      tensor, is_complete = todo.pop()
      op = tensor.op
      if is_complete:
        if op not in found and op.type == "NextIteration":
          feeding_back.append(op)
        found.setdefault(op)
      elif op not in found and not self._is_outside(tensor):
        todo.append((tensor, True))
        if op.type != "NextIteration":
          todo += [(x, False) for x in op.inputs]
    return list(found)

  def _without(
    self, ops: Sequence[tf.Operation], bad: tf.Operation
  ) -> list[tf.Operation]:
    """Returns ops but for one, and for what depends on it."""
    left_out = {bad}
    for op in ops:
      if any(x.op in left_out and not self._is_outside(x) for x in op.inputs):
        left_out.add(op)
    return [op for op in ops if op not in left_out]

  def _is_outside(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor is an input, or so well-known that it may be one."""
    return self.is_known(tensor) or (
      not self._differs(tensor)
      and tensor.dtype.is_floating
      and tensor.shape.is_fully_defined()
      and tensor.op.type != "Const"
    )

  def _stand_in(self, tensor: tf.Tensor) -> tf.Tensor:
    name = "estimator_mp_outside"
    if tensor.name in self._constants:
      return tf.constant(self._constants[tensor.name], tensor.dtype, name=name)
    shape: Any = self._sizes.get(tensor.name, tensor.shape)
    if tensor.name in self._sizes:
      # The program may have set a dimension since.
      shape = [
        now if now is not None and size in _UNKNOWN_DIMENSIONS else size
        for size, now in zip(shape, tensor.shape.as_list(), strict=True)
      ]
    return tf.compat.v1.placeholder(tensor.dtype, shape, name=name)


def _failed(error: Exception, ops: Sequence[tf.Operation]) -> tf.Operation:
  """Returns the op that cannot work for the size."""
  node = re.search(r"\{\{node ([^\s}]+)", str(error))
  by_name = {op.name: op for op in ops}
  return by_name.get(node[1] if node else "", ops[0])


def _known(sizes: Sequence[int | None]) -> list[int]:
  """Returns sizes, with small prime numbers for unknown ones."""
  unknown = iter(_UNKNOWN_DIMENSIONS)
  return [next(unknown) if size is None else size for size in sizes]
