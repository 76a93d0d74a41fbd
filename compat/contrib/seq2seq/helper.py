"""Helpers, which feed the cell of a BasicDecoder; also one's own."""

import abc
from collections.abc import Callable
from typing import Any

import tensorflow as tf


class Helper(abc.ABC):
  """Samples from outputs, and makes the next inputs of the samples."""

  @property
  @abc.abstractmethod
  def batch_size(self) -> Any:
    """The number of sequences, a scalar."""

  @property
  @abc.abstractmethod
  def sample_ids_shape(self) -> Any:
    """The shape of one sequence's sample."""

  @property
  @abc.abstractmethod
  def sample_ids_dtype(self) -> Any:
    """The dtype of samples."""

  @abc.abstractmethod
  def initialize(self, name: str | None = None) -> tuple[Any, Any]:
    """Returns (finished, first inputs).

    Args:
      name: of the operations.
    """

  @abc.abstractmethod
  def sample(
    self, time: Any, outputs: Any, state: Any, name: str | None = None
  ) -> Any:
    """Returns samples.

    Args:
      time: the number of the step, a scalar.
      outputs: of the step.
      state: after it.
      name: of the operations.
    """

  @abc.abstractmethod
  def next_inputs(
    self,
    time: Any,
    outputs: Any,
    state: Any,
    sample_ids: Any,
    name: str | None = None,
  ) -> tuple[Any, Any, Any]:
    """Returns (finished, next inputs, next state).

    Args:
      time: the number of the step, a scalar.
      outputs: of the step.
      state: after it.
      sample_ids: the samples.
      name: of the operations.
    """


class CustomHelper(Helper):
  """A helper of three functions."""

  def __init__(
    self,
    initialize_fn: Callable[[], tuple[Any, Any]],
    sample_fn: Callable[..., Any],
    next_inputs_fn: Callable[..., tuple[Any, Any, Any]],
    sample_ids_shape: Any = None,
    sample_ids_dtype: Any = None,
  ):
    """Makes the helper.

    Args:
      initialize_fn: returns (finished, first inputs).
      sample_fn: returns samples of (time, outputs, state), by name.
      next_inputs_fn: returns (finished, next inputs, next state) of (time,
        outputs, state, sample_ids), by name.
      sample_ids_shape: of one sequence's sample; a scalar by default.
      sample_ids_dtype: int32 by default.
    """
    self._initialize_fn = initialize_fn
    self._sample_fn = sample_fn
    self._next_inputs_fn = next_inputs_fn
    self._batch_size: Any = None
    self._sample_ids_shape = tf.TensorShape(sample_ids_shape or [])
    self._sample_ids_dtype = sample_ids_dtype or tf.int32

  @property
  def batch_size(self) -> Any:
    """The number of sequences; known once the decoder is initialized."""
    if self._batch_size is None:
      raise ValueError("CustomHelper has no batch_size before initialize().")
    return self._batch_size

  @property
  def sample_ids_shape(self) -> Any:
    """The shape of one sequence's sample."""
    return self._sample_ids_shape

  @property
  def sample_ids_dtype(self) -> Any:
    """The dtype of samples."""
    return self._sample_ids_dtype

  def initialize(self, name: str | None = None) -> tuple[Any, Any]:
    """Returns (finished, first inputs).

    Args:
      name: of the operations.
    """
    with tf.compat.v1.name_scope(name, "CustomHelperInitialize"):
      finished, inputs = self._initialize_fn()
      if self._batch_size is None:
        self._batch_size = tf.size(finished)
    return finished, inputs

  def sample(
    self, time: Any, outputs: Any, state: Any, name: str | None = None
  ) -> Any:
    """Returns samples.

    Args:
      time: the number of the step, a scalar.
      outputs: of the step.
      state: after it.
      name: of the operations.
    """
    with tf.compat.v1.name_scope(name, "CustomHelperSample"):
      return self._sample_fn(time=time, outputs=outputs, state=state)

  def next_inputs(
    self,
    time: Any,
    outputs: Any,
    state: Any,
    sample_ids: Any,
    name: str | None = None,
  ) -> tuple[Any, Any, Any]:
    """Returns (finished, next inputs, next state).

    Args:
      time: the number of the step, a scalar.
      outputs: of the step.
      state: after it.
      sample_ids: the samples.
      name: of the operations.
    """
    with tf.compat.v1.name_scope(name, "CustomHelperNextInputs"):
      return self._next_inputs_fn(
        time=time, outputs=outputs, state=state, sample_ids=sample_ids
      )


class InferenceHelper(Helper):
  """Feeds samples back, as a function makes inputs of them."""

  def __init__(
    self,
    sample_fn: Callable[[Any], Any],
    sample_shape: Any,
    sample_dtype: Any,
    start_inputs: Any,
    end_fn: Callable[[Any], Any],
    next_inputs_fn: Callable[[Any], Any] | None = None,
  ):
    """Makes the helper.

    Args:
      sample_fn: returns samples of outputs.
      sample_shape: of one sequence's sample.
      sample_dtype: of samples.
      start_inputs: of the first step [batch, ...].
      end_fn: returns of samples whether their sequences end, bool [batch].
      next_inputs_fn: returns inputs of samples; the samples by default.
    """
    self._sample_fn = sample_fn
    self._end_fn = end_fn
    self._sample_shape = tf.TensorShape(sample_shape)
    self._sample_dtype = sample_dtype
    self._next_inputs_fn = next_inputs_fn
    self._start_inputs = tf.convert_to_tensor(start_inputs, name="start_inputs")
    self._batch_size = tf.shape(self._start_inputs)[0]

  @property
  def batch_size(self) -> Any:
    """The number of sequences, a scalar."""
    return self._batch_size

  @property
  def sample_ids_shape(self) -> Any:
    """The shape of one sequence's sample."""
    return self._sample_shape

  @property
  def sample_ids_dtype(self) -> Any:
    """The dtype of samples."""
    return self._sample_dtype

  def initialize(self, name: str | None = None) -> tuple[Any, Any]:
    """Returns (finished, first inputs).

    Args:
      name: unused.
    """
    return tf.fill([self._batch_size], False), self._start_inputs

  def sample(
    self, time: Any, outputs: Any, state: Any, name: str | None = None
  ) -> Any:
    """Returns samples of outputs.

    Args:
      time: unused.
      outputs: of the step.
      state: unused.
      name: unused.
    """
    return self._sample_fn(outputs)

  def next_inputs(
    self,
    time: Any,
    outputs: Any,
    state: Any,
    sample_ids: Any,
    name: str | None = None,
  ) -> tuple[Any, Any, Any]:
    """Returns (finished, next inputs, the same state).

    Args:
      time: unused.
      outputs: unused.
      state: after the step.
      sample_ids: the samples.
      name: unused.
    """
    make = self._next_inputs_fn
    inputs = sample_ids if make is None else make(sample_ids)
    return self._end_fn(sample_ids), inputs, state
