"""Symbolic shapes: the sizes of all tensors, as polynomials.

In a batch of `n` sequences of `t` tokens the logits are [n, t, 1000], and
[n*t, 1000] after a reshape. A size that TensorFlow does not know has a name,
and sizes that follow from it are polynomials. A tensor has examples in a
dimension if its polynomial has `n` as a factor.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence

from estimator_mp.graph import frames as frames_lib
from estimator_mp.graph import op_types, traversal, variables
from estimator_mp.graph.batch_inputs import Input
from estimator_mp.graph.frames import Frame, Frames
from estimator_mp.rules import all_rules, control_flow
from estimator_mp.rules.rule import Input as InputOfRule
from estimator_mp.rules.rule import Label, Rule, Whole, is_repeated
from estimator_mp.rules.table import Axes
from estimator_mp.sizes import polynomials, values
from estimator_mp.sizes.polynomials import Polynomial, Size
from estimator_mp.sizes.values import Value

import numpy as np
import tensorflow as tf

# The symbol for the number of examples, where the graph leaves it open.
EXAMPLES = "n"

# Ops that return the sizes of their inputs.
MEASURES = op_types.MEASURES | {"TensorListElementShape", "VariableShape"}
# Ops whose output is a container if an input is one.
_PASSES = op_types.V1_CONTROL_FLOW | {"AddN", "AddV2", "Identity", "ZerosLike"}
# Ops that make a list that is used as a stack.
_STACKS = _PASSES | {"EmptyTensorList", "TensorListPopBack"}


@dataclasses.dataclass(frozen=True)
class Origin:
  """The size, or value, that a symbol stands for.

  Attributes:
    tensor: The name of a tensor.
    axis: The dimension whose size it is; None if it is a value in the tensor.
    frame: The loop in which the tensor is.
    entry: The index of an entry of the tensor; None if that has one entry.
  """

  tensor: str
  axis: int | None = None
  frame: Frame | None = None
  entry: int | None = None


class SymbolicShapes:
  """Sizes and values of the tensors of a graph, for rules and plans.

  Attributes:
    num_examples: The number of examples of the batch.
    origins: The origins of symbols, but for `EXAMPLES`.
  """

  def __init__(
    self,
    inputs: Sequence[Input] = (),
    frames: Frames | None = None,
    is_per_example: Callable[[tf.Operation], bool] = lambda op: False,
    num_examples: int | None = None,
  ):
    """Starts with the inputs.

    Args:
      inputs: Those with a dimension of examples. If the graph knows its size
        of one, all others have the same.
      frames: The loops that ops are in.
      is_per_example: Whether the user says that an op computes each example by
        itself.
      num_examples: The number of examples, as if the graph knew it.
    """
    self._is_per_example = is_per_example
    self.origins: dict[str, Origin] = {}
    self.num_examples: Size = polynomials.symbol(EXAMPLES)
    self._shapes: dict[str, tuple[Size, ...] | None] = {}
    self._variables: dict[tf.Operation, tuple[Size, ...] | None] = {}
    self._values: dict[str, Value | None] = {}
    self._rules: dict[tf.Operation, Rule | None] = {}
    self._frames = frames or Frames(())
    # Dimensions that change from one round of a loop to the next.
    self._changing: set[tuple[str, int]] = set()
    # Tensors that keep no size, nor a rank, from one round to the next.
    self._shapeless: set[str] = set()
    self._containers: set[str] = set()
    # The sizes of elements of containers that enter a loop with none in them.
    self._elements: dict[str, tuple[Size, ...]] = {}
    self._pushed: dict[tf.Operation, tf.Tensor] = {}
    known = (x.size for x in inputs if x.size is not None)
    size = next(known, num_examples)
    if size is not None:
      self.num_examples = size
    for x in inputs:
      if isinstance(x.value, tf.SparseTensor):
        self._enter_sparse(x.value)
      elif isinstance(x.value, tf.RaggedTensor):
        self._shapes[x.value.row_splits.name] = (self.num_examples + 1,)
      else:
        shape = [*self._static(x.value)]
        shape[x.axis] = self.num_examples
        self._shapes[x.value.name] = tuple(shape)

  def _enter_sparse(self, value: tf.SparseTensor) -> None:
    """Enters the sizes of a sparse input."""
    name = value.dense_shape.name
    sizes: list[Size] = [self.num_examples]
    for entry, size in enumerate(value.shape.as_list()[1:], 1):
      symbol = f"{name}({entry})"
      self.origins[symbol] = Origin(name, entry=entry)
      sizes.append(polynomials.symbol(symbol) if size is None else size)
    self._values[name] = values.value_of(sizes)

  def add(self, ops: Iterable[tf.Operation]) -> None:
    """Reads ops.

    Args:
      ops: Those of the graph, each after those that it reads, and loops as a
        whole (`frames.in_order`).
    """
    for loop, of_loop in itertools.groupby(ops, self._frames.loop):
      if loop is None:
        self._read(of_loop)
      else:
        self._read_loop(list(of_loop))

  def _read(self, ops: Iterable[tf.Operation]) -> None:
    for op in ops:
      if op.type == "StackPushV2":
        self._pushed[self.stack_of(op)] = op.inputs[1]
      rule = self.rule(op)
      for index, tensor in enumerate(op.outputs):
        if self._holds_elements(op, index):
          self._containers.add(tensor.name)
        if tensor.name not in self._shapes:
          self._shapes[tensor.name] = self._infer(op, rule, index)

  def _read_loop(self, ops: Sequence[tf.Operation]) -> None:
    """Reads the ops of a loop until its rounds have the sizes that they had."""
    merges = [op for op in ops if frames_lib.is_begin_of_round(op)]
    while True:
      self._read(ops)
      if not any([self._has_changed(op) for op in merges]):
        return
      for op in ops:
        self._rules.pop(op, None)
        for tensor in op.outputs:
          self._shapes.pop(tensor.name, None)
          self._values.pop(tensor.name, None)

  def _has_changed(self, op: tf.Operation) -> bool:
    """Whether the sizes of a loop's next round differ from the assumed ones.

    Args:
      op: The op that begins its rounds.
    """
    (tensor, _), (_, after) = op.outputs, op.inputs
    if self.is_container(after) and not self.is_container(tensor):
      # The flow of a gradient begins with a zero.
      (entered,) = op.inputs[0].op.inputs
      self._containers |= {tensor.name, op.inputs[0].name, entered.name}
      self._shapes[entered.name] = None
      return True
    first, back = self.shape(tensor), self.shape(after)
    if first == back or tensor.name in self._shapeless:
      return False
    if self.is_container(tensor):
      if first is not None:
        self._shapeless.add(tensor.name)
      elif back is not None and tensor.name not in self._elements:
        self._elements[tensor.name] = back
      else:
        return False
      return True
    if first is None:
      return False
    if back is None or len(first) != len(back):
      self._shapeless.add(tensor.name)
      return True
    is_ranked = tensor.shape.rank is not None
    static = tensor.shape.as_list() if is_ranked else [None] * len(first)
    changing = {
      (tensor.name, axis)
      for axis, (size, other) in enumerate(zip(first, back, strict=True))
      if size != other and static[axis] is None
    }
    is_new = not changing <= self._changing
    self._changing |= changing
    return is_new

  def is_container(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor is a list, an array, or another container of elements.

    Args:
      tensor: The tensor.
    """
    return tensor.name in self._containers

  def pushed(self, op: tf.Operation) -> tf.Tensor | None:
    """Returns the tensor that was pushed on the stack that an op pops from.

    Args:
      op: A `StackPopV2`.
    """
    return self._pushed.get(self.stack_of(op))

  def stack_of(self, op: tf.Operation) -> tf.Operation:
    """Returns the op that makes the stack, or array, that an op works on.

    Args:
      op: An op that has its handle.
    """
    handle = op
    while handle.type not in control_flow.OBJECTS and handle.inputs:
      handle = handle.inputs[0].op
    return handle

  def _holds_elements(self, op: tf.Operation, index: int) -> bool:
    if op.outputs[index].dtype == tf.variant or self.is_container(
      op.outputs[index]
    ):
      return True
    if op.type == "StackPushV2":
      return op.inputs[1].name in self._containers
    if op.type == "StackPopV2":
      pushed = self.pushed(op)
      return pushed is not None and pushed.name in self._containers
    if op.type in _PASSES:
      is_number = op.type in op_types.MERGES and index > 0
      return not is_number and any(map(self.is_container, op.inputs))
    return control_flow.FLOWS.get(op.type) == index

  def rule(self, op: tf.Operation) -> Rule | None:
    """Returns the rule of an op; None if it has none.

    Args:
      op: The op.
    """
    if op not in self._rules:
      # A sum of flows only orders writes of arrays.
      adds_flows = op.type == "AddV2" and any(map(self.is_container, op.inputs))
      as_type = "AddN" if adds_flows else ""
      if self._is_per_example(op):
        self._rules[op] = self._per_example_rule(op)
      else:
        self._rules[op] = all_rules.TABLE.find(op, self, as_type)
    return self._rules[op]

  def _per_example_rule(self, op: tf.Operation) -> Rule:
    """Returns the rule of an op that computes each example by itself.

    Each part reads all inputs without examples; all outputs have examples.
    """
    inputs: list[InputOfRule] = []
    for tensor in op.inputs:
      shape = self.shape(tensor)
      if shape and self.has_examples(shape[0]):
        inputs.append(("n", *(None,) * (len(shape) - 1)))
      else:
        inputs.append(Whole())
    outputs = [("n", *(None,) * ((x.shape.rank or 1) - 1)) for x in op.outputs]
    return Rule(tuple(inputs), tuple(outputs))

  def shape(self, tensor: tf.Tensor) -> tuple[Size, ...] | None:
    """Returns the sizes of dimensions; None if their number is not known.

    Args:
      tensor: A tensor. The handle of a variable has the sizes of that.
    """
    if op_types.is_resource(tensor):
      of_variable = self.variable_shape(tensor)
      if of_variable is not None:
        return of_variable
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
    if op not in self._variables:
      shape = tf.TensorShape(op.get_attr("shape"))
      is_known = shape.is_fully_defined()
      self._variables[op] = tuple(shape.as_list()) if is_known else None
    return self._variables[op]

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
    frame = self._frames.output_frame(tensor.op)
    self.origins[name] = Origin(tensor.name, axis, frame)
    return polynomials.symbol(name)

  def _infer(
    self, op: tf.Operation, rule: Rule | None, index: int
  ) -> tuple[Size, ...] | None:
    """Returns the shape of an output."""
    tensor = op.outputs[index]
    static: Sequence[int | None] | None = None
    if not self.is_container(tensor) and tensor.shape.rank is not None:
      static = tensor.shape.as_list()
    sizes = self._output_sizes(op, rule, index)
    if sizes is None or (static is not None and len(static) != len(sizes)):
      return None if static is None else self._static(tensor)
    if static is not None:
      sizes = [
        size if number is None else number
        for size, number in zip(sizes, static, strict=True)
      ]
    frame = self._frames.output_frame(op)
    if self.is_container(tensor):
      # It holds elements of other rounds.
      frame = None if frame is None else frame.parent
      known = [x for x in sizes if x is not None and self._is_visible(x, frame)]
      return tuple(known) if len(known) == len(sizes) else None
    return tuple(
      self._name(tensor, axis)
      if size is None or not self._is_visible(size, frame)
      else size
      for axis, size in enumerate(sizes)
    )

  def _output_sizes(
    self, op: tf.Operation, rule: Rule | None, index: int
  ) -> list[Size | None] | None:
    """Returns the sizes of an output by those of inputs, as far as known."""
    if op.type in op_types.MERGES and not index:
      return self._merge_sizes(op)
    if op.type == "Enter":
      passed: tf.Tensor | None = op.inputs[0]
    elif op.type == "StackPopV2":
      passed = self.pushed(op)
    else:
      labels = None if rule is None else rule.outputs[index]
      if rule is None or labels is None:
        return None
      if self.is_container(op.outputs[index]) and not self._fits(op, rule):
        return None
      sizes: list[Size | None] = []
      for axis, label in enumerate(labels):
        size = rule.sizes.get((index, axis))
        if size is None and label is not None:
          size = self.size(op, rule, label)
        sizes.append(size)
      return sizes
    shape = None if passed is None else self.shape(passed)
    return None if shape is None else list(shape)

  def _fits(self, op: tf.Operation, rule: Rule) -> bool:
    """Whether a new element of a container has the sizes of the others."""
    sizes: dict[Label, Size] = {}
    for index, tensor in enumerate(op.inputs):
      labels, shape = rule.labels(index), self.shape(tensor)
      for label, size in zip(labels, shape or (), strict=False):
        if label is not None and sizes.setdefault(label, size) != size:
          return False
    return True

  def _merge_sizes(self, op: tf.Operation) -> list[Size | None] | None:
    """Returns the sizes of the output of a Merge."""
    (tensor, _) = op.outputs
    if frames_lib.is_begin_of_round(op):
      if tensor.name in self._shapeless:
        return None
      shape = self.shape(op.inputs[0])
      if shape is None:
        shape = self._elements.get(tensor.name)
      if shape is None:
        return None
      return [
        None if (tensor.name, axis) in self._changing else size
        for axis, size in enumerate(shape)
      ]
    shapes = [y for x in op.inputs if (y := self.shape(x)) is not None]
    is_known = len(shapes) == len(op.inputs) or self.is_container(tensor)
    if not shapes or not is_known or len({len(x) for x in shapes}) > 1:
      return None
    return [
      sizes[0] if len({*sizes}) == 1 else None
      for sizes in zip(*shapes, strict=True)
    ]

  def _is_visible(self, size: Size, frame: Frame | None) -> bool:
    """Whether a size has its value in a loop; None for outside of loops."""
    return not isinstance(size, Polynomial) or all(
      other is None or (frame is not None and frame.is_in(other))
      for other in map(self.frame_of, size.symbols)
    )

  def frame_of(self, symbol: str) -> Frame | None:
    """Returns the loop in which a symbol has a value; None if in none.

    Args:
      symbol: The name of the symbol.
    """
    origin = self.origins.get(symbol)
    return None if origin is None else origin.frame

  def size(self, op: tf.Operation, rule: Rule, label: Label) -> Size | None:
    """Returns the size that inputs have along a label; None if not known.

    Args:
      op: The op.
      rule: Its rule.
      label: The label.
    """
    sizes: list[Size] = []
    for index, tensor in enumerate(op.inputs):
      labels = rule.labels(index)
      if label not in labels:
        continue
      shape = self.shape(tensor)
      if shape is not None and len(shape) == len(labels):
        sizes.append(shape[labels.index(label)])
    different = list(dict.fromkeys(size for size in sizes if size != 1))
    if len(different) < 2 or not is_repeated(label):
      numbers = [size for size in different if isinstance(size, int)]
      return next(iter(numbers or different or sizes), None)
    # Others have the same size, or are repeated.
    many = [x for x in different if isinstance(x, int) or self.has_examples(x)]
    return many[0] if many else None

  def _evaluate(self, tensor: tf.Tensor) -> Value | None:
    """Returns the value of a tensor, which is not known yet."""
    op = tensor.op
    if tensor.dtype not in (tf.int32, tf.int64):
      return None
    if (pushed := self._popped(tensor)) is not None:
      here = self._frames.output_frame(op)
      self._values[tensor.name] = None  # It may be pushed again.
      read = [self.value(x) for x in pushed]
      if read and all(_is_same(read[0], x) for x in read):
        known = (self._is_visible(x, here) for x in np.ravel(read[0]))
        return read[0] if all(known) else None
      return None
    results = self._measure(op)
    if results is None and values.is_evaluated(op):
      read = [self.value(x) for x in op.inputs]
      if all(value is not None for value in read):
        results = values.evaluate(op, read, functools.partial(self._least, op))
    if results is not None:
      for output, value in zip(op.outputs, results, strict=True):
        is_small = value is not None and value.size <= values.MOST_ENTRIES
        self._values[output.name] = value if is_small else None
      return self._values[tensor.name]
    shape = tensor.shape
    if op.type == "Const" or shape.rank is None or shape.num_elements() != 1:
      return None
    value = np.empty(shape.as_list(), object)
    value[...] = self._name(tensor, None)
    return value

  def _popped(self, tensor: tf.Tensor) -> list[tf.Tensor] | None:
    """Returns the tensors that a popped one may be; None if not known."""
    op = tensor.op
    if op.type == "StackPopV2":
      pushed = self.pushed(op)
      return None if pushed is None else [pushed]
    if op.type != "TensorListPopBack":
      return None
    pushed_tensors: list[tf.Tensor] = []
    for maker in traversal.walk([op.inputs[0].op], _lists_before):
      if maker.type == "TensorListPushBack":
        pushed_tensors.append(maker.inputs[1])
      elif maker.type not in _STACKS:
        return None
    return pushed_tensors

  def _least(self, op: tf.Operation, symbol: str) -> int | None:
    """Returns the least number that a symbol may stand for in an op.

    There is an example in each step. A dimension may be empty; if its size is
    only a divisor, as in the gradient of a mean, it counts as 1 or more, as the
    mean of nothing has no gradient. The value of a tensor may be anything.
    """
    if symbol == EXAMPLES:
      return 1
    if self.origins[symbol].axis is None:
      return None
    readers = [reader for x in op.outputs for reader in x.consumers()]
    return int({reader.type for reader in readers} == {"FloorDiv"})

  def _measure(self, op: tf.Operation) -> list[Value | None] | None:
    """Returns the values of an op that measures its inputs."""
    if op.type == "SparseReshape":
      return [None, self._reshaped(*map(self.value, op.inputs[1:]))]
    if op.type not in MEASURES:
      return None
    shapes = [self.shape(tensor) for tensor in op.inputs]
    measured: list[Value | None] = []
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

  def _reshaped(self, before: Value | None, to: Value | None) -> Value | None:
    """Returns the sizes of a reshape, one of which may be given as -1."""
    if before is None or to is None:
      return None
    sizes: list[Size] = list(to)
    if -1 in sizes:
      given = polynomials.product(size for size in sizes if size != -1)
      left = polynomials.quotient(polynomials.product(before), given)
      if left is None:
        return None
      sizes[sizes.index(-1)] = left
    return values.value_of(sizes)

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
    sizes, other = (
      [1] * (rank - len(shape)) + shape
      for shape in (shapes[index], shapes[1 - index])
    )
    sure, maybe = set(), set()
    for axis, (size, beside) in enumerate(zip(sizes, other, strict=True)):
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


def _lists_before(op: tf.Operation) -> list[tf.Operation]:
  return [x.op for x in op.inputs if x.dtype == tf.variant]


def _is_same(value: Value | None, other: Value | None) -> bool:
  """Whether two values are known, and equal."""
  return (
    value is not None
    and other is not None
    and value.shape == other.shape
    and all(np.ravel(value == other))
  )
