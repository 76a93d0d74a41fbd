"""Names of tf.contrib.rnn, with the fused LSTM."""

from typing import Any

from compat.contrib import absent

import tensorflow as tf

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

_cells = tf.compat.v1.nn.rnn_cell

BasicLSTMCell = _cells.BasicLSTMCell
BasicRNNCell = _cells.BasicRNNCell
DeviceWrapper = _cells.DeviceWrapper
DropoutWrapper = _cells.DropoutWrapper
GRUCell = _cells.GRUCell
LSTMCell = _cells.LSTMCell
LSTMStateTuple = _cells.LSTMStateTuple
MultiRNNCell = _cells.MultiRNNCell
RNNCell = _cells.RNNCell
ResidualWrapper = _cells.ResidualWrapper
static_bidirectional_rnn = tf.compat.v1.nn.static_bidirectional_rnn
static_rnn = tf.compat.v1.nn.static_rnn
static_state_saving_rnn = tf.compat.v1.nn.static_state_saving_rnn


class LSTMBlockFusedCell:
  """An LSTM over all time steps in one operation, BlockLSTM.

  Its variables are "kernel" [inputs + units, 4 * units] and "bias", in the
  order input, cell, forget, output gate, and with peepholes "w_i_diag",
  "w_f_diag" and "w_o_diag", each [units]. The cell is that of Zaremba et al.,
  "Recurrent Neural Network Regularization", 2014.
  """

  def __init__(
    self,
    num_units: int,
    forget_bias: float = 1.0,
    cell_clip: float | None = None,
    use_peephole: bool = False,
    reuse: bool | None = None,
    dtype: tf.DType | None = None,
    name: str = "lstm_fused_cell",
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      forget_bias: added to the forget gate's bias.
      cell_clip: limits the cell state to [-cell_clip, cell_clip].
      use_peephole: whether the gates see the cell state.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      dtype: of the variables; the inputs' by default.
      name: of the variables' scope.
    """
    self._num_units = num_units
    self._forget_bias = forget_bias
    self._cell_clip = -1.0 if cell_clip is None else cell_clip
    self._use_peephole = use_peephole
    self._reuse = reuse
    self._dtype = dtype
    self._name = name
    self._called = False

  @property
  def num_units(self) -> int:
    """The size of the state."""
    return self._num_units

  def __call__(
    self,
    inputs: tf.Tensor,
    initial_state: Any = None,
    dtype: tf.DType | None = None,
    sequence_length: tf.Tensor | None = None,
  ) -> tuple[tf.Tensor, Any]:
    """Runs the LSTM over a batch of sequences.

    Args:
      inputs: [time, batch, input_size].
      initial_state: (c, h), each [batch, num_units]; zeros by default.
      dtype: unused where inputs are a tensor, as in tf.contrib.
      sequence_length: [batch] integers; outputs after them are zeros. All
        sequences are as long as `inputs` by default.

    Returns:
      The outputs [time, batch, num_units], and the LSTMStateTuple (c, h) after
      each sequence's last step.

    Raises:
      ValueError: if the inputs have not three dimensions, the last one known.
    """
    del dtype
    inputs = tf.convert_to_tensor(inputs)
    if inputs.shape.rank != 3 or inputs.shape[2] is None:
      raise ValueError(
        f"inputs have the shape {inputs.shape}; LSTMBlockFusedCell needs "
        "[time, batch, input_size] with a known input_size."
      )
    units = self._num_units
    length = tf.shape(inputs)[0]
    batch = tf.shape(inputs)[1]
    if initial_state is None:
      zeros = tf.zeros([batch, units], inputs.dtype)
      initial_state = (zeros, zeros)
    cell_before, output_before = initial_state
    kernel, bias, peepholes = self._variables(inputs)
    if sequence_length is None:
      longest = tf.cast(length, tf.int64)
    else:
      longest = tf.cast(tf.reduce_max(sequence_length), tf.int64)
    _, cells, _, _, _, _, outputs = tf.raw_ops.BlockLSTM(
      seq_len_max=longest,
      x=inputs,
      cs_prev=cell_before,
      h_prev=output_before,
      w=kernel,
      wci=peepholes[0],
      wcf=peepholes[1],
      wco=peepholes[2],
      b=bias,
      forget_bias=self._forget_bias,
      cell_clip=self._cell_clip,
      use_peephole=self._use_peephole,
    )
    if sequence_length is None:
      return outputs, LSTMStateTuple(cells[-1], outputs[-1])
    mask = tf.sequence_mask(sequence_length, length, outputs.dtype)
    outputs *= tf.transpose(mask)[:, :, tf.newaxis]
    # A sequence of length 0 ends where it began.
    cells = tf.concat([cell_before[tf.newaxis], cells], 0)
    states = tf.concat([output_before[tf.newaxis], outputs], 0)
    ends = tf.stack(
      [tf.cast(sequence_length, tf.int32), tf.range(batch)], axis=1
    )
    return outputs, LSTMStateTuple(
      tf.gather_nd(cells, ends), tf.gather_nd(states, ends)
    )

  def _variables(self, inputs: tf.Tensor) -> tuple[Any, Any, list[Any]]:
    dtype = self._dtype or inputs.dtype
    units = self._num_units
    reuse = True if self._called else self._reuse
    with tf.compat.v1.variable_scope(self._name, reuse=reuse):
      get = tf.compat.v1.get_variable
      kernel = get("kernel", [inputs.shape[2] + units, 4 * units], dtype)
      zeros = tf.compat.v1.zeros_initializer()
      bias = get("bias", [4 * units], dtype, zeros)
      if self._use_peephole:
        peepholes = [
          get(name, [units], dtype)
          for name in ("w_i_diag", "w_f_diag", "w_o_diag")
        ]
      else:
        peepholes = [tf.zeros([units], dtype)] * 3
    self._called = True
    return kernel, bias, peepholes
