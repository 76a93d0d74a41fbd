"""Cells that are one operation each, with the gradients of the operations."""

import contextlib
from typing import Any

from compat.contrib.rnn.cells import (
  InputSpec,
  LayerRNNCell,
  LSTMStateTuple,
  depth_of,
  unconverted,
)

import tensorflow as tf

PEEPHOLES = ("w_i_diag", "w_f_diag", "w_o_diag")


class LSTMBlockCell(LayerRNNCell):
  """The LSTM of Zaremba et al., 2014, as the operation LSTMBlockCell.

  Its variables are "kernel" [inputs + units, 4 * units] and "bias", in the
  order input, cell, forget, output gate, and with peepholes "w_i_diag",
  "w_f_diag" and "w_o_diag", each [units]: those of BasicLSTMCell.
  """

  def __init__(
    self,
    num_units: int,
    forget_bias: float = 1.0,
    cell_clip: float | None = None,
    use_peephole: bool = False,
    dtype: tf.DType | None = None,
    reuse: bool | None = None,
    name: str = "lstm_cell",
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      forget_bias: added to the forget gate's bias.
      cell_clip: limits the cell state to [-cell_clip, cell_clip].
      use_peephole: whether the gates see the cell state.
      dtype: of the variables; the inputs' by default.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      name: of the variables' scope.
    """
    super().__init__(_reuse=reuse, dtype=dtype, name=name)
    self._num_units = num_units
    self._forget_bias = forget_bias
    self._cell_clip = -1.0 if cell_clip is None else cell_clip
    self._use_peephole = use_peephole
    self.input_spec = InputSpec(ndim=2)

  @property
  def state_size(self) -> Any:
    """The sizes of c and h."""
    return LSTMStateTuple(self._num_units, self._num_units)

  @property
  def output_size(self) -> int:
    """The size of h."""
    return self._num_units

  def build(self, inputs_shape: Any) -> None:
    """Makes the variables.

    Args:
      inputs_shape: [batch, depth].
    """
    make_lstm_variables(self, depth_of(inputs_shape))
    self.built = True

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: (c, h), each [batch, num_units].

    Raises:
      ValueError: if the state is no pair.
    """
    c, h = pair(state)
    _, c, _, _, _, _, h = tf.raw_ops.LSTMBlockCell(
      x=inputs,
      cs_prev=c,
      h_prev=h,
      w=self._kernel,
      b=self._bias,
      wci=self._peepholes[0],
      wcf=self._peepholes[1],
      wco=self._peepholes[2],
      forget_bias=self._forget_bias,
      cell_clip=self._cell_clip,
      use_peephole=self._use_peephole,
    )
    return h, LSTMStateTuple(c, h)


def make_lstm_variables(layer: Any, depth: int) -> None:
  """Gives a layer its `_kernel`, `_bias` and `_peepholes`.

  Args:
    layer: knows `_num_units` and `_use_peephole`.
    depth: the size of its inputs.
  """
  units = layer._num_units
  layer._kernel = layer.add_weight("kernel", [depth + units, 4 * units])
  layer._bias = layer.add_weight(
    "bias", [4 * units], initializer=tf.compat.v1.zeros_initializer()
  )
  if layer._use_peephole:
    layer._peepholes = [layer.add_weight(name, [units]) for name in PEEPHOLES]
  else:
    layer._peepholes = [tf.zeros([units], layer.dtype)] * 3


def pair(state: Any) -> Any:
  """Returns c and h.

  Raises:
    ValueError: if the state is not a sequence of two.
  """
  if not isinstance(state, (list, tuple)) or len(state) != 2:
    raise ValueError(f"the state of an LSTM is a pair (c, h), not {state}.")
  return state


class GRUBlockCell(LayerRNNCell):
  """The GRU of Cho et al., 2014, as the operation GRUBlockCell.

  Its variables are "w_ru" [inputs + units, 2 * units] and "b_ru" of the reset
  and update gates, "w_c" [inputs + units, units] and "b_c" of the candidate.
  """

  _names = ("w_ru", "b_ru", "w_c", "b_c")

  def __init__(
    self,
    num_units: int | None = None,
    cell_size: int | None = None,
    reuse: bool | None = None,
    name: str = "gru_cell",
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      cell_size: the same, as earlier programs say it.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      name: of the variables' scope.

    Raises:
      ValueError: if not one of the two sizes is given.
    """
    super().__init__(_reuse=reuse, name=name)
    if (num_units is None) == (cell_size is None):
      raise ValueError(
        f"{type(self).__name__} takes either num_units or cell_size, not "
        f"num_units={num_units} and cell_size={cell_size}."
      )
    self._units: Any = cell_size if num_units is None else num_units
    self.input_spec = InputSpec(ndim=2)

  @property
  def state_size(self) -> Any:
    """The size of h."""
    return self._units

  @property
  def output_size(self) -> Any:
    """The size of h."""
    return self._units

  def build(self, inputs_shape: Any) -> None:
    """Makes the variables.

    Args:
      inputs_shape: [batch, depth].
    """
    rows, units = depth_of(inputs_shape) + self._units, self._units
    zeros = tf.compat.v1.zeros_initializer()
    ones = tf.compat.v1.ones_initializer()
    w_ru, b_ru, w_c, b_c = self._names
    self._w_ru = self.add_weight(w_ru, [rows, 2 * units])
    self._b_ru = self.add_weight(b_ru, [2 * units], initializer=ones)
    self._w_c = self.add_weight(w_c, [rows, units])
    self._b_c = self.add_weight(b_c, [units], initializer=zeros)
    self.built = True

  @unconverted
  def call(self, inputs: Any, h_prev: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      h_prev: the state, [batch, num_units].
    """
    *_, h = tf.raw_ops.GRUBlockCell(
      x=inputs,
      h_prev=h_prev,
      w_ru=self._w_ru,
      w_c=self._w_c,
      b_ru=self._b_ru,
      b_c=self._b_c,
    )
    return h, h


class GRUBlockCellV2(GRUBlockCell):
  """GRUBlockCell with the variables of GRUCell.

  They are "gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias".
  """

  _names = ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")


def _register(operation: str, gradient: Any) -> None:
  """Registers a gradient, unless this TensorFlow has one."""
  with contextlib.suppress(KeyError):
    tf.RegisterGradient(operation)(gradient)


def _gradient_of_lstm(operation: Any, *slopes: Any) -> Any:
  """The gradient of LSTMBlockCell by its inputs; only c and h have slopes."""
  x, c_before, h_before, kernel, wci, wcf, wco, bias = operation.inputs
  i, c, f, o, ci, co, _ = operation.outputs
  _, by_c, _, _, _, _, by_h = slopes
  by_c_before, by_gates, by_wci, by_wcf, by_wco = tf.raw_ops.LSTMBlockCellGrad(
    x=x,
    cs_prev=c_before,
    h_prev=h_before,
    w=kernel,
    wci=wci,
    wcf=wcf,
    wco=wco,
    b=bias,
    i=i,
    cs=c,
    f=f,
    o=o,
    ci=ci,
    co=co,
    cs_grad=by_c,
    h_grad=by_h,
    use_peephole=operation.get_attr("use_peephole"),
  )
  depth = depth_of(x)
  by_joined = tf.matmul(by_gates, kernel, transpose_b=True)
  by_kernel = tf.matmul(tf.concat([x, h_before], 1), by_gates, transpose_a=True)
  by_bias = tf.reduce_sum(by_gates, 0)
  return (
    by_joined[:, :depth],
    by_c_before,
    by_joined[:, depth:],
    by_kernel,
    by_wci,
    by_wcf,
    by_wco,
    by_bias,
  )


def _gradient_of_gru(operation: Any, *slopes: Any) -> Any:
  """The gradient of GRUBlockCell by its inputs; only h has a slope."""
  x, h_before, w_ru, w_c, b_ru, b_c = operation.inputs
  r, u, c, _ = operation.outputs
  by_x, by_h_before, by_candidate, by_gates = tf.raw_ops.GRUBlockCellGrad(
    x=x,
    h_prev=h_before,
    w_ru=w_ru,
    w_c=w_c,
    b_ru=b_ru,
    b_c=b_c,
    r=r,
    u=u,
    c=c,
    d_h=slopes[-1],
  )

  def product(state: Any, slope: Any) -> Any:
    return tf.matmul(tf.concat([x, state], 1), slope, transpose_a=True)

  return (
    by_x,
    by_h_before,
    product(h_before, by_gates),
    product(h_before * r, by_candidate),
    tf.reduce_sum(by_gates, 0),
    tf.reduce_sum(by_candidate, 0),
  )


_register("LSTMBlockCell", _gradient_of_lstm)
_register("GRUBlockCell", _gradient_of_gru)
