"""A cell that attends to its own last outputs."""

from typing import Any

from compat.contrib.rnn.cells import (
  RNNCell,
  check_is_cell,
  depth_of,
  linear,
  unconverted,
)

import tensorflow as tf


class AttentionCellWrapper(RNNCell):
  """Puts attention over the last outputs before and behind a cell.

  Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and
  Translate", 2014. Its variables are "kernel" and "bias" of what the cell gets;
  "attention/attn_w", "attention/attn_v", "attention/kernel" and
  "attention/bias"; and those of the scope "attn_output_projection".
  """

  def __init__(
    self,
    cell: Any,
    attn_length: int,
    attn_size: int | None = None,
    attn_vec_size: int | None = None,
    input_size: int | None = None,
    state_is_tuple: bool = True,
    reuse: bool | None = None,
  ):
    """Makes the wrapper.

    Args:
      cell: an RNNCell.
      attn_length: how many outputs are attended to.
      attn_size: the size of an output; the cell's by default.
      attn_vec_size: the size of the hidden layer; attn_size by default.
      input_size: what the cell gets; the inputs' depth by default.
      state_is_tuple: whether the state is (the cell's, attention, outputs);
        else one matrix.
      reuse: whether the variables exist already, as tf.variable_scope says it.

    Raises:
      TypeError: if the cell is no RNNCell.
      ValueError: if the length is not positive, or the cell's state is a tuple
        and the wrapper's shall be none.
    """
    super().__init__(_reuse=reuse)
    check_is_cell(cell)
    if tf.nest.is_nested(cell.state_size) and not state_is_tuple:
      raise ValueError(
        f"the cell's state has the sizes {cell.state_size}; with "
        "state_is_tuple=False it has to be one matrix."
      )
    if attn_length <= 0:
      raise ValueError(f"attn_length={attn_length} must be at least 1.")
    self._cell = cell
    self._attn_length = attn_length
    self._attn_size = cell.output_size if attn_size is None else attn_size
    self._attn_vec_size = (
      self._attn_size if attn_vec_size is None else attn_vec_size
    )
    self._input_size = input_size
    self._state_is_tuple = state_is_tuple

  @property
  def state_size(self) -> Any:
    """The sizes of the cell's state, the attention and the outputs."""
    sizes = (
      self._cell.state_size,
      self._attn_size,
      self._attn_size * self._attn_length,
    )
    return sizes if self._state_is_tuple else sum(sizes)

  @property
  def output_size(self) -> int:
    """The size of the output."""
    return int(self._attn_size)

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: as state_size says.
    """
    length, size = self._attn_length, self._attn_size
    if not self._state_is_tuple:
      parts = [self._cell.state_size, size, size * length]
      state = tf.split(state, parts, 1)
    cell_state, attention, memory = state
    memory = tf.reshape(memory, [-1, length, size])
    seen = linear([inputs, attention], self._input_size or depth_of(inputs))
    outputs, cell_state = self._cell(seen, cell_state)
    attention = self._attention(tf.nest.flatten(cell_state), memory)
    with tf.compat.v1.variable_scope("attn_output_projection"):
      outputs = linear([outputs, attention], size)
    memory = tf.concat([memory[:, 1:], outputs[:, tf.newaxis]], 1)
    state = (cell_state, attention, tf.reshape(memory, [-1, size * length]))
    return outputs, state if self._state_is_tuple else tf.concat(state, 1)

  def _attention(self, query: list[Any], memory: Any) -> Any:
    """The mean of the memory [batch, length, size], weighted by a query."""
    size, hidden = self._attn_size, self._attn_vec_size
    get, dtype = tf.compat.v1.get_variable, memory.dtype
    with tf.compat.v1.variable_scope("attention"):
      weights = get("attn_w", [1, 1, size, hidden], dtype)
      vector = get("attn_v", [hidden], dtype)
      keys = tf.tensordot(memory, weights[0, 0], 1)
      asked = linear(query, hidden)[:, tf.newaxis]
      scores = tf.reduce_sum(vector * tf.tanh(keys + asked), 2)
      shares = tf.nn.softmax(scores)[:, :, tf.newaxis]
      mean = tf.reduce_sum(shares * memory, 1)
    return tf.reshape(mean, [-1, size])
