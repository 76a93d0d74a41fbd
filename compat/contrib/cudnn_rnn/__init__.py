"""Names of tf.contrib.cudnn_rnn: cuDNN's layers, on any device.

The layers have the variable, the results and the names in checkpoints that they
had on a GPU, and are made of ordinary operations: a checkpoint that a GPU wrote
is evaluated and trained on without one.
"""

from compat.contrib import absent
from compat.contrib.cudnn_rnn.compatible_cells import (
  CudnnCompatibleGRUCell,
  CudnnCompatibleLSTMCell,
)
from compat.contrib.cudnn_rnn.converters import (
  CudnnParamsFormatConverterGRU,
  CudnnParamsFormatConverterLSTM,
  CudnnParamsFormatConverterRelu,
  CudnnParamsFormatConverterTanh,
)
from compat.contrib.cudnn_rnn.layers import (
  CudnnGRU,
  CudnnLSTM,
  CudnnRNNRelu,
  CudnnRNNTanh,
)
from compat.contrib.cudnn_rnn.saveables import (
  CudnnGRUSaveable,
  CudnnLSTMSaveable,
  CudnnRNNReluSaveable,
  CudnnRNNTanhSaveable,
)

__getattr__ = absent.getter(__name__)

__all__ = (
  "CudnnCompatibleGRUCell",
  "CudnnCompatibleLSTMCell",
  "CudnnGRU",
  "CudnnGRUSaveable",
  "CudnnLSTM",
  "CudnnLSTMSaveable",
  "CudnnParamsFormatConverterGRU",
  "CudnnParamsFormatConverterLSTM",
  "CudnnParamsFormatConverterRelu",
  "CudnnParamsFormatConverterTanh",
  "CudnnRNNRelu",
  "CudnnRNNReluSaveable",
  "CudnnRNNTanh",
  "CudnnRNNTanhSaveable",
)
