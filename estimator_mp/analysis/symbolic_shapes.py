"""Symbolic shapes: the sizes of all tensors, as far as a graph says them.

TensorFlow knows a size, or knows nothing of it. Here an unknown one has a name,
and what follows from it is a polynomial: in a batch of `n` sequences of `t`
tokens the logits are [n, t, 1000], and [n*t, 1000] after a reshape. Two tensors
have examples in a dimension if its polynomial has `n` as a factor.
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from estimator_mp.graph import op_types, variables
from estimator_mp.rules import all_rules
from estimator_mp.rules.rule import Label, Rule, is_repeated
from estimator_mp.rules.table import Axes
from estimator_mp.sizes import polynomials, values
from estimator_mp.sizes.polynomials import Polynomial, Size
from estimator_mp.sizes.values import Value

import numpy as np
import tensorflow as tf

# The symbol for the number of examples, where the graph leaves it open.
EXAMPLES = "n"

_MEASURES = op_types.MEASURES | {"VariableShape"}


@dataclasses.dataclass(frozen=True)
class Origin:
  """What a symbol stands for.

  Attributes:
    tensor: The name of a tensor.
    axis: The dimension whose size it is; None if it is the value of the tensor,
      which has one entry.
  """

  tensor: str
  axis: int | None = None


class SymbolicShapes:
  """Sizes and values of the tensors of a graph; also what rules ask for.

  Attributes:
    num_examples: How many examples the batch has.
    origins: What symbols stand for, but for `EXAMPLES`.
  """

  def __init__(self, examples: Iterable[tf.Tensor] = ()):
    """Starts with the inputs.

    Args:
      examples: Inputs whose first dimension is that of examples. The graph
        knows its size for all of them, or for none.
    """
    self.origins: dict[str, Origin] = {}
    self.num_examples: Size = polynomials.symbol(EXAMPLES)
    self._shapes: dict[str, tuple[Size, ...] | None] = {}
    self._values: dict[str, Value | None] = {}
    self._rules: dict[tf.Operation, Rule | None] = {}
    examples = list(examples)
    if examples and examples[0].shape[0] is not None:
      self.num_examples = examples[0].shape[0]
    for tensor in examples:
      self._shapes[tensor.name] = (
        self.num_examples,
        *self._static(tensor)[1:],
      )

  def add(self, ops: Iterable[tf.Operation]) -> None:
    """Reads ops.

    Args:
      ops: Those of the graph, each after those that it reads.
    """
    for op in ops:
      rule = self.rule(op)
      for index, tensor in enumerate(op.outputs):
        if tensor.name not in self._shapes:
          self._shapes[tensor.name] = self._infer(op, rule, index)

  def rule(self, op: tf.Operation) -> Rule | None:
    """Returns the rule of an op; None if it has none.

    Args:
      op: The op.
    """
    if op not in self._rules:
      self._rules[op] = all_rules.TABLE.find(op, self)
    return self._rules[op]

  def shape(self, tensor: tf.Tensor) -> tuple[Size, ...] | None:
    """Returns the sizes of dimensions; None if their number is not known.

    Args:
      tensor: A tensor.
    """
    if tensor.name not in self._shapes:
      is_known = tensor.shape.rank is not None and tensor.dtype != tf.variant
      self._shapes[tensor.name] = self._static(tensor) if is_known else None
    return self._shapes[tensor.name]

  def value(self, tensor: tf.Tensor) -> Value | None:
    """Returns the entries of a small tensor of integers, such as a shape.

    Args:
      tensor: A tensor.

    Returns:
      An array of sizes. A symbol stands for a number that nothing is known of.
    """
    if tensor.name not in self._values:
      self._values[tensor.name] = self._evaluate(tensor)
    return self._values[tensor.name]

  def axes(self, tensor: tf.Tensor, rank: int) -> Axes | None:
    """Returns the dimensions that a tensor has the numbers of.

    Args:
      tensor: Their numbers.
      rank: How many dimensions there are.
    """
    if tensor.op.type == "BroadcastGradientArgs":
      return self._repeated(tensor.op, tensor.value_index)
    value = self.value(tensor)
    if value is None:
      return None
    named = list(np.ravel(value))
    if any(isinstance(axis, Polynomial) for axis in named):
      return None
    return Axes(frozenset(axis % max(rank, 1) for axis in named))

  def is_size(self, size: Size) -> bool:
    """Whether a size is one of a dimension for sure, and never -1.

    Args:
      size: A size. One that depends on the value of a tensor may be anything.
    """
    if not isinstance(size, Polynomial):
      return size >= 0
    return all(
      self.origins[name].axis is not None for name in size.symbols - {EXAMPLES}
    )

  def variable_shape(self, handle: tf.Tensor) -> tuple[Size, ...] | None:
    """Returns the shape of the variable that a handle is of.

    Args:
      handle: The handle.
    """
    op = variables.variable_of(handle)
    if op.type != "VarHandleOp":
      return None
    shape = tf.TensorShape(op.get_attr("shape"))
    return tuple(shape.as_list()) if shape.is_fully_defined() else None

  def shape_of_input(self, tensor: tf.Tensor) -> tuple[Size, ...] | None:
    """Returns the sizes of a tensor; of a handle those of its variable.

    Args:
      tensor: What an op reads.
    """
    if tensor.dtype == tf.resource:
      return self.variable_shape(tensor)
    return self.shape(tensor)

  def has_examples(self, size: Size) -> bool:
    """Whether a size is a multiple of the number of examples.

    It is one only by chance where the graph knows the number of examples.

    Args:
      size: A size.
    """
    per_example = polynomials.quotient(size, self.num_examples)
    return bool(per_example) and not (
      isinstance(per_example, Polynomial) and EXAMPLES in per_example.symbols
    )

  def _static(self, tensor: tf.Tensor) -> tuple[Size, ...]:
    """Returns a shape as the graph knows it, with names for the rest."""
    return tuple(
      self._name(tensor, axis) if size is None else size
      for axis, size in enumerate(tensor.shape.as_list())
    )

  def _name(self, tensor: tf.Tensor, axis: int | None) -> Polynomial:
    """Returns a new symbol."""
    place = "" if axis is None else f"[{axis}]"
    name = f"{tensor.name}{place}"
    self.origins[name] = Origin(tensor.name, axis)
    return polynomials.symbol(name)

  def _infer(
    self, op: tf.Operation, rule: Rule | None, index: int
  ) -> tuple[Size, ...] | None:
    """Returns the shape of an output."""
    tensor = op.outputs[index]
    labels = None if rule is None else rule.outputs[index]
    if tensor.dtype == tf.variant:
      return None
    if rule is None or labels is None:
      return None if tensor.shape.rank is None else self._static(tensor)
    static: Sequence[int | None] = [None] * len(labels)
    if tensor.shape.rank is not None:
      if tensor.shape.rank != len(labels):
        return self._static(tensor)
      static = tensor.shape.as_list()
    sizes: list[Size] = []
    for axis, label in enumerate(labels):
      size: Size | None = static[axis]
      if size is None:
        size = rule.sizes.get((index, axis))
      if size is None and label is not None:
        size = self.size(op, rule, label)
      sizes.append(self._name(tensor, axis) if size is None else size)
    return tuple(sizes)

  def size(self, op: tf.Operation, rule: Rule, label: Label) -> Size | None:
    """Returns the size that inputs have along a label; None if not known.

    Args:
      op: The op.
      rule: Its rule.
      label: The label.
    """
    found: list[Size] = []
    for index, tensor in enumerate(op.inputs):
      labels = rule.labels(index)
      if label not in labels:
        continue
      shape = self.shape_of_input(tensor)
      if shape is not None and len(shape) == len(labels):
        found.append(shape[labels.index(label)])
    different = list(dict.fromkeys(size for size in found if size != 1))
    if len(different) < 2 or not is_repeated(label):
      numbers = [size for size in different if isinstance(size, int)]
      return next(iter(numbers or different or found), None)
    # Others have the same size, or are repeated.
    many = [x for x in different if isinstance(x, int) or self.has_examples(x)]
    return many[0] if many else None

  def _evaluate(self, tensor: tf.Tensor) -> Value | None:
    """Returns the value of a tensor, which is not known yet."""
    op = tensor.op
    if tensor.dtype not in (tf.int32, tf.int64):
      return None
    found = self._measure(op)
    if found is None and values.is_evaluated(op):
      read = [self.value(x) for x in op.inputs]
      if all(value is not None for value in read):
        found = values.evaluate(op, read, functools.partial(self._least, op))
    if found is not None:
      for output, value in zip(op.outputs, found, strict=True):
        self._values[output.name] = (
          value if value.size <= values.MOST_ENTRIES else None
        )
      return self._values[tensor.name]
    shape = tensor.shape
    if op.type == "Const" or shape.rank is None or shape.num_elements() != 1:
      return None
    value = np.empty(shape.as_list(), object)
    value[...] = self._name(tensor, None)
    return value

  def _least(self, op: tf.Operation, symbol: str) -> int | None:
    """Returns the least number that a symbol may stand for in an op.

    There is an example in each step. A dimension may be empty; where a size
    only divides, as in the gradient of a mean, the quotient is then one of
    nothing. The value of a tensor may be anything.
    """
    if symbol == EXAMPLES:
      return 1
    if self.origins[symbol].axis is None:
      return None
    readers = [reader for x in op.outputs for reader in x.consumers()]
    return int({reader.type for reader in readers} == {"FloorDiv"})

  def _measure(self, op: tf.Operation) -> list[Value] | None:
    """Returns the values of an op that measures its inputs."""
    if op.type not in _MEASURES:
      return None
    shapes = [self.shape_of_input(tensor) for tensor in op.inputs]
    measured = []
    for shape in shapes:
      if shape is None:
        return None
      if op.type == "Rank":
        measured.append(values.value_of(len(shape)))
      elif op.type == "Size":
        measured.append(values.value_of(polynomials.product(shape)))
      else:
        measured.append(values.value_of(shape))
    return measured

  def _repeated(self, op: tf.Operation, index: int) -> Axes | None:
    """Returns the dimensions along which an operand was repeated.

    Args:
      op: A `BroadcastGradientArgs`: it has the shapes of two operands.
      index: Which of the two.
    """
    read = [self.value(tensor) for tensor in op.inputs]
    if read[0] is None or read[1] is None:
      return None
    shapes = [list(np.ravel(value)) for value in read]
    rank = max(map(len, shapes))
    own, other = (
      [1] * (rank - len(shape)) + shape
      for shape in (shapes[index], shapes[1 - index])
    )
    sure, maybe = set(), set()
    for axis, (size, beside) in enumerate(zip(own, other, strict=True)):
      if size == 1:
        # Where both have size 1, a sum over the dimension changes nothing.
        if beside != 1:
          sure.add(axis)
      elif size != beside and not self._is_many(size):
        maybe.add(axis)
    return Axes(frozenset(sure), frozenset(maybe))

  def _is_many(self, size: Size) -> bool:
    """Whether a size is known not to be 1."""
    return isinstance(size, int) or self.has_examples(size)
