"""Sizes as tensors: values of symbolic sizes for a part, or the whole batch.

A size that is a number is a constant. A polynomial is computed from the values
of its symbols: measured dimensions, the examples of a slice among them, and
numbers in tensors. Each is made once, on demand; in a loop, it enters that.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from estimator_mp.analysis.symbolic_shapes import EXAMPLES
from estimator_mp.graph import traversal
from estimator_mp.graph.frames import Frame
from estimator_mp.lower.axis import Axis
from estimator_mp.lower.source import Source
from estimator_mp.propagate.layouts import SLICE
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Polynomial, Size

import numpy as np
import tensorflow as tf


class SizeTensors:
  """The sizes that the parts of one axis have."""

  def __init__(
    self,
    source: Source,
    axis: Axis,
    holder: Callable[[tf.Tensor, int | None, int], str],
  ):
    """Starts with none.

    Args:
      source: The graph.
      axis: The parts.
      holder: Returns the tensor in which a part measures a dimension of one of
        the graph, or reads its value if that is None.
    """
    self._source = source
    self._axis = axis
    self._shapes = source.shapes
    self._holder = holder
    # The loop in which ops are being added, and of which part.
    self._here: tuple[Frame, int] | None = None
    self._constants: dict[tuple[object, ...], str] = {}

  def number_of(self, size: Size, dtype: tf.DType) -> str:
    """Returns a size of the whole batch as a scalar of any type.

    Args:
      size: The size.
      dtype: The type.
    """
    return self.scalar(self.size(size, None), dtype)

  def vector(
    self, value: np.ndarray, dtype: tf.DType, number: int | None = None
  ) -> str:
    """Returns a tensor of sizes, of a part or of all.

    Args:
      value: The sizes: one, or those of several dimensions.
      dtype: The type of the tensor.
      number: The number of the part; None for sizes of the whole batch.
    """
    sizes = [self.size(size, number) for size in np.ravel(value)]
    if value.ndim == 1:
      return self.pack(sizes, dtype)
    assert value.ndim == 0, value
    (size,) = sizes
    return self.scalar(size, dtype)

  def pack(self, sizes: Sequence[int | str], dtype: tf.DType) -> str:
    """Returns a vector of numbers, and of scalars of int32."""
    if all(isinstance(size, int) for size in sizes):
      return self.constant(tuple(sizes), dtype)
    scalars = [self.scalar(size, dtype) for size in sizes]
    return self._add("Pack", "shape", scalars, N=len(sizes), T=dtype, axis=0)

  def scalar(self, size: int | str, dtype: tf.DType) -> str:
    """Returns a number, or a scalar of int32, as a scalar of any type."""
    if isinstance(size, int):
      return self.constant(size, dtype)
    if dtype == tf.int32:
      return size
    return self._add("Cast", "cast", [size], SrcT=tf.int32, DstT=dtype)

  def size(self, size: Size, number: int | None) -> int | str:
    """Returns a size: a number, or the name of a scalar of int32.

    Args:
      size: The size.
      number: The slice whose size it is, if it has the symbol of one.
    """
    if self._here is not None and not self._is_inside(size):
      with self.at(None), self._axis.definitions.on(""):
        name = self.size(size, number)
      return name if isinstance(name, int) else self._bring(name, tf.int32)
    total: int | str = 0
    for term, count in sorted(polynomials.terms_of(size).items()):
      product: int | str = count
      for symbol in term:
        product = self.binary("Mul", self._symbol(symbol, number), product)
      total = self.binary("AddV2", product, total)
    return total

  def _is_inside(self, size: Size) -> bool:
    """Whether a size has its value inside of loops."""
    return isinstance(size, Polynomial) and any(
      self._shapes.frame_of(symbol) is not None for symbol in size.symbols
    )

  @contextlib.contextmanager
  def at(self, here: tuple[Frame, int] | None) -> Iterator[None]:
    """A context in which ops are added in a loop of a slice."""
    before, self._here = self._here, here
    try:
      yield
    finally:
      self._here = before

  def _bring(self, name: str, dtype: tf.DType) -> str:
    """Returns a tensor from outside of loops as it is in the one here."""
    if self._here is None:
      return name
    frame, number = self._here
    loops = [frame]
    while loops[-1].parent is not None:
      loops.append(loops[-1].parent)
    for loop in reversed(loops):
      name = self._add(
        "Enter",
        "enter",
        [name],
        T=dtype,
        frame_name=f"{loop.name}/{self._axis.name_of(number)}",
        is_constant=True,
        parallel_iterations=loop.iterations,
      )
    return name

  def binary(self, op_type: str, x: int | str, y: int | str) -> int | str:
    """Returns the sum ("AddV2") or the product ("Mul") of two sizes."""
    if isinstance(x, int) and isinstance(y, int):
      return x * y if op_type == "Mul" else x + y
    if y == (1 if op_type == "Mul" else 0):
      return x
    if x == (1 if op_type == "Mul" else 0):
      return y
    read = [self.scalar(x, tf.int32), self.scalar(y, tf.int32)]
    return self._add(op_type, op_type, read, T=tf.int32)

  def _symbol(self, symbol: str, number: int | None) -> int | str:
    """Returns the value of a symbol."""
    if symbol == SLICE:
      assert number is not None
      return self.examples_of(number)
    if symbol == EXAMPLES and self._source.examples.count is not None:
      return str(self._source.examples.count.name)
    if symbol == EXAMPLES:
      assert self._source.measured is not None
      tensor, dim = self._source.measured
      return self._measured(tensor.name, tensor.dtype, dim)
    if self._here is not None:
      number = self._here[1]
    origin = self._shapes.origins[symbol]
    tensor = traversal.tensor_of_name(self._source.graph, origin.tensor)
    if origin.entry is not None:
      name = self._entry(tensor.name, tensor.dtype, origin.entry)
      return self._number(name, tensor.dtype)
    name = self._holder(tensor, origin.axis, number or 0)
    if origin.axis is None:
      return self._number(name, tensor.dtype)
    return self._measured(name, tensor.dtype, origin.axis)

  def examples_of(self, number: int) -> int | str:
    """Returns how many examples a slice has: the first ones one more."""
    total: int | str | tf.Tensor
    span: Sequence[int] = self._axis.numbers
    if self._source.examples.sizes:
      replica = self._axis.replica_of[number]
      span = self._axis.replicas[replica]
      total = self._source.examples.sizes[replica]
    elif isinstance(self._shapes.num_examples, int):
      total = self._shapes.num_examples
    else:
      total = self._symbol(EXAMPLES, None)
    count, place = len(span), number - span[0]
    if isinstance(total, int):
      return total // count + (place < total % count)
    whole = str(getattr(total, "name", total))
    # (n + count - 1 - place) // count
    more = self.binary("AddV2", whole, count - 1 - place)
    read = [self.scalar(more, tf.int32), self.constant(count, tf.int32)]
    return self._add("FloorDiv", self._axis.name_of(number), read, T=tf.int32)

  def _measured(self, name: str, dtype: tf.DType, dim: int) -> str:
    """Returns the size of a dimension of a tensor."""
    shape = self._add("Shape", "shape_of", [name], T=dtype, out_type=tf.int32)
    return self._entry(shape, tf.int32, dim)

  def _entry(self, vector: str, dtype: tf.DType, index: int) -> str:
    """Returns an entry of a vector."""
    bounds = [self.constant((x,), tf.int32) for x in (index, index + 1, 1)]
    return self._add(
      "StridedSlice",
      "entry",
      [vector, *bounds],
      T=dtype,
      Index=tf.int32,
      shrink_axis_mask=1,
    )

  def _number(self, name: str, dtype: tf.DType) -> str:
    """Returns the only entry of a tensor as a scalar of int32."""
    read = [name, self.constant((), tf.int32)]
    scalar = self._add("Reshape", "number", read, T=dtype, Tshape=tf.int32)
    if dtype != tf.int32:
      scalar = self._add("Cast", "number", [scalar], SrcT=dtype, DstT=tf.int32)
    return scalar

  def _add(
    self, op_type: str, name: str, inputs: Sequence[str], **fields: Any
  ) -> str:
    """Returns an op that works on sizes; equal ones are made once."""
    definitions = self._axis.definitions
    return definitions.add_once(op_type, f"sizes/{name}", inputs, **fields)

  def constant(
    self, value: int | tuple[int | str, ...], dtype: tf.DType
  ) -> str:
    """Returns a constant, as it is in the loop here."""
    key = value, dtype
    if key not in self._constants:
      self._constants[key] = self._axis.definitions.constant(
        "sizes/constant", np.array(value, dtype.as_numpy_dtype), dtype
      )
    return self._bring(self._constants[key], dtype)
