"""LSTMs with other gates, norms or kernels."""

from collections.abc import Callable
from typing import Any

from compat.contrib.rnn.cells import (
  LSTMStateTuple,
  RNNCell,
  clipped,
  depth_of,
  layer_norm,
  linear,
  lstm_sizes,
  pack_lstm,
  sharded,
  unconverted,
  unpack_lstm,
)

import tensorflow as tf


class CoupledInputForgetGateLSTMCell(RNNCell):
  """An LSTM whose input gate is what its forget gate leaves.

  Greff et al., "LSTM: A Search Space Odyssey", 2015. Its variables are "W_0",
  "W_1", ... (the rows of one kernel in shards) and "B".
  """

  def __init__(
    self,
    num_units: int,
    use_peepholes: bool = False,
    initializer: Any = None,
    num_proj: int | None = None,
    proj_clip: float | None = None,
    num_unit_shards: int = 1,
    num_proj_shards: int = 1,
    forget_bias: float = 1.0,
    state_is_tuple: bool = True,
    activation: Callable[..., Any] = tf.tanh,
    reuse: bool | None = None,
    layer_norm: bool = False,
    norm_gain: float = 1.0,
    norm_shift: float = 0.0,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the cell state.
      use_peepholes: whether the gates see the cell state.
      initializer: unused, as in 1.15; kernels have the scope's initializer.
      num_proj: the size of the output, if it is projected.
      proj_clip: limits the projected output.
      num_unit_shards: how many variables store the kernel.
      num_proj_shards: how many variables store the projection.
      forget_bias: added to the forget gate.
      state_is_tuple: whether the state is (c, h); else one matrix.
      activation: of input and output.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      layer_norm: whether gates and state are normalized.
      norm_gain: the first value of the norms' gamma.
      norm_shift: the first value of the norms' beta.
    """
    super().__init__(_reuse=reuse)
    del initializer
    self._num_units = num_units
    self._use_peepholes = use_peepholes
    self._num_proj = num_proj
    self._proj_clip = proj_clip
    self._num_unit_shards = num_unit_shards
    self._num_proj_shards = num_proj_shards
    self._forget_bias = forget_bias
    self._state_is_tuple = state_is_tuple
    self._activation = activation
    self._layer_norm = layer_norm
    self._norm_gain = norm_gain
    self._norm_shift = norm_shift

  @property
  def state_size(self) -> Any:
    """The sizes of c and h, or their sum."""
    return lstm_sizes(self._num_units, self.output_size, self._state_is_tuple)

  @property
  def output_size(self) -> int:
    """The size of h."""
    return self._num_proj or self._num_units

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: (c, h), or both as one matrix.
    """
    units, dtype = self._num_units, inputs.dtype
    c_before, h_before = unpack_lstm(state, units, self._state_is_tuple)
    rows = depth_of(inputs) + self.output_size
    kernel = sharded("W", [rows, 3 * units], dtype, self._num_unit_shards)
    bias = tf.compat.v1.get_variable(
      "B", [3 * units], dtype, tf.compat.v1.zeros_initializer()
    )
    gates = tf.matmul(tf.concat([inputs, h_before], 1), kernel)
    if not self._layer_norm:
      gates = tf.nn.bias_add(gates, bias)
    j, f, o = (
      self._norm(gate, scope)
      for gate, scope in zip(
        tf.split(gates, 3, 1), ("transform", "forget", "output"), strict=True
      )
    )
    f += self._forget_bias
    if self._use_peepholes:
      get = tf.compat.v1.get_variable
      by_forget = get("W_F_diag", [units], dtype)
      by_output = get("W_O_diag", [units], dtype)
      f += by_forget * c_before
    f = tf.sigmoid(f)
    c = self._norm(f * c_before + (1 - f) * self._activation(j), "state")
    if self._use_peepholes:
      o += by_output * c
    h = tf.sigmoid(o) * self._activation(c)
    if self._num_proj is not None:
      projection = sharded(
        "W_P", [units, self._num_proj], dtype, self._num_proj_shards
      )
      h = clipped(tf.matmul(h, projection), self._proj_clip)
    return h, pack_lstm(c, h, self._state_is_tuple)

  def _norm(self, gate: Any, scope: str) -> Any:
    if not self._layer_norm:
      return gate
    return layer_norm(gate, scope, self._norm_gain, self._norm_shift)


class LayerNormBasicLSTMCell(RNNCell):
  """An LSTM with layer normalization and dropout of what it takes in.

  Ba et al., "Layer Normalization", 2016; Semeniuta et al., "Recurrent Dropout
  without Memory Loss", 2016. Its variables are "kernel", a "gamma" and a "beta"
  each in "input", "transform", "forget", "output" and "state", or without norms
  "kernel" and "bias".
  """

  def __init__(
    self,
    num_units: int,
    forget_bias: float = 1.0,
    input_size: int | None = None,
    activation: Callable[..., Any] = tf.tanh,
    layer_norm: bool = True,
    norm_gain: float = 1.0,
    norm_shift: float = 0.0,
    dropout_keep_prob: Any = 1.0,
    dropout_prob_seed: int | None = None,
    reuse: bool | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      forget_bias: added to the forget gate.
      input_size: unused; the inputs say it.
      activation: of input and output.
      layer_norm: whether gates and state are normalized.
      norm_gain: the first value of the norms' gamma.
      norm_shift: the first value of the norms' beta.
      dropout_keep_prob: the share of candidate values that are kept, a number
        or a tensor.
      dropout_prob_seed: of the dropout.
      reuse: whether the variables exist already, as tf.variable_scope says it.
    """
    super().__init__(_reuse=reuse)
    del input_size
    self._num_units = num_units
    self._forget_bias = forget_bias
    self._activation = activation
    self._layer_norm = layer_norm
    self._norm_gain = norm_gain
    self._norm_shift = norm_shift
    self._keep_prob = dropout_keep_prob
    self._seed = dropout_prob_seed

  @property
  def state_size(self) -> Any:
    """The sizes of c and h."""
    return LSTMStateTuple(self._num_units, self._num_units)

  @property
  def output_size(self) -> int:
    """The size of h."""
    return self._num_units

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: (c, h), each [batch, num_units].
    """
    c, h = state
    gates = self._gates(tf.concat([inputs, h], 1))
    i, j, f, o = (
      self._norm(gate, scope)
      for gate, scope in zip(
        tf.split(gates, 4, 1),
        ("input", "transform", "forget", "output"),
        strict=True,
      )
    )
    j = self._activation(j)
    if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
      j = tf.compat.v1.nn.dropout(j, rate=1 - self._keep_prob, seed=self._seed)
    c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * j
    c = self._norm(c, "state")
    h = self._activation(c) * tf.sigmoid(o)
    return h, LSTMStateTuple(c, h)

  def _gates(self, joined: Any) -> Any:
    get, dtype = tf.compat.v1.get_variable, joined.dtype
    columns = 4 * self._num_units
    gates = tf.matmul(joined, get("kernel", [depth_of(joined), columns], dtype))
    if self._layer_norm:
      return gates
    # The bias has the scope's initializer, as the kernel.
    return tf.nn.bias_add(gates, get("bias", [columns], dtype))

  def _norm(self, gate: Any, scope: str) -> Any:
    if not self._layer_norm:
      return gate
    return layer_norm(gate, scope, self._norm_gain, self._norm_shift)


class WeightNormLSTMCell(RNNCell):
  """An LSTM whose kernels have columns of a learned length.

  Salimans and Kingma, "Weight Normalization", 2016. Its variables are "kernel",
  "norm_0" (of the inputs' rows), "norm_1" (of the state's) and "bias", in the
  scope "wn_lstm_cell".
  """

  def __init__(
    self,
    num_units: int,
    norm: bool = True,
    use_peepholes: bool = False,
    cell_clip: float | None = None,
    initializer: Any = None,
    num_proj: int | None = None,
    proj_clip: float | None = None,
    forget_bias: float = 1,
    activation: Callable[..., Any] | None = None,
    reuse: bool | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the cell state.
      norm: whether kernels are normalized.
      use_peepholes: whether the gates see the cell state.
      cell_clip: limits the cell state.
      initializer: of kernels, norms and peepholes; the scope's by default.
      num_proj: the size of the output, if it is projected.
      proj_clip: limits the projected output.
      forget_bias: added to the forget gate.
      activation: of input and output, tanh by default.
      reuse: whether the variables exist already, as tf.variable_scope says it.
    """
    super().__init__(_reuse=reuse, name="wn_lstm_cell")
    self._scope_name = "wn_lstm_cell"
    self._num_units = num_units
    self._norm_kernels = norm
    self._use_peepholes = use_peepholes
    self._cell_clip = cell_clip
    self._initializer = initializer
    self._num_proj = num_proj
    self._proj_clip = proj_clip
    self._forget_bias = forget_bias
    self._activation = activation or tf.tanh

  @property
  def state_size(self) -> Any:
    """The sizes of c and h."""
    return LSTMStateTuple(self._num_units, self.output_size)

  @property
  def output_size(self) -> int:
    """The size of h."""
    return self._num_proj or self._num_units

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: (c, h).
    """
    c_before, h_before = state
    units, dtype = self._num_units, inputs.dtype
    with tf.compat.v1.variable_scope(
      self._scope_name, initializer=self._initializer
    ):
      gates = self._linear([inputs, h_before], 4 * units, bias=True)
      i, j, f, o = tf.split(gates, 4, 1)
      f += self._forget_bias
      if self._use_peepholes:
        get = tf.compat.v1.get_variable
        by_forget, by_input, by_output = (
          get(name, [units], dtype)
          for name in ("w_f_diag", "w_i_diag", "w_o_diag")
        )
        f += by_forget * c_before
        i += by_input * c_before
      c = c_before * tf.sigmoid(f) + tf.sigmoid(i) * self._activation(j)
      c = clipped(c, self._cell_clip)
      if self._use_peepholes:
        o += by_output * c
      h = tf.sigmoid(o) * self._activation(c)
      if self._num_proj is not None:
        with tf.compat.v1.variable_scope("projection"):
          h = self._linear([h], self._num_proj, bias=False)
        h = clipped(h, self._proj_clip)
    return h, LSTMStateTuple(c, h)

  def _linear(self, parts: list[Any], size: int, bias: bool) -> Any:
    """[parts] kernel + bias, each part's rows of the kernel normalized."""
    get, dtype = tf.compat.v1.get_variable, parts[0].dtype
    depths = [depth_of(part) for part in parts]
    kernel = get("kernel", [sum(depths), size], dtype)
    if self._norm_kernels:
      blocks = [
        get(f"norm_{index}", [size], dtype) * tf.nn.l2_normalize(rows, 0)
        for index, rows in enumerate(tf.split(kernel, depths, 0))
      ]
      kernel = tf.concat(blocks, 0)
    product = tf.matmul(tf.concat(parts, 1), kernel)
    if not bias:
      return product
    zeros = tf.compat.v1.zeros_initializer()
    return tf.nn.bias_add(product, get("bias", [size], dtype, zeros))


class GLSTMCell(RNNCell):
  """An LSTM of groups of units, each with a part of inputs and state.

  Kuchaiev and Ginsburg, "Factorization tricks for LSTM networks", 2017. Its
  variables are "group0/kernel", "group1/kernel", ..., and "bias_i", "bias_j",
  "bias_f" and "bias_o" of all groups.
  """

  def __init__(
    self,
    num_units: int,
    initializer: Any = None,
    num_proj: int | None = None,
    number_of_groups: int = 1,
    forget_bias: float = 1.0,
    activation: Callable[..., Any] = tf.tanh,
    reuse: bool | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the cell state.
      initializer: of the groups' kernels; the scope's by default.
      num_proj: the size of the output, if it is projected.
      number_of_groups: divides num_units, num_proj and the inputs' depth.
      forget_bias: added to the forget gate.
      activation: of the output; that of the input is tanh.
      reuse: whether the variables exist already, as tf.variable_scope says it.

    Raises:
      ValueError: if the groups do not divide a size.
    """
    super().__init__(_reuse=reuse)
    self._num_units = num_units
    self._initializer = initializer
    self._num_proj = num_proj
    self._groups = number_of_groups
    self._forget_bias = forget_bias
    self._activation = activation
    self._divide("num_units", num_units)
    if num_proj is not None:
      self._divide("num_proj", num_proj)

  def _divide(self, name: str, size: int) -> int:
    each, rest = divmod(size, self._groups)
    if rest:
      raise ValueError(
        f"{name} ({size}) must be divisible by number_of_groups "
        f"({self._groups})."
      )
    return each

  @property
  def state_size(self) -> Any:
    """The sizes of c and h."""
    return LSTMStateTuple(self._num_units, self.output_size)

  @property
  def output_size(self) -> int:
    """The size of h."""
    return self._num_proj or self._num_units

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: (c, h).

    Raises:
      ValueError: if the groups do not divide the depth.
    """
    c, h = state
    self._divide("the inputs' depth", depth_of(inputs))
    i, j, f, o = self._gates(inputs, h)
    c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
    h = tf.sigmoid(o) * self._activation(c)
    if self._num_proj is not None:
      with tf.compat.v1.variable_scope("projection"):
        h = linear([h], self._num_proj, bias=False)
    return h, LSTMStateTuple(c, h)

  def _gates(self, inputs: Any, h: Any) -> list[Any]:
    columns = 4 * self._num_units // self._groups
    groups = []
    parts = zip(
      tf.split(inputs, self._groups, 1),
      tf.split(h, self._groups, 1),
      strict=True,
    )
    for group, both in enumerate(parts):
      with tf.compat.v1.variable_scope(f"group{group}"):
        gates = linear(
          both,
          columns,
          bias=False,
          kernel_initializer=self._initializer,
        )
      groups.append(tf.split(gates, 4, 1))
    zeros = tf.compat.v1.zeros_initializer()
    return [
      tf.nn.bias_add(
        tf.concat([gates[index] for gates in groups], 1),
        tf.compat.v1.get_variable(
          f"bias_{name}", [self._num_units], inputs.dtype, zeros
        ),
      )
      for index, name in enumerate("ijfo")
    ]
