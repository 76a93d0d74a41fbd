"""Stacks of bidirectional layers, and the axes of sequences."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def transpose_batch_time(x: Any) -> Any:
  """Returns [time, batch, ...] of [batch, time, ...], or the reverse.

  Args:
    x: a tensor; one of less than two dimensions is returned as it is.
  """
  x = tf.convert_to_tensor(x)
  shape = x.shape
  if shape.rank is not None and shape.rank < 2:
    return x
  axes = tf.concat([[1, 0], tf.range(2, tf.rank(x))], 0)
  transposed = tf.transpose(x, axes)
  if shape.rank is not None:
    batch, time, *rest = shape.as_list()
    transposed.set_shape([time, batch, *rest])
  return transposed


def best_effort_input_batch_size(flat_input: Sequence[Any]) -> Any:
  """Returns the batch size of time-major inputs: a number if one is known.

  Args:
    flat_input: tensors [time, batch, ...].
  """
  for one in flat_input:
    shape = one.shape.as_list() if one.shape.rank is not None else []
    if len(shape) >= 2 and shape[1] is not None:
      return shape[1]
  return tf.shape(flat_input[0])[1]


def stack_bidirectional_rnn(
  cells_fw: Sequence[Any],
  cells_bw: Sequence[Any],
  inputs: Sequence[Any],
  initial_states_fw: Sequence[Any] | None = None,
  initial_states_bw: Sequence[Any] | None = None,
  dtype: tf.DType | None = None,
  sequence_length: Any = None,
  scope: Any = None,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
  """Runs layers of two directions, each on both outputs of the one before.

  Args:
    cells_fw: of each layer, the cell that reads forward.
    cells_bw: of each layer, the cell that reads backward.
    inputs: a list of [batch, depth].
    initial_states_fw: of each layer; zeros by default.
    initial_states_bw: of each layer; zeros by default.
    dtype: of the zeros.
    sequence_length: [batch] integers.
    scope: of the variables, "stack_bidirectional_rnn" by default.

  Returns:
    The last layer's outputs, a list of [batch, both sizes], and the forward and
    the backward states of all layers.

  Raises:
    ValueError: if the lists have not the same length, or no element.
  """
  layers = _layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
  forward, backward = [], []
  outputs = inputs
  with tf.compat.v1.variable_scope(scope or "stack_bidirectional_rnn"):
    for index, (cell_fw, cell_bw, state_fw, state_bw) in enumerate(layers):
      with tf.compat.v1.variable_scope(f"cell_{index}") as inner:
        outputs, last_fw, last_bw = tf.compat.v1.nn.static_bidirectional_rnn(
          cell_fw,
          cell_bw,
          outputs,
          state_fw,
          state_bw,
          dtype,
          sequence_length,
          scope=inner,
        )
      forward.append(last_fw)
      backward.append(last_bw)
  return outputs, tuple(forward), tuple(backward)


def stack_bidirectional_dynamic_rnn(
  cells_fw: Sequence[Any],
  cells_bw: Sequence[Any],
  inputs: Any,
  initial_states_fw: Sequence[Any] | None = None,
  initial_states_bw: Sequence[Any] | None = None,
  dtype: tf.DType | None = None,
  sequence_length: Any = None,
  parallel_iterations: int | None = None,
  time_major: bool = False,
  scope: Any = None,
  swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
  """Runs layers of two directions in loops, each on both outputs of the last.

  Args:
    cells_fw: of each layer, the cell that reads forward.
    cells_bw: of each layer, the cell that reads backward.
    inputs: [batch, time, depth].
    initial_states_fw: of each layer; zeros by default.
    initial_states_bw: of each layer; zeros by default.
    dtype: of the zeros.
    sequence_length: [batch] integers.
    parallel_iterations: as tf.nn.dynamic_rnn takes it.
    time_major: whether inputs and outputs are [time, batch, depth].
    scope: of the variables, "stack_bidirectional_rnn" by default.
    swap_memory: as tf.nn.dynamic_rnn takes it.

  Returns:
    The last layer's outputs [batch, time, both sizes], and the forward and the
    backward states of all layers.

  Raises:
    ValueError: if the lists have not the same length, or no element.
  """
  layers = _layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
  forward, backward = [], []
  outputs = inputs
  with tf.compat.v1.variable_scope(scope or "stack_bidirectional_rnn"):
    for index, (cell_fw, cell_bw, state_fw, state_bw) in enumerate(layers):
      with tf.compat.v1.variable_scope(f"cell_{index}"):
        both, (last_fw, last_bw) = tf.compat.v1.nn.bidirectional_dynamic_rnn(
          cell_fw,
          cell_bw,
          outputs,
          sequence_length,
          state_fw,
          state_bw,
          dtype,
          parallel_iterations,
          swap_memory,
          time_major,
        )
        outputs = tf.concat(both, 2)
      forward.append(last_fw)
      backward.append(last_bw)
  return outputs, tuple(forward), tuple(backward)


def _layers(
  cells_fw: Any, cells_bw: Any, states_fw: Any, states_bw: Any
) -> list[tuple[Any, Any, Any, Any]]:
  """The cells and initial states of each layer."""
  for name, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
    if not isinstance(cells, list) or not cells:
      raise ValueError(f"{name} is {cells!r}; give a list of cells.")
  count = len(cells_fw)
  lists = {
    "cells_bw": cells_bw,
    "initial_states_fw": states_fw,
    "initial_states_bw": states_bw,
  }
  for name, values in lists.items():
    if values is None:
      continue
    if not isinstance(values, list) or len(values) != count:
      raise ValueError(
        f"{name} is {values!r}; give a list of {count}, as many as cells_fw."
      )
  none = [None] * count
  return list(
    zip(cells_fw, cells_bw, states_fw or none, states_bw or none, strict=True)
  )
