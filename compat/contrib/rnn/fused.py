"""Recurrent layers that take all time steps at once."""

import abc
from typing import Any

from compat.contrib.rnn.block_cells import make_lstm_variables, pair
from compat.contrib.rnn.cells import (
  InputSpec,
  LSTMStateTuple,
  depth_of,
  unconverted,
)

import tensorflow as tf


class FusedRNNCell(abc.ABC):
  """A cell for a whole sequence, [time, batch, depth], in one call."""

  @abc.abstractmethod
  def __call__(
    self,
    inputs: Any,
    initial_state: Any = None,
    dtype: tf.DType | None = None,
    sequence_length: Any = None,
    scope: Any = None,
  ) -> Any:
    """Runs the layer.

    Args:
      inputs: [time, batch, depth], or a list of [batch, depth].
      initial_state: as the layer has it; zeros by default.
      dtype: of the zeros; needed without an initial state.
      sequence_length: [batch] integers; all steps by default.
      scope: of the variables.

    Returns:
      The outputs, as the inputs are given, and the last state.
    """


class FusedRNNCellAdaptor(FusedRNNCell):
  """Runs an ordinary cell as a FusedRNNCell."""

  def __init__(self, cell: Any, use_dynamic_rnn: bool = False):
    """Makes the adaptor.

    Args:
      cell: an RNNCell.
      use_dynamic_rnn: whether a loop runs it; else each step has operations.
    """
    self._cell = cell
    self._use_dynamic_rnn = use_dynamic_rnn

  def __call__(
    self,
    inputs: Any,
    initial_state: Any = None,
    dtype: tf.DType | None = None,
    sequence_length: Any = None,
    scope: Any = None,
  ) -> Any:
    """Runs the cell; see FusedRNNCell."""
    is_list = isinstance(inputs, list)
    arguments = {
      "initial_state": initial_state,
      "sequence_length": sequence_length,
      "dtype": dtype,
      "scope": scope,
    }
    if self._use_dynamic_rnn:
      outputs, state = tf.compat.v1.nn.dynamic_rnn(
        self._cell,
        tf.stack(inputs) if is_list else inputs,
        time_major=True,
        **arguments,
      )
      return (tf.unstack(outputs) if is_list else outputs), state
    outputs, state = tf.compat.v1.nn.static_rnn(
      self._cell, inputs if is_list else tf.unstack(inputs), **arguments
    )
    return (outputs if is_list else tf.stack(outputs)), state


class TimeReversedFusedRNN(FusedRNNCell):
  """Runs another FusedRNNCell from the end of each sequence to its start."""

  def __init__(self, cell: Any):
    """Makes the layer around `cell`, a FusedRNNCell."""
    self._cell = cell

  def __call__(
    self,
    inputs: Any,
    initial_state: Any = None,
    dtype: tf.DType | None = None,
    sequence_length: Any = None,
    scope: Any = None,
  ) -> Any:
    """Runs the layer; see FusedRNNCell."""
    outputs, state = self._cell(
      _reversed(inputs, sequence_length),
      initial_state=initial_state,
      dtype=dtype,
      sequence_length=sequence_length,
      scope=scope,
    )
    return _reversed(outputs, sequence_length), state


def _reversed(sequence: Any, lengths: Any) -> Any:
  if lengths is None:
    return tf.reverse(sequence, [0])
  return tf.reverse_sequence(sequence, lengths, seq_axis=0, batch_axis=1)


class LSTMBlockWrapper(tf.compat.v1.layers.Layer):
  """An LSTM over all time steps: what its kinds have in common."""

  @property
  @abc.abstractmethod
  def num_units(self) -> int:
    """The size of the state."""

  @abc.abstractmethod
  def _call_cell(
    self,
    inputs: Any,
    initial_cell_state: Any,
    initial_output: Any,
    dtype: tf.DType,
    sequence_length: Any,
  ) -> tuple[Any, Any]:
    """Returns c and h at all steps, each [time, batch, num_units]."""

  @unconverted
  def call(
    self,
    inputs: Any,
    initial_state: Any = None,
    dtype: tf.DType | None = None,
    sequence_length: Any = None,
  ) -> Any:
    """Runs the LSTM over a batch of sequences.

    Args:
      inputs: [time, batch, depth], or a list of [batch, depth].
      initial_state: (c, h), each [batch, num_units]; zeros by default.
      dtype: of the zeros; needed without an initial state.
      sequence_length: [batch] integers; outputs after them are zeros. All
        sequences are as long as `inputs` by default.

    Returns:
      The outputs [time, batch, num_units], and the LSTMStateTuple (c, h) after
      each sequence's last step.

    Raises:
      ValueError: if there is neither a dtype nor an initial state, or the state
        is no pair.
    """
    is_list = isinstance(inputs, list)
    if is_list:
      inputs = tf.stack(inputs)
    time, batch, _ = (
      known if known is not None else tf.shape(inputs)[axis]
      for axis, known in enumerate(inputs.shape.as_list())
    )
    if initial_state is None:
      if dtype is None:
        raise ValueError(
          f"{type(self).__name__} needs an initial_state, or the dtype of one "
          "that is zeros."
        )
      initial_state = [tf.zeros(tf.stack([batch, self.num_units]), dtype)] * 2
    c_before, h_before = pair(initial_state)
    if dtype is None:
      dtype = c_before.dtype
    if sequence_length is not None:
      sequence_length = tf.cast(sequence_length, tf.int32)
    cells, outputs = self._call_cell(
      inputs, c_before, h_before, dtype, sequence_length
    )
    if sequence_length is None:
      state = LSTMStateTuple(cells[-1], outputs[-1])
    else:
      running = tf.sequence_mask(sequence_length, time, outputs.dtype)
      outputs *= tf.transpose(running)[:, :, tf.newaxis]
      ends = tf.stack([sequence_length, tf.range(batch)], axis=1)
      state = LSTMStateTuple(
        _at(ends, c_before, cells), _at(ends, h_before, outputs)
      )
    return (tf.unstack(outputs) if is_list else outputs), state


def _at(ends: Any, before: Any, steps: Any) -> Any:
  """The last states; a sequence of length 0 ends where it began."""
  return tf.gather_nd(tf.concat([before[tf.newaxis], steps], 0), ends)


class LSTMBlockFusedCell(LSTMBlockWrapper):
  """An LSTM over all time steps in one operation, BlockLSTM.

  Its variables are those of LSTMBlockCell.
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
    """Makes the layer; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      forget_bias: added to the forget gate's bias.
      cell_clip: limits the cell state to [-cell_clip, cell_clip].
      use_peephole: whether the gates see the cell state.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      dtype: of the variables; the inputs' by default.
      name: of the variables' scope.
    """
    super().__init__(_reuse=reuse, name=name, dtype=dtype)
    self._num_units = num_units
    self._forget_bias = forget_bias
    self._cell_clip = -1.0 if cell_clip is None else cell_clip
    self._use_peephole = use_peephole
    self.input_spec = InputSpec(ndim=3)

  @property
  def num_units(self) -> int:
    """The size of the state."""
    return self._num_units

  def build(self, input_shape: Any) -> None:
    """Makes the variables.

    Args:
      input_shape: [time, batch, depth].
    """
    make_lstm_variables(self, depth_of(input_shape))
    self.built = True

  def _call_cell(
    self,
    inputs: Any,
    initial_cell_state: Any,
    initial_output: Any,
    dtype: tf.DType,
    sequence_length: Any,
  ) -> tuple[Any, Any]:
    if sequence_length is None:
      longest = tf.shape(inputs)[0]
    else:
      longest = tf.reduce_max(sequence_length)
    _, cells, _, _, _, _, outputs = tf.raw_ops.BlockLSTM(
      seq_len_max=tf.cast(longest, tf.int64),
      x=inputs,
      cs_prev=initial_cell_state,
      h_prev=initial_output,
      w=self._kernel,
      wci=self._peepholes[0],
      wcf=self._peepholes[1],
      wco=self._peepholes[2],
      b=self._bias,
      forget_bias=self._forget_bias,
      cell_clip=self._cell_clip,
      use_peephole=self._use_peephole,
    )
    return cells, outputs
