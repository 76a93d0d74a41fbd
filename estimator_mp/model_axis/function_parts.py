"""Functions that slices of the batch can run each for itself, as data.

A loop, a cond or a call of a function is done in parts if each op in it is: its
arguments are split or whole, the rules say what becomes of them, and what goes
into a round of a loop is split as what comes out of it. Shapes that are
measured inside are those of a slice.
"""

from collections.abc import Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.graph import op_types, shapes, traversal
from estimator_mp.model_axis import axes, sources
from estimator_mp.model_axis.decisions import (
  Decision,
  Operand,
  Output,
  PerPart,
  Replicate,
  Resized,
  Rule,
  Shard,
  Shards,
  Shifted,
)
from estimator_mp.model_axis.rules.table import TABLE

import numpy as np
import tensorflow as tf

_ARGUMENTS = frozenset(["Placeholder", "PlaceholderV2"])
# Lists whose elements are unknown.
NEW_LISTS = frozenset(["EmptyTensorList", "TensorListReserve"])

# The shapes of the elements of arguments that are lists.
Elements = Sequence[tf.TensorShape | None]


class _WantedError(Exception):
  """An argument has to be split that was whole so far."""

  def __init__(self, index: int, split: Shard):
    super().__init__(index)
    self.index = index
    self.split = split


class _RefusedError(Exception):
  """There is no rule."""


class FunctionParts:
  """Decides about ops that run functions of a graph.

  Attributes:
    parts: The sizes of two parts of the batch.
    draws: Whether slices may draw random numbers of their own.
  """

  def __init__(self, parts: Sequence[int], draws: bool = False):
    """Starts without an op.

    Args:
      parts: The sizes of two parts of the batch.
      draws: Whether slices may draw random numbers of their own.
    """
    self.parts = tuple(parts)
    self.draws = draws

  def decide(
    self,
    op: tf.Operation,
    sized: tf.Operation,
    splits: Shards,
    elements: Elements,
  ) -> PerPart | None:
    """Returns what parts of an op read and make, if parts are the same.

    Args:
      op: An op of a graph that has its functions.
      sized: The same op, with the shapes of a batch of a known size.
      splits: How its inputs are split.
      elements: Of inputs that are lists the shapes of their elements.
    """
    try:
      if op.type in op_types.FUNCTIONAL_LOOPS:
        return self._loop(op, sized, list(splits), elements)
      return self._call(op, sized, list(splits), elements)
    except _RefusedError:
      return None

  def _loop(
    self,
    op: tf.Operation,
    sized: tf.Operation,
    state: list[Shard | None],
    elements: Elements,
  ) -> PerPart:
    while True:
      outputs = self._run(op, "body", sized.inputs, state, elements)
      if any(
        before is not None and before != after
        for before, after in zip(state, outputs, strict=True)
      ):
        raise _RefusedError
      if outputs == state:
        break
      state = outputs
    if self._run(op, "cond", sized.inputs, list(state), elements) != [None]:
      raise _RefusedError
    return _per_part(state, state)

  def _call(
    self,
    op: tf.Operation,
    sized: tf.Operation,
    splits: list[Shard | None],
    elements: Elements,
  ) -> PerPart:
    """Returns the decision about a cond, or a call."""
    first = 0 if op.type in op_types.FUNCTION_CALLS else 1
    if any(splits[:first]):
      raise _RefusedError
    names = {
      "If": ("then_branch", "else_branch"),
      "StatelessIf": ("then_branch", "else_branch"),
      "PartitionedCall": ("f",),
      "StatefulPartitionedCall": ("f",),
    }.get(op.type)
    if names is None:
      raise _RefusedError
    own, inputs = splits[first:], list(sized.inputs)[first:]
    while True:
      before = list(own)
      found = [
        self._run(op, name, inputs, own, elements[first:]) for name in names
      ]
      if own == before:
        break
    if any(x != found[0] for x in found):
      raise _RefusedError
    return _per_part([*splits[:first], *own], found[0])

  def _run(
    self,
    op: tf.Operation,
    attribute: str,
    inputs: Sequence[tf.Tensor],
    splits: list[Shard | None],
    elements: Elements,
  ) -> list[Shard | None]:
    """Returns how what a function returns is split.

    Args:
      op: The op that runs it.
      attribute: The attribute that names it.
      inputs: Tensors with the shapes of its arguments.
      splits: How these are split; arguments that have to be are entered.
      elements: The shapes of the elements of arguments that are lists.

    Raises:
      _RefusedError: If parts are not the same.
    """
    known = [x.shape for x in inputs]
    name = op.get_attr(attribute).name
    body = graph_reads.sized_function(op.graph, name, known, elements)
    if body is None:
      raise _RefusedError
    while True:
      try:
        return _Body(self, body, splits, elements).outputs()
      except _WantedError as wanted:
        tensor = inputs[wanted.index]
        is_list = tensor.dtype == tf.variant
        if is_list and tensor.op.type not in NEW_LISTS:
          raise _RefusedError from wanted
        splits[wanted.index] = wanted.split


class _Body:
  """One look at the ops of a function."""

  def __init__(
    self,
    functions: FunctionParts,
    body: graph_reads.Body,
    splits: Shards,
    elements: Elements,
  ):
    self._functions = functions
    self._body = body
    self._splits = {
      x.name: split
      for x, split in zip(body.inputs, splits, strict=True)
      if split is not None
    }
    self._elements = {
      x.name: shape
      for x, shape in zip(body.inputs, elements, strict=True)
      if shape is not None
    }
    self._of_shapes: set[str] = set()  # Tensors that differ between slices.

  def outputs(self) -> list[Shard | None]:
    """Returns how what the function returns is split."""
    for op in traversal.in_order(self._body.graph.get_operations()):
      self._visit(op)
    if any(x.name in self._of_shapes for x in self._body.outputs):
      raise _RefusedError
    return [self._splits.get(x.name) for x in self._body.outputs]

  def _visit(self, op: tf.Operation) -> None:
    if op.name in self._body.reads:  # Of an element of a list.
      split = self._splits.get(self._body.reads[op.name].name)
      if split is not None:
        self._splits[op.outputs[0].name] = split
      return
    if op.type in _ARGUMENTS:
      return
    if graph_reads.names_gradient(op):
      raise _RefusedError  # It would be asked of the function as it was built.
    splits = [self._splits.get(x.name) for x in op.inputs]
    if op.type in op_types.MEASURES:
      for tensor, split in zip(op.outputs, splits, strict=False):
        if split is not None and op.type != "Rank":
          self._of_shapes.add(tensor.name)
    elif any(splits):
      self._accept(op, self._decision(op, splits))
    elif op.type in op_types.RANDOM:
      self._draw(op)
    else:
      self._check_whole(op)

  def _draw(self, op: tf.Operation) -> None:
    """Lets each slice draw as many numbers as its shapes say."""
    source = sources.TABLE.sources.get(op.type)
    sizes = op.outputs[0].shape.as_list() if op.outputs[0].shape.rank else []
    least = sum(self._functions.parts) // 2  # The sizes are of a large batch.
    of_batch = [axis for axis, size in enumerate(sizes) if (size or 0) > least]
    if not self._functions.draws or source is None or len(of_batch) != 1:
      raise _RefusedError
    parts = self._functions.parts
    factor, rest = divmod(sizes[of_batch[0]], sum(parts))
    decision = source(op, Shard(of_batch[0], parts).times(factor))
    if rest or not isinstance(decision, PerPart):
      raise _RefusedError
    operands = [
      Replicate() if isinstance(x, Shifted) else x for x in decision.operands
    ]
    if not any(x.name in self._of_shapes for x in op.inputs):
      raise _RefusedError  # The graph knows a size that is not a slice's.
    self._accept(op, PerPart(tuple(operands), decision.outputs))

  def _check_whole(self, op: tf.Operation) -> None:
    """Lets each slice do what is the same for all, or of its shapes."""
    is_read = op.type in op_types.VARIABLE_READS
    if op_types.is_call(op):
      raise _RefusedError
    if op.op_def.is_stateful and not is_read:
      raise _RefusedError
    if any(x.name in self._of_shapes for x in op.inputs):
      self._of_shapes.update(x.name for x in op.outputs)

  def _decision(self, op: tf.Operation, splits: Shards) -> PerPart:
    is_random = op.type in op_types.RANDOM or op.op_def.is_stateful
    found: Decision | None = None
    if op.type in op_types.FUNCTIONAL:
      elements = [self._elements.get(x.name) for x in op.inputs]
      found = self._functions.decide(op, op, splits, elements)
    elif op.type in LIST_RULES:
      found = LIST_RULES[op.type](op, splits)
    elif not is_random and op.type in TABLE.rules:
      found = TABLE.rules[op.type](op, splits)
    if not isinstance(found, PerPart) or any(found.attributes):
      raise _RefusedError
    return found

  def _accept(self, op: tf.Operation, decision: PerPart) -> None:
    for tensor, operand in zip(op.inputs, decision.operands, strict=True):
      self._check(tensor, operand)
    for tensor, output in zip(op.outputs, decision.outputs, strict=True):
      if isinstance(output, Shard):
        self._splits[tensor.name] = output
      elif not isinstance(output, Replicate):
        raise _RefusedError

  def _check(self, tensor: tf.Tensor, operand: Operand) -> None:
    """Raises if slices do not read what they shall."""
    own = self._splits.get(tensor.name)
    names = [x.name for x in self._body.inputs]
    if isinstance(operand, Shard):
      if own is None and tensor.name in names:
        raise _WantedError(names.index(tensor.name), operand)
      if own != operand:
        raise _RefusedError
    elif isinstance(operand, Replicate):
      if own is not None or not self._is_same(tensor, -1):
        raise _RefusedError
    elif isinstance(operand, Resized):
      is_measured = tensor.name in self._of_shapes
      size = axes.named_size(tensor, operand.index)
      known = (-1, sum(operand.sizes)) if is_measured else (-1,)
      if size not in known or not self._is_same(tensor, operand.index):
        raise _RefusedError
    else:
      raise _RefusedError

  def _is_same(self, tensor: tf.Tensor, but: int) -> bool:
    """Whether a tensor is the same for all slices, but for one element."""
    if tensor.name not in self._of_shapes:
      return True
    value = shapes.constant(tensor)
    if value is None:
      return False
    least = sum(self._functions.parts) // 2  # The sizes are of a large batch.
    others = [x for i, x in enumerate(np.ravel(value)) if i != but]
    return all(x < least for x in others)


def _per_part(operands: Shards, outputs: Shards) -> PerPart:
  found: list[Output] = [x or Replicate() for x in outputs]
  return PerPart(tuple(x or Replicate() for x in operands), tuple(found))


def _from_tensor(op: tf.Operation, splits: Shards) -> PerPart | None:
  """A list of what is along the first axis."""
  split, _ = splits
  if split is None or not split.axis:
    return None
  shape = element_shape(op.inputs[1], split.at(split.axis - 1))
  return PerPart((split, shape), (split.at(split.axis - 1),))


def _stack(op: tf.Operation, splits: Shards) -> PerPart | None:
  split, _ = splits
  if split is None:
    return None
  shape = element_shape(op.inputs[1], split)
  return PerPart((split, shape), (split.at(split.axis + 1),))


def _set_item(op: tf.Operation, splits: Shards) -> PerPart | None:
  """A list, a number of one of its elements, and another one for it."""
  of_list, number, item = splits
  split = item or of_list
  if split is None or number is not None:
    return None
  return PerPart((split, Replicate(), split), (split,))


def _push_back(op: tf.Operation, splits: Shards) -> PerPart | None:
  split = splits[1] or splits[0]
  return None if split is None else PerPart((split, split), (split,))


def _length(op: tf.Operation, splits: Shards) -> PerPart | None:
  (split,) = splits
  if split is None:
    return None
  return PerPart((split,), (Replicate(),))


def element_shape(shape: tf.Tensor, split: Shard) -> Operand:
  """Returns what parts read of the shape of an element of a list.

  Args:
    shape: The shape, as a tensor.
    split: How elements are split; those that are lists themselves are scalars.
  """
  is_scalar = not shape.shape.rank or shape.shape.num_elements() == 0
  return Replicate() if is_scalar else Resized(split.axis, split.sizes)


LIST_RULES: Mapping[str, Rule] = {
  "TensorListFromTensor": _from_tensor,
  "TensorListLength": _length,
  "TensorListPushBack": _push_back,
  "TensorListSetItem": _set_item,
  "TensorListStack": _stack,
}
