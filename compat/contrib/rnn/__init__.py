"""Names of tf.contrib.rnn: cells, fused layers, and what runs them."""

from compat.contrib import absent
from compat.contrib.rnn.block_cells import (
  GRUBlockCell,
  GRUBlockCellV2,
  LSTMBlockCell,
)
from compat.contrib.rnn.cells import LayerRNNCell, LSTMStateTuple, RNNCell
from compat.contrib.rnn.fused import (
  FusedRNNCell,
  FusedRNNCellAdaptor,
  LSTMBlockFusedCell,
  LSTMBlockWrapper,
  TimeReversedFusedRNN,
)
from compat.contrib.rnn.sequences import (
  best_effort_input_batch_size,
  stack_bidirectional_dynamic_rnn,
  stack_bidirectional_rnn,
  transpose_batch_time,
)

import tensorflow as tf

__getattr__ = absent.getter(__name__)

_nn = tf.compat.v1.nn

BasicLSTMCell = _nn.rnn_cell.BasicLSTMCell
BasicRNNCell = _nn.rnn_cell.BasicRNNCell
DeviceWrapper = _nn.rnn_cell.DeviceWrapper
DropoutWrapper = _nn.rnn_cell.DropoutWrapper
GRUCell = _nn.rnn_cell.GRUCell
LSTMCell = _nn.rnn_cell.LSTMCell
MultiRNNCell = _nn.rnn_cell.MultiRNNCell
ResidualWrapper = _nn.rnn_cell.ResidualWrapper
static_bidirectional_rnn = _nn.static_bidirectional_rnn
static_rnn = _nn.static_rnn
static_state_saving_rnn = _nn.static_state_saving_rnn

__all__ = (
  "BasicLSTMCell",
  "BasicRNNCell",
  "DeviceWrapper",
  "DropoutWrapper",
  "FusedRNNCell",
  "FusedRNNCellAdaptor",
  "GRUBlockCell",
  "GRUBlockCellV2",
  "GRUCell",
  "LSTMBlockCell",
  "LSTMBlockFusedCell",
  "LSTMBlockWrapper",
  "LSTMCell",
  "LSTMStateTuple",
  "LayerRNNCell",
  "MultiRNNCell",
  "RNNCell",
  "ResidualWrapper",
  "TimeReversedFusedRNN",
  "best_effort_input_batch_size",
  "stack_bidirectional_dynamic_rnn",
  "stack_bidirectional_rnn",
  "static_bidirectional_rnn",
  "static_rnn",
  "static_state_saving_rnn",
  "transpose_batch_time",
)
