"""Example axes: where in a tensor the examples of a batch are.

The rank of a tensor does not say so: a loss may have the shape [1], and a
vector may be one of tasks. So the shapes are inferred once more for a batch of
an odd size (a large prime number), in a graph of their own: a dimension that
is a multiple of it is one of examples. How XLA's sharding propagation follows a
dimension through reshapes is described in GSPMD (Xu et al., 2021,
arXiv:2105.04663); here the question is only whether slices, laid one after
another along an axis, are the whole.
"""

import dataclasses
import enum
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from estimator_mp.capture.micro_batches import BatchInput
from estimator_mp.graph import functions, op_types

import numpy as np
import tensorflow as tf

ODD_BATCH = 100_003
_WHOLE = 30_011  # Of what has the examples of all slices: no axis of slices.
_ROWS = 200_003  # Of what has any number of rows, such as a sparse tensor.
_LARGE = 50_000
_UNKNOWN_DIMENSIONS = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149)
# These say again what shapes they had when they were made.
_SHAPE_ATTRIBUTES = ("_class", "_output_shapes", "output_shapes")


_Sizes: TypeAlias = list[int | None]


class Kind(enum.Enum):
  """What a tensor of a slice has to do with its examples."""

  NONE = "no dimension depends on the batch"
  ROWS = "the slices, laid along one axis, are the whole"
  MIXED = "it depends on the batch in some other way"
  PARTS = "it is one of the parts of a sparse or ragged tensor"
  PAIRS = "it compares examples of a batch with each other"
  UNKNOWN = "its shape does not tell"


@dataclasses.dataclass(frozen=True)
class Layout:
  """Where examples are in a tensor.

  Attributes:
    kind: Whether it has some.
    axis: Their axis; None but for `Kind.ROWS`.
    per_example: How long the axis is for each of them; 0 if that is not known.
    is_counted: Whether the data say how many rows there are, such as those that
      a mask leaves.
    is_moved: Whether rows are where those of other examples were, as after a
      roll: what meets them row by row is compared with other examples.
  """

  kind: Kind
  axis: int | None = None
  per_example: int = 0
  is_counted: bool = False
  is_moved: bool = False


_NONE = Layout(Kind.NONE)
_MIXED = Layout(Kind.MIXED)
_PARTS = Layout(Kind.PARTS)
_PAIRS = Layout(Kind.PAIRS)
_UNKNOWN = Layout(Kind.UNKNOWN)
_COUNTED = Layout(Kind.UNKNOWN, is_counted=True)


class ExampleAxes:
  """The layouts of tensors of one graph.

  What was once looked at stays known.
  """

  def __init__(
    self,
    inputs: Sequence[BatchInput],
    differs: Callable[[tf.Tensor], bool],
    slice_size: int | None,
  ):
    """Starts with the inputs alone.

    Args:
      inputs: What was cut into slices.
      differs: Whether a tensor differs between slices.
      slice_size: The examples of each slice, if the graph knows.
    """
    self._slice_size = slice_size
    self._differs = differs
    self._dimensions: dict[str, _Sizes | None] = {}
    self._constants: dict[str, list[int]] = {}
    self._layouts: dict[str, Layout] = {}
    self._odd: dict[str, tf.TensorShape] = {}
    for entry in inputs:
      self._add_input(entry)

  def _add_input(self, entry: BatchInput) -> None:
    parts = tf.nest.flatten(entry.slices[0], expand_composites=True)
    if isinstance(entry.slices[0], tf.SparseTensor):
      sizes = [ODD_BATCH, *_known(entry.whole.shape.as_list()[1:])]
      self._dimensions[parts[0].name] = [_ROWS, len(sizes)]
      self._dimensions[parts[1].name] = [_ROWS]
      self._constants[parts[2].name] = sizes
      self._layouts |= {part.name: _PARTS for part in parts}
    elif isinstance(entry.slices[0], tf.RaggedTensor):
      for index, part in enumerate(parts):
        rows = _ROWS * (index + 2)
        self._dimensions[part.name] = [
          rows,
          *_known(part.shape.as_list()[1:]),
        ]
        self._layouts[part.name] = _PARTS
      # The outermost of the row splits comes after the values.
      self._dimensions[parts[1].name] = [ODD_BATCH + 1]
    else:
      dense = _known(parts[0].shape.as_list())
      dense[entry.axis] = ODD_BATCH
      self._dimensions[parts[0].name] = [*dense]
      self._layouts[parts[0].name] = Layout(Kind.ROWS, entry.axis, 1)

  def of(self, tensor: tf.Tensor) -> Layout:
    """Returns where the examples of a tensor are.

    Args:
      tensor: A tensor that differs between slices, or another.
    """
    if not self._differs(tensor):
      return _NONE
    if tensor.name not in self._layouts:
      self.add([tensor])
    return self._layouts[tensor.name]

  def kind_by_shape(self, tensor: tf.Tensor) -> Kind:
    """Returns what its shape says alone of a tensor, as of one in a function.

    Args:
      tensor: A tensor that nothing else is known of.
    """
    size = self._slice_size
    if tensor.shape.rank is None:
      return Kind.UNKNOWN
    may_have = any(
      x is None or (size is not None and x % size == 0 and x and size > 1)
      for x in tensor.shape.as_list()
    )
    return Kind.UNKNOWN if may_have else Kind.NONE

  def is_input(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor is a slice of an input, or a part of one.

    Args:
      tensor: A tensor.
    """
    return tensor.name in self._dimensions or tensor.name in self._constants

  def add(self, tensors: Iterable[tf.Tensor]) -> None:
    """Looks at tensors, and whatever they are computed from, at once.

    Args:
      tensors: Tensors of the graph.
    """
    ops = self._ancestors(tensors, self._dimensions)
    shapes, failed = self._shapes(ops, self._dimensions)
    if failed is not None and self._slice_size is not None:
      shapes, failed = self._shapes(ops, self._dimensions, self._slice_size)
    rest = ops
    while failed is not None:  # Leave out what is made for one size alone.
      rest = _without(rest, failed) if failed is not rest[0] else []
      shapes, failed = self._shapes(rest, self._dimensions, self._slice_size)
    self._odd |= shapes
    for op in ops:
      for tensor in op.outputs:
        if tensor.name not in self._layouts and self._differs(tensor):
          self._layouts[tensor.name] = self._layout(tensor, shapes)

  def odd_graph(self, ops: Iterable[tf.Operation]) -> tf.Graph:
    """Returns a graph with the shapes of a batch of `ODD_BATCH` examples.

    Args:
      ops: Ops of the graph, in order.

    Returns:
      A graph of these and of what leads to them, by the same names, but for
      what cannot work for another size of the batch.
    """
    found: dict[tf.Operation, None] = {}
    for op in ops:
      found |= dict.fromkeys(self._ancestors(op.inputs, self._dimensions))
      found.setdefault(op)
    rest = list(found)
    graph, failed = self._imported(rest, self._dimensions, self._slice_size)
    while failed is not None:
      for tensor in failed.outputs:
        if self._guessed(tensor).kind is Kind.ROWS:
          self._add_guessed(tensor)
      is_guessed = all(x.name in self._dimensions for x in failed.outputs)
      left = _without(rest, failed)
      rest = [op for op in rest if op is not failed] if is_guessed else left
      graph, failed = self._imported(rest, self._dimensions, self._slice_size)
    self.add([x for op in rest for x in op.outputs])
    return graph

  def _add_guessed(self, tensor: tf.Tensor) -> None:
    """Adds what an op makes that was made for one size of the batch."""
    sizes = _known(tensor.shape.as_list())
    layout = self._guessed(tensor)
    sizes[0] = layout.per_example * ODD_BATCH
    self._dimensions[tensor.name] = [*sizes]
    self._layouts[tensor.name] = layout

  def fits_any_size(
    self, ops: Iterable[tf.Operation], known: Iterable[tf.Tensor]
  ) -> bool:
    """Whether ops can work for a batch of another size.

    Args:
      ops: Ops of the graph.
      known: Tensors that are there for any size.
    """
    stand_ins = {
      tensor.name: self._size_for_odd_batch(tensor) for tensor in known
    }
    outside = self._dimensions | stand_ins
    found: dict[tf.Operation, None] = {}
    for op in ops:
      found |= dict.fromkeys(self._ancestors(op.inputs, outside))
      found.setdefault(op)
    return self._shapes(list(found), outside)[1] is None

  def _size_for_odd_batch(self, tensor: tf.Tensor) -> _Sizes | None:
    """Returns the shape that a tensor has, or should have."""
    if tensor.name in self._dimensions or tensor.shape.rank is None:
      return self._dimensions.get(tensor.name)
    sizes: _Sizes = tensor.shape.as_list()
    layout = self.of(tensor)
    if layout.axis is not None:
      sizes[layout.axis] = layout.per_example * ODD_BATCH
    return sizes

  def add_scalar(self, tensor: tf.Tensor) -> None:
    """Adds a number that differs between slices, but holds no examples.

    Args:
      tensor: A scalar.
    """
    self._dimensions[tensor.name] = []
    self._layouts[tensor.name] = _NONE

  def add_rows(
    self, tensor: tf.Tensor, axis: int = 0, per_example: int = 1
  ) -> None:
    """Adds something with rows for each example, before anything reads it.

    Args:
      tensor: A tensor of the first slice.
      axis: The axis of its examples.
      per_example: How long the axis is for each of them.
    """
    sizes = _known(tensor.shape.as_list())
    sizes[axis] = per_example * ODD_BATCH
    self._dimensions[tensor.name] = [*sizes]
    self._layouts[tensor.name] = Layout(Kind.ROWS, axis, per_example)

  def add_whole(self, tensor: tf.Tensor) -> None:
    """Adds something with a row for each example of all slices.

    Args:
      tensor: A tensor that is there once, before anything reads it.
    """
    sizes = _known(tensor.shape.as_list())
    self._dimensions[tensor.name] = [_WHOLE, *sizes[1:]]

  def size_for_odd_batch(self, tensor: tf.Tensor) -> _Sizes | None:
    """Returns the shape of a tensor for a batch of `ODD_BATCH` examples.

    Args:
      tensor: A tensor that was looked at, or leads to one.

    Returns:
      Its shape; None if it is not known.
    """
    if tensor.name in self._dimensions:
      return self._dimensions[tensor.name]
    shape = self._odd.get(tensor.name, tf.TensorShape(None))
    return None if shape.rank is None else shape.as_list()

  def _ancestors(
    self, tensors: Iterable[tf.Tensor], outside: Mapping[str, Any]
  ) -> list[tf.Operation]:
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
      elif op not in found and not self._is_outside(tensor, outside):
        todo.append((tensor, True))
        if op.type != "NextIteration":
          todo += [(x, False) for x in op.inputs]
    return list(found)

  def _is_outside(self, tensor: tf.Tensor, outside: Mapping[str, Any]) -> bool:
    """Whether a tensor is an input, or so well-known that it may be one."""
    return (
      tensor.name in outside
      or tensor.name in self._constants
      or (
        not self._differs(tensor)
        and tensor.dtype.is_floating
        and tensor.shape.is_fully_defined()
        and tensor.op.type != "Const"
      )
    )

  def _shapes(
    self,
    ops: Sequence[tf.Operation],
    sizes: Mapping[str, _Sizes | None],
    slice_size: int | None = None,
  ) -> tuple[dict[str, tf.TensorShape], tf.Operation | None]:
    """Returns all shapes for the odd batch, or an op that cannot work for it.

    Args:
      ops: What is computed for it.
      sizes: The shapes of what is not.
      slice_size: As for `_imported`.
    """
    graph, failed = self._imported(ops, sizes, slice_size)
    if failed is not None:
      return {}, failed
    shapes = {
      tensor.name: graph.get_tensor_by_name(tensor.name).shape
      for op in ops
      for tensor in op.outputs
    }
    return shapes, None

  def _imported(
    self,
    ops: Sequence[tf.Operation],
    sizes: Mapping[str, _Sizes | None],
    slice_size: int | None = None,
  ) -> tuple[tf.Graph, tf.Operation | None]:
    """Returns a graph for the odd batch, or an op that cannot work for it.

    Args:
      ops: What is computed for it.
      sizes: The shapes of what is not.
      slice_size: The number of examples that constants such as those of
        `tf.zeros_like` were made for, and shall not be.
    """
    if not ops:
      return tf.Graph(), None
    inside = {op.name for op in ops}
    constants = set()
    if slice_size is not None:
      constants |= self._constants_like_slices(ops, slice_size)
    definition = tf.compat.v1.GraphDef()
    source = ops[0].graph
    definition.versions.CopyFrom(source.graph_def_versions)
    if any(_calls_function(op) for op in ops):
      definition.library.CopyFrom(source.as_graph_def().library)
    outside: dict[str, tf.Tensor] = {}
    for op in ops:
      node = definition.node.add()
      node.CopyFrom(op.node_def)
      node.device = ""
      if slice_size is not None and op.name in constants:
        _enlarge(node, slice_size)
      kept = [x for x in node.input if x[0] != "^"]
      del node.input[:]
      node.input.extend(kept)
      for attribute in _SHAPE_ATTRIBUTES:
        node.attr.pop(attribute, None)
      for tensor in op.inputs:
        if tensor.op.name not in inside or self._is_outside(tensor, sizes):
          outside[tensor.name] = tensor
    with tf.Graph().as_default() as graph:
      stand_ins = {
        name: self._stand_in(tensor, sizes) for name, tensor in outside.items()
      }
      try:
        tf.graph_util.import_graph_def(definition, stand_ins, name="")
      except (ValueError, tf.errors.OpError) as error:
        node = re.search(r"\{\{node ([^\s}]+)", str(error))
        by_name = {op.name: op for op in ops}
        return graph, by_name.get(node[1] if node else "", ops[0])
    return graph, None

  def _constants_like_slices(
    self, ops: Sequence[tf.Operation], slice_size: int
  ) -> set[str]:
    """Returns constants of the shape of what differs, which they go with."""
    found = set()
    for op in ops:
      shapes = [
        x.shape.as_list()
        for x in op.inputs
        if self._differs(x) and x.shape.rank
      ]
      found |= {
        x.op.name
        for x in op.inputs
        if x.op.type == "Const"
        and x.shape.rank
        and x.shape[0] % slice_size == 0
        and x.shape.as_list() in shapes
      }
    return found

  def _stand_in(
    self, tensor: tf.Tensor, sizes: Mapping[str, _Sizes | None]
  ) -> tf.Tensor:
    name = "estimator_mp_outside"
    if tensor.name in self._constants:
      return tf.constant(self._constants[tensor.name], tensor.dtype, name=name)
    shape = sizes.get(tensor.name, tensor.shape)
    return tf.compat.v1.placeholder(tensor.dtype, shape, name=name)

  def _layout(
    self, tensor: tf.Tensor, shapes: Mapping[str, tf.TensorShape]
  ) -> Layout:
    """Returns the layout of an op's output, by those of its inputs."""
    before = [
      self._layouts[x.name] for x in tensor.op.inputs if x.name in self._layouts
    ]
    is_moved = any(x.is_moved for x in before)
    if (
      _PAIRS in before
      or (is_moved and any(x.kind is Kind.ROWS for x in before))
      or self._works_along_examples(tensor.op, shapes)
      or self._cuts_examples(tensor, shapes)
    ):
      return _PAIRS
    if tensor.name in shapes:
      says_itself = tensor.op.type.startswith(op_types.SAYS_SHAPE)
      shape = tf.TensorShape(None) if says_itself else shapes[tensor.name]
      found = _layout_of_shape(shape, tensor.shape, self._slice_size)
    else:
      found = self._guessed(tensor)
    if found is _UNKNOWN and (
      any(x.is_counted or x.kind is Kind.PARTS for x in before)
      or tensor.op.type.startswith(op_types.ROWS_BY_DATA)
    ):
      return _COUNTED
    if found.kind is Kind.ROWS and (
      any(x.kind is Kind.MIXED for x in before)
      or (
        tensor.name in shapes and not self._keeps_order(tensor, found, shapes)
      )
    ):
      is_moved = is_moved or self._moves_examples(tensor.op)
      return Layout(Kind.MIXED, None, found.per_example, is_moved=is_moved)
    return found

  def _works_along_examples(
    self, op: tf.Operation, shapes: Mapping[str, tf.TensorShape]
  ) -> bool:
    """Whether an op sorts, normalises or adds up along the examples.

    Numbers that are whole may be ids and lengths, of which a slice has its own.
    """
    if op.type in op_types.ALONG_LAST_AXIS:
      axis: int | None = -1
    elif op.type in op_types.ALONG_AN_AXIS:
      axis = tf.get_static_value(op.inputs[1])
    else:
      return False
    data = op.inputs[0]
    return data.dtype.is_floating and self._has_examples_on(data, axis, shapes)

  def _cuts_examples(
    self, tensor: tf.Tensor, shapes: Mapping[str, tf.TensorShape]
  ) -> bool:
    """Whether an op makes the first examples meet the last ones, say.

    Those of two inputs that were joined on the axis come apart again: they are
    mixed before.
    """
    op = tensor.op
    if op.type in op_types.CUTS and len(op.outputs) > 1:
      number, of_axis = op_types.CUTS[op.type]
      data, axis = op.inputs[number], tf.get_static_value(op.inputs[of_axis])
    elif op.type == "Reshape" and self._is_cut_by_shape(tensor, shapes):
      data, axis = op.inputs[0], 0
    else:
      return False
    is_whole = self._layouts.get(data.name, _NONE).kind is Kind.ROWS
    return is_whole and self._has_examples_on(data, axis, shapes)

  def _is_cut_by_shape(
    self, tensor: tf.Tensor, shapes: Mapping[str, tf.TensorShape]
  ) -> bool:
    """Whether a batch of any size is made, say, two rows of half of it.

    It works for no odd number then, and the first axis has a known length. Of
    a slice of known size the length says whether it has the examples. Rows of
    the same length are the same rows, and the first axis says how many examples
    a batch should have.
    """
    is_open = self._slice_size is None and tensor.name not in shapes
    if not is_open or not tensor.shape.rank or tensor.shape[0] is None:
      return False
    data = tensor.op.inputs[0].shape
    lengths = [
      x[1:].num_elements() if x.rank else None for x in (data, tensor.shape)
    ]
    return lengths[0] is None or lengths[0] != lengths[1]

  def _has_examples_on(
    self,
    tensor: tf.Tensor,
    axis: int | None,
    shapes: Mapping[str, tf.TensorShape],
  ) -> bool:
    """Whether a tensor has its examples, and nothing else, along an axis."""
    sizes = self._dimensions.get(tensor.name)
    if sizes is None and tensor.name in shapes:
      sizes = list(shapes[tensor.name]) if shapes[tensor.name].rank else None
    if axis is None or not sizes:
      return False
    return (sizes[axis] or 0) >= _LARGE

  def _moves_examples(self, op: tf.Operation) -> bool:
    """Whether an op puts each example in the place of a certain other one."""
    if op.type not in op_types.MOVES_ROWS:
      return False
    axes = tf.get_static_value(op.inputs[-1])
    data = self._layouts.get(op.inputs[0].name, _NONE)
    rank = op.inputs[0].shape.rank
    if axes is None or rank is None or data.axis is None:
      return False
    return bool(np.any(np.mod(axes, rank) == data.axis))

  def _guessed(self, tensor: tf.Tensor) -> Layout:
    """Returns the layout in a model that was made for one size of a batch."""
    if tensor.shape.rank is None:
      return _UNKNOWN
    size = self._slice_size
    sizes = tensor.shape.as_list()
    if not sizes:
      return _NONE
    if sizes[0] is None or size is None or size == 1:
      return _UNKNOWN
    if sizes[0] % size == 0:
      return Layout(Kind.ROWS, 0, sizes[0] // size)
    return _UNKNOWN if any(x is None or x % size == 0 for x in sizes) else _NONE

  def _keeps_order(
    self,
    tensor: tf.Tensor,
    found: Layout,
    shapes: Mapping[str, tf.TensorShape],
  ) -> bool:
    """Whether examples come slice by slice, as they do before an op."""
    op = tensor.op
    if op.type in op_types.REORDERS:
      return False
    rows = [
      (x, self._layouts[x.name])
      for x in op.inputs
      if self._layouts.get(x.name, _NONE).kind is Kind.ROWS
    ]
    if op.type in ("Concat", "ConcatV2"):
      longest = max((x.per_example for _, x in rows), default=1)
      return len(rows) <= 1 or found.per_example <= longest
    if op.type == "Tile":
      return all(found.per_example == x.per_example for _, x in rows)
    if op.type == "Reshape" and rows:
      (data, layout), *_ = rows
      sizes = shapes.get(data.name)
      if sizes is None:
        sizes = self._dimensions.get(data.name)
      return _leading(sizes, layout.axis) == _leading(
        shapes[tensor.name], found.axis
      )
    return True


def _without(
  ops: Sequence[tf.Operation], bad: tf.Operation
) -> list[tf.Operation]:
  """Returns ops but for one, and for what depends on it."""
  left_out = {bad}
  for op in ops:
    if any(x.op in left_out for x in op.inputs):
      left_out.add(op)
  return [op for op in ops if op not in left_out]


def _known(sizes: Sequence[int | None]) -> list[int]:
  """Returns sizes, with small prime numbers for unknown ones."""
  unknown = iter(_UNKNOWN_DIMENSIONS)
  return [next(unknown) if size is None else size for size in sizes]


def _leading(
  shape: Iterable[int | None] | None, axis: int | None
) -> int | None:
  """Returns how many blocks of examples there are; None if that is unknown."""
  if shape is None or axis is None:
    return None
  sizes = list(shape)[:axis]
  return None if None in sizes else math.prod(x for x in sizes if x)


def _layout_of_shape(
  shape: tf.TensorShape, real: tf.TensorShape, slice_size: int | None
) -> Layout:
  """Returns the layout of a tensor that has a shape for the odd batch.

  Args:
    shape: That shape.
    real: The shape for a slice.
    slice_size: The examples of a slice, if the graph knows.
  """
  if real.rank == 0:
    return _NONE
  if shape.rank is None and real.rank is None:
    return _UNKNOWN
  sizes: _Sizes = (
    [None] * (real.rank or 0) if shape.rank is None else shape.as_list()
  )
  reals = real.as_list() if real.rank == len(sizes) else [None] * len(sizes)
  varying = [
    axis
    for axis, (size, known) in enumerate(zip(sizes, reals, strict=True))
    if size is not None and size != known and size >= _LARGE
  ]
  of_batch = [a for a in varying if (sizes[a] or 0) % ODD_BATCH == 0]
  if len(of_batch) > 1:
    return _PAIRS
  if any((sizes[axis] or 0) % _ROWS == 0 for axis in varying):
    return _PARTS
  if len(varying) > len(of_batch):
    return _MIXED
  if of_batch:
    (axis,) = of_batch
    return Layout(Kind.ROWS, axis, (sizes[axis] or 0) // ODD_BATCH)
  # A size that only the slice's shape tells may be that of the slice.
  is_open = [
    size is None
    and (known is None or (slice_size is not None and known % slice_size == 0))
    for size, known in zip(sizes, reals, strict=True)
  ]
  return _UNKNOWN if any(is_open) else _NONE


def _enlarge(node: tf.compat.v1.NodeDef, slice_size: int) -> None:
  """Gives a constant of equal numbers for a slice the size of the odd batch."""
  value = node.attr["value"].tensor
  elements = tf.make_ndarray(value)
  if elements.size and np.all(elements == elements.flat[0]):
    shape = [elements.shape[0] // slice_size * ODD_BATCH, *elements.shape[1:]]
    one = tf.make_tensor_proto(elements.flat[0], elements.dtype, [])
    one.tensor_shape.CopyFrom(tf.TensorShape(shape).as_proto())
    value.CopyFrom(one)


def _calls_function(op: tf.Operation) -> bool:
  """Whether an op calls a function of the graph's library."""
  is_function = not hasattr(tf.raw_ops, op.type)  # As those of v1 are.
  return is_function or bool(functions.functions_of(op.node_def))
