"""The parts of the recurrent cells of tf.contrib.rnn."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf

_cells = tf.compat.v1.nn.rnn_cell

RNNCell = _cells.RNNCell
LSTMStateTuple = _cells.LSTMStateTuple
# The base of the cells that make their variables in `build`.
LayerRNNCell = _cells.BasicRNNCell.__base__
InputSpec = tf.compat.v1.layers.InputSpec

_Function = TypeVar("_Function", bound=Callable[..., Any])


def unconverted(function: _Function) -> _Function:
  """Keeps AutoGraph, which layers apply to their `call`, from ours."""
  converted: _Function = tf.autograph.experimental.do_not_convert(function)
  return converted


def depth_of(tensor: Any, what: str = "inputs") -> int:
  """Returns the size of the last dimension.

  Args:
    tensor: a tensor, or its shape.
    what: what the error calls it.

  Raises:
    ValueError: if it is not known.
  """
  shape = tf.TensorShape(getattr(tensor, "shape", tensor))
  depth = None if shape.rank is None else shape.as_list()[-1]
  if depth is None:
    raise ValueError(
      f"the {what} have the shape {shape}; a cell needs to know the last "
      "dimension. Set it, by tf.reshape or set_shape."
    )
  return int(depth)


def linear(
  parts: Sequence[Any],
  size: int,
  bias: bool = True,
  kernel_initializer: Any = None,
  bias_initializer: Any = None,
) -> Any:
  """Returns [parts] kernel + bias, with the current scope's variables.

  Args:
    parts: matrices [batch, any]; they are joined side by side.
    size: the columns of the result.
    bias: whether there is a "bias" besides the "kernel".
    kernel_initializer: the scope's by default.
    bias_initializer: zeros by default.
  """
  rows = sum(depth_of(part) for part in parts)
  joined = parts[0] if len(parts) == 1 else tf.concat(parts, 1)
  dtype = joined.dtype
  kernel = tf.compat.v1.get_variable(
    "kernel", [rows, size], dtype, kernel_initializer
  )
  product = tf.matmul(joined, kernel)
  if not bias:
    return product
  if bias_initializer is None:
    bias_initializer = tf.compat.v1.zeros_initializer(dtype)
  return tf.nn.bias_add(
    product,
    tf.compat.v1.get_variable("bias", [size], dtype, bias_initializer),
  )


def linear_of(
  args: Any,
  output_size: int,
  bias: bool,
  bias_initializer: Any = None,
  kernel_initializer: Any = None,
) -> Any:
  """The `_linear` that many programs took from core_rnn_cell.

  Args:
    args: a matrix, or a list of them.
    output_size: the columns of the result.
    bias: whether there is a "bias" besides the "kernel".
    bias_initializer: zeros by default.
    kernel_initializer: the scope's by default.

  Raises:
    ValueError: if there is nothing to multiply.
  """
  parts = tf.nest.flatten(args)
  if not parts:
    raise ValueError("args has to be a matrix, or a list of at least one.")
  return linear(parts, output_size, bias, kernel_initializer, bias_initializer)


class Linear:
  """The same with the variables made once, `_Linear` of core_rnn_cell."""

  def __init__(
    self,
    args: Any,
    output_size: int,
    build_bias: bool,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
  ):
    """Makes the variables, in the current scope.

    Args:
      args: a matrix, or a list of them: those of the calls, or such.
      output_size: the columns of the result.
      build_bias: whether there is a "bias" besides the "kernel".
      bias_initializer: zeros by default.
      kernel_initializer: the scope's by default.
    """
    self._arguments = (
      output_size,
      build_bias,
      bias_initializer,
      kernel_initializer,
    )
    v1 = tf.compat.v1
    linear_of(args, *self._arguments)
    self._scope = v1.get_variable_scope()

  def __call__(self, args: Any) -> Any:
    """Returns [args] kernel + bias."""
    with tf.compat.v1.variable_scope(
      self._scope, reuse=True, auxiliary_name_scope=False
    ):
      return linear_of(args, *self._arguments)


def sharded(
  name: str, shape: Sequence[int], dtype: tf.DType, shards: int
) -> Any:
  """Returns a matrix that is stored by rows in variables NAME_0, NAME_1, ...

  Args:
    name: of the matrix.
    shape: [rows, columns].
    dtype: of the variables.
    shards: how many; each has a row more or less than the others at most.

  Raises:
    ValueError: if there are more shards than rows.
  """
  rows, columns = shape
  if shards > rows:
    raise ValueError(
      f"{name} has {rows} rows, which cannot be stored in {shards} shards; use "
      f"{rows} at most."
    )
  each, more = divmod(rows, shards)
  parts = [
    tf.compat.v1.get_variable(
      f"{name}_{shard}", [each + (shard < more), columns], dtype
    )
    for shard in range(shards)
  ]
  return parts[0] if shards == 1 else tf.concat(parts, 0)


def clipped(tensor: Any, limit: float | None) -> Any:
  """Returns the tensor within [-limit, limit]; as it is without a limit."""
  if limit is None:
    return tensor
  return tf.clip_by_value(tensor, -limit, limit)


def lstm_sizes(units: int, output: int, state_is_tuple: bool) -> Any:
  """Returns the state size of an LSTM: (c, h), or their sum."""
  if state_is_tuple:
    return LSTMStateTuple(units, output)
  return units + output


def unpack_lstm(state: Any, units: int, state_is_tuple: bool) -> Any:
  """Returns c and h of an LSTM's state, which may be one matrix."""
  if state_is_tuple:
    return state
  return state[:, :units], state[:, units:]


def pack_lstm(cell: Any, output: Any, state_is_tuple: bool) -> Any:
  """Returns c and h as `unpack_lstm` takes them."""
  if state_is_tuple:
    return LSTMStateTuple(cell, output)
  return tf.concat([cell, output], 1)


def layer_norm(inputs: Any, scope: str, gain: float, shift: float) -> Any:
  """Returns each row with mean 0 and deviation 1, scaled and shifted.

  Args:
    inputs: [batch, units].
    scope: of the variables "gamma" and "beta".
    gain: gamma's first value.
    shift: beta's first value.
  """
  units, dtype = [depth_of(inputs)], inputs.dtype
  constant = tf.compat.v1.constant_initializer
  with tf.compat.v1.variable_scope(scope):
    get = tf.compat.v1.get_variable
    gamma = get("gamma", units, dtype, constant(gain))
    beta = get("beta", units, dtype, constant(shift))
    mean, variance = tf.nn.moments(inputs, [1], keepdims=True)
    return tf.nn.batch_normalization(
      inputs, mean, variance, beta, gamma, variance_epsilon=1e-12
    )


def check_is_cell(cell: Any) -> None:
  """Checks what a wrapper is put around.

  Args:
    cell: anything.

  Raises:
    TypeError: if it is not an RNNCell.
  """
  missing = [
    name for name in ("output_size", "state_size") if not hasattr(cell, name)
  ]
  if not hasattr(cell, "zero_state") and not hasattr(cell, "get_initial_state"):
    missing.append("zero_state")
  if not callable(cell):
    missing.append("__call__")
  if missing:
    raise TypeError(
      f"the cell {cell!r} is not an RNNCell: it has no {', '.join(missing)}."
    )
