"""LSTMs over time and frequency."""

import collections
from collections.abc import Iterator, Sequence
from typing import Any

from compat.contrib.rnn.cells import (
  RNNCell,
  clipped,
  depth_of,
  sharded,
  unconverted,
)

import tensorflow as tf


def _windows(
  inputs: Any, start: int, size: int, skip: int, count: int
) -> list[Any]:
  """The features [batch, size] of `count` places, each `skip` further."""
  return [
    inputs[:, place : place + size]
    for place in range(start, start + count * skip, skip)
  ]


class TimeFreqLSTMCell(RNNCell):
  """One LSTM that goes along the frequencies in each step of time.

  Sainath and Li, "Modeling Time-Frequency Patterns with LSTM vs. Convolutional
  Architectures for LVCSR", 2016. Its variables are "W_0", "W_1", ... (the rows
  of one kernel in shards), "B", and with peepholes "W_F_diag", "W_I_diag" and
  "W_O_diag".
  """

  def __init__(
    self,
    num_units: int,
    use_peepholes: bool = False,
    cell_clip: float | None = None,
    initializer: Any = None,
    num_unit_shards: int = 1,
    forget_bias: float = 1.0,
    feature_size: int | None = None,
    frequency_skip: int = 1,
    reuse: bool | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of c and of h at one frequency.
      use_peepholes: whether the gates see the cell state.
      cell_clip: limits the cell state.
      initializer: unused, as in 1.15; kernels have the scope's initializer.
      num_unit_shards: how many variables store the kernel.
      forget_bias: added to the forget gate.
      feature_size: how many inputs one frequency has.
      frequency_skip: how far apart the frequencies' first inputs are.
      reuse: whether the variables exist already, as tf.variable_scope says it.
    """
    super().__init__(_reuse=reuse)
    del initializer
    self._num_units = num_units
    self._use_peepholes = use_peepholes
    self._cell_clip = cell_clip
    self._num_unit_shards = num_unit_shards
    self._forget_bias = forget_bias
    self._feature_size = feature_size
    self._frequency_skip = frequency_skip

  @property
  def state_size(self) -> int:
    """The size of c and h at one frequency; a state has it for each."""
    return 2 * self._num_units

  @property
  def output_size(self) -> int:
    """The size of h at one frequency; an output has it for each."""
    return self._num_units

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: c and h at each frequency in turn, as one matrix.

    Raises:
      ValueError: if there is no feature_size.
    """
    units, size = self._num_units, self._feature_size
    if size is None:
      raise ValueError("TimeFreqLSTMCell needs a feature_size.")
    count = _count_of_windows(depth_of(inputs), size, self._frequency_skip)
    windows = _windows(inputs, 0, size, self._frequency_skip, count)
    kernel, bias, peepholes = self._variables(size, inputs.dtype)
    lower = tf.zeros([tf.shape(inputs)[0], units], inputs.dtype)
    states, outputs = [], []
    for index, window in enumerate(windows):
      start = 2 * index * units
      c_before = state[:, start : start + units]
      h_before = state[:, start + units : start + 2 * units]
      joined = tf.concat([window, h_before, lower], 1)
      gates = tf.nn.bias_add(tf.matmul(joined, kernel), bias)
      c, lower = self._step(gates, c_before, peepholes)
      states += [c, lower]
      outputs.append(lower)
    return tf.concat(outputs, 1), tf.concat(states, 1)

  def _variables(self, size: int, dtype: tf.DType) -> tuple[Any, Any, Any]:
    get, units = tf.compat.v1.get_variable, self._num_units
    kernel = sharded(
      "W", [size + 2 * units, 4 * units], dtype, self._num_unit_shards
    )
    bias = get("B", [4 * units], dtype, tf.compat.v1.zeros_initializer())
    if not self._use_peepholes:
      return kernel, bias, None
    names = ("W_F_diag", "W_I_diag", "W_O_diag")
    return kernel, bias, [get(name, [units], dtype) for name in names]

  def _step(self, gates: Any, c: Any, peepholes: Any) -> tuple[Any, Any]:
    """C and h of the LSTM."""
    i, j, f, o = tf.split(gates, 4, 1)
    f += self._forget_bias
    if peepholes:
      f += peepholes[0] * c
      i += peepholes[1] * c
    c = clipped(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(j), self._cell_clip)
    if peepholes:
      o += peepholes[2] * c
    return c, tf.sigmoid(o) * tf.tanh(c)


def _count_of_windows(depth: int, size: int, skip: int) -> int:
  return int((depth - size) / skip) + 1


class GridLSTMCell(RNNCell):
  """An LSTM over time and one over frequencies, which see each other.

  Kalchbrenner et al., "Grid Long Short-Term Memory", 2015; Li et al., 2016. For
  each block of frequencies, 0, 1, ..., its variables are "W_f_0_0" (and further
  shards) and "B_f_0" of the LSTM over frequencies, "W_t_0_0" and "B_t_0" of the
  one over time, and with peepholes "W_F_diag_freqf_0", "W_F_diag_freqt_0", ...
  """

  def __init__(
    self,
    num_units: int,
    use_peepholes: bool = False,
    share_time_frequency_weights: bool = False,
    cell_clip: float | None = None,
    initializer: Any = None,
    num_unit_shards: int = 1,
    forget_bias: float = 1.0,
    feature_size: int | None = None,
    frequency_skip: int | None = None,
    num_frequency_blocks: Sequence[int] | None = None,
    start_freqindex_list: Sequence[int] | None = None,
    end_freqindex_list: Sequence[int] | None = None,
    couple_input_forget_gates: bool = False,
    state_is_tuple: bool = True,
    reuse: bool | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of c and of h at one frequency.
      use_peepholes: whether the gates see the cell states.
      share_time_frequency_weights: whether both LSTMs have the same variables.
      cell_clip: limits the cell states.
      initializer: unused, as in 1.15; kernels have the scope's initializer.
      num_unit_shards: how many variables store a kernel.
      forget_bias: added to the forget gates.
      feature_size: how many inputs one frequency has.
      frequency_skip: how far apart the frequencies' first inputs are.
      num_frequency_blocks: of each block, how many frequencies it has.
      start_freqindex_list: of each block, its first input; 0 by default.
      end_freqindex_list: of each block, the end of its inputs.
      couple_input_forget_gates: whether a forget gate is what the input gate
        leaves.
      state_is_tuple: whether the state is a named tuple; else one matrix.
      reuse: whether the variables exist already, as tf.variable_scope says it.

    Raises:
      ValueError: if there is no num_frequency_blocks.
    """
    super().__init__(_reuse=reuse)
    del initializer
    if num_frequency_blocks is None:
      raise ValueError(
        f"{type(self).__name__} needs num_frequency_blocks, such as [4]."
      )
    self._num_units = num_units
    self._use_peepholes = use_peepholes
    self._share = share_time_frequency_weights
    self._cell_clip = cell_clip
    self._num_unit_shards = num_unit_shards
    self._forget_bias = forget_bias
    self._feature_size = feature_size
    self._frequency_skip = frequency_skip
    self._blocks = list(num_frequency_blocks)
    self._starts = start_freqindex_list
    self._ends = end_freqindex_list
    self._couple = couple_input_forget_gates
    self._state_is_tuple = state_is_tuple
    self._tuple_type: Any = self._make_tuple_type() if state_is_tuple else None

  def _make_tuple_type(self) -> Any:
    names = self._names("state")
    return collections.namedtuple("GridLSTMStateTuple", names)

  def _names(self, prefix: str) -> list[str]:
    return [
      f"{prefix}_f{frequency:02d}_b{block:02d}_{part}"
      for block, count in enumerate(self._blocks)
      for frequency in range(count)
      for part in "cm"
    ]

  @property
  def state_tuple_type(self) -> Any:
    """The type of the state; None if it is one matrix."""
    return self._tuple_type

  @property
  def state_size(self) -> Any:
    """The sizes of c and h at each frequency, or their sum."""
    if self._tuple_type is None:
      return 2 * sum(self._blocks) * self._num_units
    return self._tuple_type(*[self._num_units] * len(self._tuple_type._fields))

  @property
  def output_size(self) -> int:
    """The size of h of both LSTMs at all frequencies."""
    return 2 * sum(self._blocks) * self._num_units

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: as state_size says.
    """
    if self._tuple_type is None:
      state = tf.split(state, 2 * sum(self._blocks), 1)
    states, outputs = self._run(self._features(inputs), iter(state))
    if self._tuple_type is None:
      return tf.concat(outputs, 1), tf.concat(states, 1)
    return tf.concat(outputs, 1), self._tuple_type(*states)

  def _features(self, inputs: Any, offset: int = 0) -> list[list[Any]]:
    """Of each block, of each frequency, its inputs."""
    size = self._feature_size
    skip = self._frequency_skip
    if size is None or skip is None:
      raise ValueError(
        f"{type(self).__name__} needs feature_size and frequency_skip, not "
        f"{size} and {skip}."
      )
    starts = self._starts or [0]
    ends = self._ends or [depth_of(inputs)]
    if not len(starts) == len(ends) == len(self._blocks):
      raise ValueError(
        f"num_frequency_blocks={self._blocks}, start_freqindex_list={starts} "
        f"and end_freqindex_list={ends} must be of one length."
      )
    if offset:
      inputs = tf.pad(inputs, [[0, 0], [0, offset]])
    features = []
    for start, end, count in zip(starts, ends, self._blocks, strict=True):
      found = _count_of_windows(end - start, size, skip)
      if found != count:
        raise ValueError(
          f"num_frequency_blocks has {count} frequencies for the inputs "
          f"{start} to {end}, in which there are {found} of feature_size="
          f"{size}, frequency_skip={skip}."
        )
      features.append(_windows(inputs, start + offset, size, skip, count))
    return features

  def _run(
    self, features: list[list[Any]], state: Iterator[Any]
  ) -> tuple[list[Any], list[Any]]:
    """Goes along the frequencies of each block.

    Args:
      features: of each block, of each frequency, its inputs.
      state: c and h of each.

    Returns:
      The new c and h of each, and the outputs.
    """
    states, outputs = [], []
    for block, windows in enumerate(features):
      dtype = windows[0].dtype
      zeros = tf.zeros([tf.shape(windows[0])[0], self._num_units], dtype)
      of_frequency, of_time = self._variables(block, dtype)
      c_lower = h_lower = zeros
      for window in windows:
        c_before, h_before = next(state), next(state)
        joined = tf.concat([window, h_before, h_lower], 1)
        frequency = _Gates(self, of_frequency, joined)
        time = _Gates(self, of_time, joined)
        c_new = frequency.cell(c_lower, c_lower, c_before)
        c_time = time.cell(c_before, c_lower, c_before)
        h_lower = frequency.output(c_new, c_new, c_time)
        h_time = time.output(c_time, c_new, c_time)
        c_lower = c_new
        states += [c_time, h_time]
        outputs += [h_time, h_lower]
    return states, outputs

  def _variables(self, block: int, dtype: tf.DType) -> tuple[Any, Any]:
    """The variables of the LSTMs over frequencies and over time."""
    kernels = [self._kernel(f"f_{block}", dtype)]
    if not self._share:
      kernels.append(self._kernel(f"t_{block}", dtype))
    peepholes = [
      self._peepholes(axis, block, dtype)
      for axis, _ in zip(("freq", "time"), kernels, strict=False)
    ]
    both = list(zip(kernels, peepholes, strict=True))
    return both[0], both[-1]

  def _kernel(self, name: str, dtype: tf.DType) -> tuple[Any, Any]:
    units = self._num_units
    columns = (3 if self._couple else 4) * units
    rows = (self._feature_size or 0) + 2 * units
    bias = tf.compat.v1.zeros_initializer()
    return (
      sharded(f"W_{name}", [rows, columns], dtype, self._num_unit_shards),
      tf.compat.v1.get_variable(f"B_{name}", [columns], dtype, bias),
    )

  def _peepholes(self, axis: str, block: int, dtype: tf.DType) -> Any:
    """By gate, what reads the c over frequencies and the c over time."""
    if not self._use_peepholes:
      return {}
    return {
      gate: [
        tf.compat.v1.get_variable(
          f"W_{gate}_diag_{axis}{read}_{block}", [self._num_units], dtype
        )
        for read in "ft"
      ]
      for gate in ("IO" if self._couple else "FIO")
    }


class _Gates:
  """The gates of one LSTM at one frequency."""

  def __init__(self, owner: GridLSTMCell, variables: Any, joined: Any):
    (kernel, bias), self._peepholes = variables
    self._owner = owner
    gates = tf.nn.bias_add(tf.matmul(joined, kernel), bias)
    if owner._couple:
      self._i, self._j, self._o = tf.split(gates, 3, 1)
    else:
      self._i, self._j, self._f, self._o = tf.split(gates, 4, 1)

  def cell(self, c: Any, c_frequency: Any, c_time: Any) -> Any:
    """The new cell state, of the old one and what peepholes read."""
    i = tf.sigmoid(self._seen("I", self._i, c_frequency, c_time))
    if self._owner._couple:
      f = 1 - i
    else:
      f = self._f + self._owner._forget_bias
      f = tf.sigmoid(self._seen("F", f, c_frequency, c_time))
    return clipped(f * c + i * tf.tanh(self._j), self._owner._cell_clip)

  def output(self, c: Any, c_frequency: Any, c_time: Any) -> Any:
    """The output, of the new cell state and what peepholes read."""
    o = tf.sigmoid(self._seen("O", self._o, c_frequency, c_time))
    return o * tf.tanh(c)

  def _seen(self, gate: str, value: Any, c_frequency: Any, c_time: Any) -> Any:
    if gate not in self._peepholes:
      return value
    by_frequency, by_time = self._peepholes[gate]
    return value + by_frequency * c_frequency + by_time * c_time


class BidirectionalGridLSTMCell(GridLSTMCell):
  """A GridLSTMCell up the frequencies, and one down.

  Their variables are those of GridLSTMCell, in the scopes "fwd" and "bwd".
  """

  def __init__(
    self,
    num_units: int,
    use_peepholes: bool = False,
    share_time_frequency_weights: bool = False,
    cell_clip: float | None = None,
    initializer: Any = None,
    num_unit_shards: int = 1,
    forget_bias: float = 1.0,
    feature_size: int | None = None,
    frequency_skip: int | None = None,
    num_frequency_blocks: Sequence[int] | None = None,
    start_freqindex_list: Sequence[int] | None = None,
    end_freqindex_list: Sequence[int] | None = None,
    couple_input_forget_gates: bool = False,
    backward_slice_offset: int = 0,
    reuse: bool | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of c and of h at one frequency.
      use_peepholes: whether the gates see the cell states.
      share_time_frequency_weights: whether the LSTMs over frequencies and over
        time have the same variables.
      cell_clip: limits the cell states.
      initializer: unused, as in 1.15; kernels have the scope's initializer.
      num_unit_shards: how many variables store a kernel.
      forget_bias: added to the forget gates.
      feature_size: how many inputs one frequency has.
      frequency_skip: how far apart the frequencies' first inputs are.
      num_frequency_blocks: of each block, how many frequencies it has.
      start_freqindex_list: of each block, its first input; 0 by default.
      end_freqindex_list: of each block, the end of its inputs.
      couple_input_forget_gates: whether a forget gate is what the input gate
        leaves.
      backward_slice_offset: how much further on the way down starts.
      reuse: whether the variables exist already, as tf.variable_scope says it.
    """
    super().__init__(
      num_units,
      use_peepholes,
      share_time_frequency_weights,
      cell_clip,
      initializer,
      num_unit_shards,
      forget_bias,
      feature_size,
      frequency_skip,
      num_frequency_blocks,
      start_freqindex_list,
      end_freqindex_list,
      couple_input_forget_gates,
      state_is_tuple=True,
      reuse=reuse,
    )
    self._backward_slice_offset = backward_slice_offset

  def _make_tuple_type(self) -> Any:
    names = self._names("fwd_state") + self._names("bwd_state")
    return collections.namedtuple("BidirectionalGridLSTMStateTuple", names)

  @property
  def output_size(self) -> int:
    """The size of h of all LSTMs at all frequencies."""
    return 4 * sum(self._blocks) * self._num_units

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: as state_size says.
    """
    up = self._features(inputs)
    down = [
      windows[::-1]
      for windows in self._features(inputs, self._backward_slice_offset)
    ]
    parts = iter(state)
    with tf.compat.v1.variable_scope("fwd"):
      states, outputs = self._run(up, parts)
    with tf.compat.v1.variable_scope("bwd"):
      states_down, outputs_down = self._run(down, parts)
    return (
      tf.concat(outputs + outputs_down, 1),
      self._tuple_type(*states, *states_down),
    )
