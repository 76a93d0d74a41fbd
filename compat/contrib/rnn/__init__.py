"""Names of tf.contrib.rnn: cells, fused layers, and what runs them."""

from compat.contrib import absent
from compat.contrib.rnn.attention import AttentionCellWrapper
from compat.contrib.rnn.block_cells import (
  GRUBlockCell,
  GRUBlockCellV2,
  LSTMBlockCell,
)
from compat.contrib.rnn.cells import (
  LayerRNNCell,
  Linear,
  LSTMStateTuple,
  RNNCell,
  linear_of,
)
from compat.contrib.rnn.convolution import (
  Conv1DLSTMCell,
  Conv2DLSTMCell,
  Conv3DLSTMCell,
  ConvLSTMCell,
)
from compat.contrib.rnn.fused import (
  FusedRNNCell,
  FusedRNNCellAdaptor,
  LSTMBlockFusedCell,
  LSTMBlockWrapper,
  TimeReversedFusedRNN,
)
from compat.contrib.rnn.gated_cells import (
  IntersectionRNNCell,
  MinimalRNNCell,
  NASCell,
  SRUCell,
  UGRNNCell,
)
from compat.contrib.rnn.grid_cells import (
  BidirectionalGridLSTMCell,
  GridLSTMCell,
  TimeFreqLSTMCell,
)
from compat.contrib.rnn.independent_cells import (
  IndRNNCell,
  IndyGRUCell,
  IndyLSTMCell,
)
from compat.contrib.rnn.lstm_cells import (
  CoupledInputForgetGateLSTMCell,
  GLSTMCell,
  LayerNormBasicLSTMCell,
  WeightNormLSTMCell,
)
from compat.contrib.rnn.phased import PhasedLSTMCell
from compat.contrib.rnn.sequences import (
  best_effort_input_batch_size,
  stack_bidirectional_dynamic_rnn,
  stack_bidirectional_rnn,
  transpose_batch_time,
)
from compat.contrib.rnn.wrappers import (
  CompiledWrapper,
  EmbeddingWrapper,
  HighwayWrapper,
  InputProjectionWrapper,
  OutputProjectionWrapper,
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

# By their names in core_rnn_cell, from where programs of that time took them.
_linear = linear_of
_Linear = Linear

__all__ = (
  "AttentionCellWrapper",
  "BasicLSTMCell",
  "BasicRNNCell",
  "BidirectionalGridLSTMCell",
  "CompiledWrapper",
  "Conv1DLSTMCell",
  "Conv2DLSTMCell",
  "Conv3DLSTMCell",
  "ConvLSTMCell",
  "CoupledInputForgetGateLSTMCell",
  "DeviceWrapper",
  "DropoutWrapper",
  "EmbeddingWrapper",
  "FusedRNNCell",
  "FusedRNNCellAdaptor",
  "GLSTMCell",
  "GRUBlockCell",
  "GRUBlockCellV2",
  "GRUCell",
  "GridLSTMCell",
  "HighwayWrapper",
  "IndRNNCell",
  "IndyGRUCell",
  "IndyLSTMCell",
  "InputProjectionWrapper",
  "IntersectionRNNCell",
  "LSTMBlockCell",
  "LSTMBlockFusedCell",
  "LSTMBlockWrapper",
  "LSTMCell",
  "LSTMStateTuple",
  "LayerNormBasicLSTMCell",
  "LayerRNNCell",
  "MinimalRNNCell",
  "MultiRNNCell",
  "NASCell",
  "OutputProjectionWrapper",
  "PhasedLSTMCell",
  "RNNCell",
  "ResidualWrapper",
  "SRUCell",
  "TimeFreqLSTMCell",
  "TimeReversedFusedRNN",
  "UGRNNCell",
  "WeightNormLSTMCell",
  "best_effort_input_batch_size",
  "stack_bidirectional_dynamic_rnn",
  "stack_bidirectional_rnn",
  "static_bidirectional_rnn",
  "static_rnn",
  "static_state_saving_rnn",
  "transpose_batch_time",
)
