"""What of tf.contrib.cudnn_rnn runs without a GPU on 1.15."""

import numpy as np
import tensorflow as tf

_RANDOM = np.random.RandomState(7)
_X = _RANDOM.normal(size=(4, 3, 2)).astype(np.float32)
_LENGTHS = np.array([4, 2, 0], np.int32)
_cudnn_rnn = tf.contrib.cudnn_rnn


def _looped(cell):
  fed = tf.placeholder_with_default(_X, [None, None, 2])
  outputs, state = tf.nn.dynamic_rnn(
    cell, fed, _LENGTHS, dtype=tf.float32, time_major=True
  )
  found = {"outputs": outputs}
  for at, part in enumerate(tf.contrib.framework.nest.flatten(state)):
    found["state_%d" % at] = part
  return found


def lstm_cells():
  cells = [_cudnn_rnn.CudnnCompatibleLSTMCell(3) for _ in range(2)]
  with tf.variable_scope("cudnn_lstm"):
    return _looped(tf.nn.rnn_cell.MultiRNNCell(cells))


def gru_cell():
  return _looped(_cudnn_rnn.CudnnCompatibleGRUCell(3))


def bidirectional_cells():
  cells = [
    [_cudnn_rnn.CudnnCompatibleGRUCell(3) for _ in range(2)] for _ in range(2)
  ]
  outputs, _, _ = tf.contrib.rnn.stack_bidirectional_dynamic_rnn(
    cells[0],
    cells[1],
    tf.placeholder_with_default(_X, [None, None, 2]),
    dtype=tf.float32,
    time_major=True,
  )
  return {"outputs": outputs}


def _converted(converter, gates, layers=2, directions=1):
  """There and back, where 1.15 does not need a GPU."""
  units, depth = 2, 3
  weights, biases = [], []
  random = np.random.RandomState(8)
  for place in range(layers * directions):
    inputs = depth if place < directions else directions * units
    shapes = [(units, inputs)] * gates + [(units, units)] * gates
    weights += [tf.constant(random.normal(size=one)) for one in shapes]
    biases += [tf.constant(random.normal(size=units)) for _ in shapes]
  made = converter(
    layers,
    units,
    depth,
    direction="bidirectional" if directions == 2 else "unidirectional",
  )
  kernels, sums = made._cu_canonical_to_tf_canonical(weights, biases)
  back = made._tf_canonical_to_cu_canonical(kernels + sums, None)
  named = {"kernels": kernels, "sums": sums}
  named.update(weights=back[0], biases=back[1])
  return {
    "%s_%d" % (name, at): value
    for name, values in named.items()
    for at, value in enumerate(values)
  }


def converted_lstm():
  return _converted(_cudnn_rnn.CudnnParamsFormatConverterLSTM, 4, directions=2)


def converted_gru():
  return _converted(_cudnn_rnn.CudnnParamsFormatConverterGRU, 3, directions=2)


def _names(layer):
  with tf.variable_scope("model"):
    outputs, states = layer(tf.placeholder(tf.float32, [4, 3, 2]))
  return {
    "stored": ",".join(one.name for one in layer.saveable.specs),
    "saveable": layer.saveable.name,
    "variables": ",".join(one.op.name for one in layer.weights),
    "shapes": str([one.shape.as_list() for one in (outputs, *states)]),
    "weights": str([list(one) for one in layer.canonical_weight_shapes]),
    "biases": str([list(one) for one in layer.canonical_bias_shapes]),
    "state": str(layer.state_shape(3)),
    "about": str(
      (
        layer.rnn_mode,
        layer.num_layers,
        layer.num_units,
        layer.num_dirs,
        layer.direction,
        layer.input_mode,
        layer.input_size,
        layer.scope_name,
      )
    ),
  }


def _graph_only(make):
  """1.15 builds a layer anywhere, but initializes it on a GPU only."""
  with tf.Graph().as_default():
    return _names(make())


def names_of_lstm():
  return _graph_only(
    lambda: _cudnn_rnn.CudnnLSTM(2, 3, direction="bidirectional")
  )


def names_of_gru():
  return _graph_only(lambda: _cudnn_rnn.CudnnGRU(2, 3, name="own"))


def names_of_tanh():
  return _graph_only(lambda: _cudnn_rnn.CudnnRNNTanh(1, 3))


def names_of_relu():
  return _graph_only(
    lambda: _cudnn_rnn.CudnnRNNRelu(1, 3, direction="bidirectional")
  )
