"""The cells of tf.contrib.rnn."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib.rnn.python.ops import core_rnn_cell, rnn_cell

_BATCH, _TIME, _SIZE = 3, 4, 2
_RANDOM = np.random.RandomState(5)
_X = _RANDOM.normal(size=(_BATCH, _TIME, _SIZE)).astype(np.float32)
_WIDE = _RANDOM.normal(size=(_BATCH, _TIME, 4)).astype(np.float32)
_LENGTHS = np.array([4, 2, 0], np.int32)
_rnn = tf.contrib.rnn


def _named(outputs, state):
  found = {"outputs": outputs}
  for at, part in enumerate(tf.contrib.framework.nest.flatten(state)):
    found["state_%d" % at] = part
  return found


def _sizes(cell):
  sizes = tf.contrib.framework.nest.flatten((cell.state_size, cell.output_size))
  return str([tf.TensorShape(one).as_list() for one in sizes])


def _looped(cell, inputs=_X, dtype=tf.float32, batch=None, **arguments):
  shape = [batch, None, *inputs.shape[2:]]
  fed = tf.placeholder_with_default(inputs.astype(dtype.as_numpy_dtype), shape)
  arguments.setdefault("sequence_length", _LENGTHS)
  found = _named(*tf.nn.dynamic_rnn(cell, fed, dtype=dtype, **arguments))
  found["sizes"] = _sizes(cell)
  return found


def _unrolled(cell, inputs=_X, **arguments):
  fed = tf.placeholder_with_default(inputs, inputs.shape)
  outputs, state = tf.nn.static_rnn(
    cell, tf.unstack(fed, axis=1), dtype=tf.float32, **arguments
  )
  return _named(tf.stack(outputs), state)


# LSTMs.


def coupled():
  return _looped(_rnn.CoupledInputForgetGateLSTMCell(3))


def coupled_arguments():
  cell = _rnn.CoupledInputForgetGateLSTMCell(
    4,
    use_peepholes=True,
    initializer=tf.random_normal_initializer(stddev=0.3),
    num_proj=3,
    proj_clip=0.2,
    num_unit_shards=2,
    num_proj_shards=3,
    forget_bias=0.5,
    state_is_tuple=False,
    activation=tf.nn.elu,
    layer_norm=True,
    norm_gain=0.7,
    norm_shift=0.1,
  )
  return _looped(cell)


def layer_norm_arguments():
  cell = _rnn.LayerNormBasicLSTMCell(
    3,
    forget_bias=0.3,
    activation=tf.nn.relu,
    norm_gain=0.8,
    norm_shift=0.2,
    dropout_keep_prob=0.6,
    dropout_prob_seed=3,
  )
  # Side by side steps draw in any order.
  return _looped(cell, parallel_iterations=1)


def layer_norm_dropout_fed():
  keep = tf.placeholder_with_default(np.float32(0.5), [])
  cell = _rnn.LayerNormBasicLSTMCell(3, dropout_keep_prob=keep)
  return _unrolled(cell, inputs=_X[:, :1])


def layer_norm_without():
  return _looped(_rnn.LayerNormBasicLSTMCell(3, layer_norm=False))


def layer_norm_stack():
  cells = [_rnn.LayerNormBasicLSTMCell(size) for size in (3, 4)]
  return _unrolled(_rnn.MultiRNNCell(cells), sequence_length=_LENGTHS)


def weight_norm():
  return _looped(rnn_cell.WeightNormLSTMCell(3, num_proj=2))


def weight_norm_arguments():
  cell = rnn_cell.WeightNormLSTMCell(
    3,
    norm=False,
    use_peepholes=True,
    cell_clip=0.3,
    initializer=tf.random_uniform_initializer(-0.3, 0.3),
    num_proj=2,
    proj_clip=0.1,
    forget_bias=0.5,
    activation=tf.nn.relu,
  )
  return _looped(cell)


def groups():
  return _looped(_rnn.GLSTMCell(4, number_of_groups=2))


def groups_arguments():
  cell = _rnn.GLSTMCell(
    4,
    initializer=tf.random_uniform_initializer(-0.3, 0.3),
    num_proj=6,
    number_of_groups=2,
    forget_bias=0.5,
    activation=tf.nn.relu,
  )
  return _unrolled(cell, inputs=_WIDE)


def phased():
  times = np.arange(12).reshape(_BATCH, _TIME, 1)
  inputs = tuple(
    tf.placeholder_with_default(one, one.shape)
    for one in (times.astype(np.float32), _X)
  )
  outputs, state = tf.nn.dynamic_rnn(
    _rnn.PhasedLSTMCell(3), inputs, dtype=tf.float32
  )
  return _named(outputs, state)


# Other gates.


def ugrnn_arguments():
  cell = _rnn.UGRNNCell(3, tf.ones_initializer(), 0.5, tf.nn.relu)
  return _unrolled(cell)


def intersection():
  return _looped(_rnn.IntersectionRNNCell(4), _WIDE)


def intersection_projected():
  cell = _rnn.IntersectionRNNCell(
    3,
    num_in_proj=3,
    initializer=tf.random_uniform_initializer(-0.3, 0.3),
    forget_bias=0.5,
    y_activation=tf.tanh,
  )
  return _looped(cell)


def sru_arguments():
  cell = _rnn.SRUCell(4, tf.nn.relu, name="simple")
  return _looped(cell, _WIDE)


def minimal():
  return _looped(rnn_cell.MinimalRNNCell(3))


def minimal_arguments():
  cell = rnn_cell.MinimalRNNCell(
    3,
    activation=tf.nn.relu,
    kernel_initializer=tf.random_uniform_initializer(-0.3, 0.3),
    bias_initializer="zeros",
    name="least",
  )
  return _looped(cell)


def nas():
  return _looped(_rnn.NASCell(3))


def nas_arguments():
  cell = _rnn.NASCell(3, num_proj=2, use_bias=True, name="found")
  return _looped(cell)


def independent_arguments():
  return _looped(_rnn.IndRNNCell(3, tf.nn.relu, name="alone"))


def independent_gru_arguments():
  cell = _rnn.IndyGRUCell(
    3,
    activation=tf.nn.relu,
    kernel_initializer=tf.random_uniform_initializer(-0.3, 0.3),
    bias_initializer=tf.constant_initializer(0.2),
  )
  return _looped(cell)


def independent_lstm_arguments():
  cell = _rnn.IndyLSTMCell(
    3,
    forget_bias=0.5,
    activation=tf.nn.relu,
    kernel_initializer=tf.random_uniform_initializer(-0.3, 0.3),
    bias_initializer=tf.constant_initializer(0.2),
  )
  return _unrolled(cell)


# Images, frequencies, memory.


def _images(*shape):
  values = np.random.RandomState(6).normal(size=(2, 3, *shape))
  return values.astype(np.float32)


def _convolved(cell, *shape):
  fed = tf.placeholder_with_default(_images(*shape), (2, 3, *shape))
  return _named(*tf.nn.dynamic_rnn(cell, fed, dtype=tf.float32))


def convolved_1d():
  cell = _rnn.Conv1DLSTMCell(
    input_shape=[5, 2], output_channels=3, kernel_shape=[3]
  )
  return _convolved(cell, 5, 2)


def convolved_2d():
  cell = _rnn.Conv2DLSTMCell(
    input_shape=[4, 5, 2],
    output_channels=3,
    kernel_shape=[3, 2],
    use_bias=False,
    forget_bias=0.5,
    initializers=tf.ones_initializer(),
  )
  return _convolved(cell, 4, 5, 2)


def convolved_and_skipped():
  cell = _rnn.Conv2DLSTMCell(
    input_shape=[4, 5, 2],
    output_channels=3,
    kernel_shape=[3, 2],
    skip_connection=True,
  )
  step = tf.placeholder_with_default(_images(4, 5, 2)[:, 0], [2, 4, 5, 2])
  found = _named(*cell(step, cell.zero_state(2, tf.float32)))
  found["sizes"] = _sizes(cell)
  return found


def convolved_3d():
  cell = _rnn.Conv3DLSTMCell(
    input_shape=[3, 4, 2, 2], output_channels=2, kernel_shape=[3, 2, 1]
  )
  return _convolved(cell, 3, 4, 2, 2)


def convolved():
  cell = _rnn.ConvLSTMCell(2, [4, 5, 2], 3, [3, 3], name="own")
  return _convolved(cell, 4, 5, 2)


def time_and_frequency():
  cell = _rnn.TimeFreqLSTMCell(
    3,
    use_peepholes=True,
    cell_clip=0.2,
    initializer=tf.random_uniform_initializer(-0.3, 0.3),
    feature_size=2,
    frequency_skip=2,
    forget_bias=0.5,
  )
  state = tf.placeholder_with_default(
    np.linspace(-1, 1, 36).reshape(3, 12).astype(np.float32), [3, 12]
  )
  return _named(*cell(tf.constant(_WIDE[:, 0]), state))


def time_and_one_frequency():
  cell = _rnn.TimeFreqLSTMCell(4, feature_size=4, num_unit_shards=2)
  return _unrolled(cell, _WIDE)


def grid_arguments():
  cell = _rnn.GridLSTMCell(
    3,
    use_peepholes=True,
    cell_clip=0.2,
    initializer=tf.random_uniform_initializer(-0.3, 0.3),
    num_unit_shards=2,
    forget_bias=0.5,
    feature_size=2,
    frequency_skip=1,
    num_frequency_blocks=[1, 2],
    start_freqindex_list=[0, 1],
    end_freqindex_list=[2, 4],
  )
  return _unrolled(cell, _WIDE)


def grid_shared():
  cell = _rnn.GridLSTMCell(
    3,
    use_peepholes=True,
    share_time_frequency_weights=True,
    feature_size=2,
    frequency_skip=2,
    num_frequency_blocks=[2],
    state_is_tuple=False,
  )
  return _unrolled(cell, _WIDE)


def grid_coupled():
  cell = _rnn.GridLSTMCell(
    3,
    use_peepholes=True,
    feature_size=2,
    frequency_skip=2,
    num_frequency_blocks=[2],
    couple_input_forget_gates=True,
  )
  found = _unrolled(cell, _WIDE)
  found["fields"] = ",".join(cell.state_tuple_type._fields)
  return found


def grid_bidirectional():
  cell = _rnn.BidirectionalGridLSTMCell(
    2,
    feature_size=2,
    frequency_skip=1,
    num_frequency_blocks=[3],
    backward_slice_offset=1,
  )
  found = _unrolled(cell, _WIDE)
  found["fields"] = ",".join(cell.state_tuple_type._fields)
  return found


def attention():
  return _looped(_rnn.AttentionCellWrapper(_rnn.LSTMCell(3), 2))


def attention_arguments():
  cell = _rnn.AttentionCellWrapper(
    _rnn.GRUCell(3),
    attn_length=3,
    attn_size=2,
    attn_vec_size=5,
    input_size=4,
    state_is_tuple=False,
  )
  # Attention of some size: gradients of a smaller one are rounding.
  large = tf.random_uniform_initializer(-1.0, 1.0)
  with tf.variable_scope(tf.get_variable_scope(), initializer=large):
    return _looped(cell)


def embedding():
  words = np.array([[1, 3, 0, 2], [2, 2, 1, 1], [0, 0, 0, 0]], np.int64)
  cell = _rnn.EmbeddingWrapper(_rnn.LSTMCell(3), 4, 5)
  fed = tf.placeholder_with_default(words[:, :, np.newaxis], [3, 4, 1])
  return _named(*tf.nn.dynamic_rnn(cell, fed, dtype=tf.float32))


def embedding_initializer():
  cell = _rnn.EmbeddingWrapper(
    _rnn.GRUCell(3), 4, 5, tf.random_normal_initializer(stddev=0.1)
  )
  state = cell.zero_state(3, tf.float32)
  initializer = tf.random_uniform_initializer(-0.4, 0.4)
  with tf.variable_scope("step", initializer=initializer):
    return _named(*cell(tf.constant([3, 0, 1]), state))


def embedding_of_the_scope():
  cell = _rnn.EmbeddingWrapper(_rnn.GRUCell(3), 4, 5)
  state = cell.zero_state(3, tf.float32)
  initializer = tf.random_uniform_initializer(-0.4, 0.4)
  with tf.variable_scope("step", initializer=initializer):
    return _named(*cell(tf.constant([3, 0, 1]), state))


def input_projection():
  return _looped(_rnn.InputProjectionWrapper(_rnn.GRUCell(3), 4))


def input_projection_activation():
  cell = _rnn.InputProjectionWrapper(_rnn.LSTMCell(3), 4, tf.nn.relu)
  return _looped(cell)


def output_projection_activation():
  cell = _rnn.OutputProjectionWrapper(_rnn.LSTMCell(3), 4, tf.nn.relu)
  return _looped(cell)


def highway():
  return _looped(_rnn.HighwayWrapper(_rnn.GRUCell(4)), _WIDE)


def highway_uncoupled():
  cell = _rnn.HighwayWrapper(
    _rnn.LSTMCell(4),
    couple_carry_transform_gates=False,
    carry_bias_init=0.5,
  )
  return _unrolled(cell, _WIDE)


def compiled():
  cell = _rnn.CompiledWrapper(_rnn.LSTMCell(3))
  return _unrolled(cell)


def linear_of_programs():
  fed = tf.placeholder_with_default(_X[:, 0], [None, _SIZE])
  with tf.variable_scope("one"):
    first = core_rnn_cell._linear([fed, fed * 2], 3, True)
  with tf.variable_scope("two"):
    made = core_rnn_cell._Linear(
      [first], 4, True, tf.constant_initializer(0.2), tf.ones_initializer()
    )
    return {"first": first, "once": made([first]), "twice": made([first * 2])}
