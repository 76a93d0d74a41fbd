"""Decoding step by step: Decoder and dynamic_decode."""

import abc
import contextlib
from typing import Any

from compat.private import graph_reads

import tensorflow as tf


class Decoder(abc.ABC):
  """A decoder for dynamic_decode: an input and a state give an output."""

  @property
  def batch_size(self) -> Any:
    """The number of sequences."""
    raise NotImplementedError

  @property
  def output_size(self) -> Any:
    """The shapes of an output without the batch, in its structure."""
    raise NotImplementedError

  @property
  def output_dtype(self) -> Any:
    """The dtypes of an output, in its structure."""
    raise NotImplementedError

  @abc.abstractmethod
  def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
    """Returns (finished, first inputs, initial state).

    Args:
      name: of the operations.
    """

  @abc.abstractmethod
  def step(
    self, time: Any, inputs: Any, state: Any, name: str | None = None
  ) -> tuple[Any, Any, Any, Any]:
    """Returns (outputs, next state, next inputs, finished).

    Args:
      time: the number of the step, a scalar.
      inputs: of the step.
      state: before it.
      name: of the operations.
    """

  def finalize(
    self, outputs: Any, final_state: Any, sequence_lengths: Any
  ) -> tuple[Any, Any]:
    """Returns what dynamic_decode gives as (outputs, state).

    Args:
      outputs: of all steps [time, batch, ...].
      final_state: after the last step.
      sequence_lengths: of the sequences.

    Raises:
      NotImplementedError: if the decoder leaves them as they are.
    """
    raise NotImplementedError

  @property
  def tracks_own_finished(self) -> bool:
    """Whether a sequence that is finished may go on again, as beams do."""
    return False


def dynamic_decode(
  decoder: Any,
  output_time_major: bool = False,
  impute_finished: bool = False,
  maximum_iterations: Any = None,
  parallel_iterations: int = 32,
  swap_memory: bool = False,
  scope: Any = None,
  **kwargs: Any,
) -> tuple[Any, Any, Any]:
  """Runs a decoder until all sequences are finished.

  Args:
    decoder: a Decoder.
    output_time_major: whether outputs are [time, batch, ...], instead of
      [batch, time, ...].
    impute_finished: whether a finished sequence keeps its state and gives
      zeros.
    maximum_iterations: the largest number of steps; no limit by default.
    parallel_iterations: of tf.while_loop.
    swap_memory: of tf.while_loop.
    scope: of the variables; "decoder" by default.
    **kwargs: none; 1.15 took them for decoders that it had not made public.

  Returns:
    The outputs, the last state, and the lengths of the sequences.

  Raises:
    TypeError: if the decoder is no Decoder, or takes more arguments.
    ValueError: if maximum_iterations is no scalar.
  """
  if not isinstance(decoder, Decoder):
    raise TypeError(f"decoder={decoder!r} must be a Decoder.")
  if kwargs:
    raise TypeError(f"dynamic_decode takes no argument {', '.join(kwargs)}.")
  with tf.compat.v1.variable_scope(scope, "decoder") as variable_scope:
    _cache_reads(variable_scope)
    limit = _limit(maximum_iterations)
    finished, inputs, state = decoder.initialize()
    if limit is not None:
      finished = tf.logical_or(finished, limit <= 0)
    loop = _Loop(decoder, impute_finished)
    outcome = tf.compat.v1.while_loop(
      lambda time, outputs, state, inputs, finished, lengths: tf.logical_not(
        tf.reduce_all(finished)
      ),
      loop.step,
      (
        tf.constant(0),
        loop.no_outputs(),
        state,
        inputs,
        finished,
        tf.zeros_like(finished, tf.int32),
      ),
      parallel_iterations=parallel_iterations,
      maximum_iterations=limit,
      swap_memory=swap_memory,
    )
    _, arrays, final_state, _, _, lengths = outcome
    outputs = tf.nest.map_structure(lambda array: array.stack(), arrays)
    with contextlib.suppress(NotImplementedError):
      outputs, final_state = decoder.finalize(outputs, final_state, lengths)
    if not output_time_major:
      outputs = tf.nest.map_structure(transpose_batch_time, outputs)
  return outputs, final_state, lengths


def _cache_reads(variable_scope: Any) -> None:
  """Lets the steps share one read of each variable."""
  if tf.executing_eagerly() or variable_scope.caching_device is not None:
    return
  if graph_reads.outermost_loop(tf.no_op()) is None:
    variable_scope.set_caching_device(lambda op: op.device)


def _limit(maximum_iterations: Any) -> Any:
  if maximum_iterations is None:
    return None
  limit = tf.convert_to_tensor(maximum_iterations, tf.int32)
  if limit.shape.rank != 0:
    raise ValueError(
      f"maximum_iterations has the shape {limit.shape}; it must be a scalar."
    )
  return limit


class _Loop:
  """The body of the loop."""

  def __init__(self, decoder: Any, impute_finished: bool):
    self._decoder = decoder
    self._impute_finished = impute_finished
    if impute_finished:
      batch_size = decoder.batch_size
      self._zeros = tf.nest.map_structure(
        lambda size, dtype: tf.zeros(
          tf.concat([[batch_size], _dimensions(size)], 0), dtype
        ),
        decoder.output_size,
        decoder.output_dtype,
      )

  def no_outputs(self) -> Any:
    """The arrays that outputs are written to."""
    batch_size = tf.get_static_value(self._decoder.batch_size)

    def array(size: Any, dtype: Any) -> Any:
      shape = None
      if isinstance(size, tf.TensorShape) and size.rank != 0:
        shape = tf.TensorShape([batch_size]).concatenate(size)
      return tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=shape)

    return tf.nest.map_structure(
      array, self._decoder.output_size, self._decoder.output_dtype
    )

  def step(
    self,
    time: Any,
    arrays: Any,
    state: Any,
    inputs: Any,
    finished: Any,
    lengths: Any,
  ) -> tuple[Any, ...]:
    outputs, next_state, next_inputs, now_finished = self._decoder.step(
      time, inputs, state
    )
    if not self._decoder.tracks_own_finished:
      now_finished = tf.logical_or(now_finished, finished)
    lengths = tf.where(finished, lengths, tf.fill(tf.shape(lengths), time + 1))
    tf.nest.assert_same_structure(state, next_state)
    tf.nest.assert_same_structure(arrays, outputs)
    tf.nest.assert_same_structure(inputs, next_inputs)
    if self._impute_finished:
      outputs = tf.nest.map_structure(
        lambda output, zero: tf.compat.v1.where(finished, zero, output),
        outputs,
        self._zeros,
      )
      next_state = tf.nest.map_structure(
        lambda new, old: _unless(finished, new, old), next_state, state
      )
    arrays = tf.nest.map_structure(
      lambda array, output: array.write(time, output), arrays, outputs
    )
    return time + 1, arrays, next_state, next_inputs, now_finished, lengths


def _dimensions(size: Any) -> Any:
  """Returns a shape as a vector."""
  if tf.is_tensor(size):
    return tf.reshape(size, [-1])
  return tf.constant(tf.TensorShape(size).as_list(), tf.int32)


def _unless(finished: tf.Tensor, new: Any, old: Any) -> Any:
  """Returns the new state of the sequences that are not finished."""
  if isinstance(old, tf.TensorArray):
    return new
  new.set_shape(old.shape)
  if new.shape.rank == 0:
    return new
  return tf.compat.v1.where(finished, old, new)


def transpose_batch_time(x: tf.Tensor) -> tf.Tensor:
  """Swaps the first two axes of a tensor that has them.

  Args:
    x: [time, batch, ...], or of less than two axes.
  """
  if x.shape.rank is not None and x.shape.rank < 2:
    return x
  rest = tf.range(2, tf.rank(x))
  shape = x.shape
  x = tf.transpose(x, tf.concat([[1, 0], rest], 0))
  if shape.rank is not None:
    x.set_shape([shape[1], shape[0], *shape[2:]])
  return x
