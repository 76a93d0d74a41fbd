"""Helpers that feed given sequences, and sometimes what was sampled."""

from collections.abc import Callable
from typing import Any

from compat.contrib.seq2seq.decoder import transpose_batch_time
from compat.contrib.seq2seq.embedding_helpers import draw, embedding_function
from compat.contrib.seq2seq.helper import Helper

import tensorflow as tf

_map = tf.nest.map_structure


def _array(inputs: Any) -> tf.TensorArray:
  """Returns the steps of [time, batch, ...]."""
  return tf.TensorArray(
    inputs.dtype, tf.shape(inputs)[0], element_shape=inputs.shape[1:]
  ).unstack(inputs)


class TrainingHelper(Helper):
  """Feeds given sequences."""

  def __init__(
    self,
    inputs: Any,
    sequence_length: Any,
    time_major: bool = False,
    name: str | None = None,
  ):
    """Makes the helper.

    Args:
      inputs: [batch, time, ...], one tensor or a structure of them.
      sequence_length: int32 [batch].
      time_major: whether inputs are [time, batch, ...].
      name: of the operations.

    Raises:
      ValueError: if sequence_length is no vector.
    """
    with tf.compat.v1.name_scope(name, "TrainingHelper"):
      inputs = _map(tf.convert_to_tensor, inputs)
      self._inputs = inputs
      if not time_major:
        inputs = _map(transpose_batch_time, inputs)
      self._input_tas = _map(_array, inputs)
      self._sequence_length = tf.convert_to_tensor(
        sequence_length, name="sequence_length"
      )
      if self._sequence_length.shape.rank != 1:
        raise ValueError(
          "sequence_length has the shape "
          f"{self._sequence_length.shape}; it must be a vector, [batch]."
        )
      self._zero_inputs = _map(lambda one: tf.zeros_like(one[0]), inputs)
      self._batch_size = tf.size(self._sequence_length)

  @property
  def inputs(self) -> Any:
    """The sequences, as they were given."""
    return self._inputs

  @property
  def sequence_length(self) -> Any:
    """Of the sequences [batch]."""
    return self._sequence_length

  @property
  def batch_size(self) -> Any:
    """The number of sequences, a scalar."""
    return self._batch_size

  @property
  def sample_ids_shape(self) -> Any:
    """A scalar."""
    return tf.TensorShape([])

  @property
  def sample_ids_dtype(self) -> Any:
    """That of ids, int32."""
    return tf.int32

  def initialize(self, name: str | None = None) -> tuple[Any, Any]:
    """Returns (finished, first inputs).

    Args:
      name: of the operations.
    """
    with tf.compat.v1.name_scope(name, "TrainingHelperInitialize"):
      finished = tf.equal(0, self._sequence_length)
      return finished, self._inputs_at(0, tf.reduce_all(finished))

  def _inputs_at(self, time: Any, all_finished: tf.Tensor) -> Any:
    return tf.cond(
      all_finished,
      lambda: self._zero_inputs,
      lambda: _map(lambda array: array.read(time), self._input_tas),
    )

  def sample(
    self,
    time: Any,
    outputs: Any,
    state: Any = None,
    name: str | None = None,
    **unused_kwargs: Any,
  ) -> Any:
    """Returns the ids with the largest logits; they are not fed.

    Args:
      time: unused.
      outputs: the logits [batch, ids].
      state: unused.
      name: of the operations.
      **unused_kwargs: unused.
    """
    with tf.compat.v1.name_scope(name, "TrainingHelperSample"):
      return tf.argmax(outputs, -1, output_type=tf.int32)

  def next_inputs(
    self,
    time: Any,
    outputs: Any,
    state: Any,
    sample_ids: Any = None,
    name: str | None = None,
    **unused_kwargs: Any,
  ) -> tuple[Any, Any, Any]:
    """Returns (finished, next inputs, the same state).

    Args:
      time: the number of the step, a scalar.
      outputs: unused.
      state: after it.
      sample_ids: unused.
      name: of the operations.
      **unused_kwargs: unused.
    """
    with tf.compat.v1.name_scope(name, "TrainingHelperNextInputs"):
      finished = time + 1 >= self._sequence_length
      inputs = self._inputs_at(time + 1, tf.reduce_all(finished))
      return finished, inputs, state


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
  """Feeds given vectors, or embeddings of what was sampled, by chance.

  Bengio, Vinyals, Jaitly and Shazeer, "Scheduled Sampling for Sequence
  Prediction with Recurrent Neural Networks", 2015.
  """

  def __init__(
    self,
    inputs: Any,
    sequence_length: Any,
    embedding: Any,
    sampling_probability: Any,
    time_major: bool = False,
    seed: int | None = None,
    scheduling_seed: int | None = None,
    name: str | None = None,
  ):
    """Makes the helper.

    Args:
      inputs: [batch, time, ...].
      sequence_length: int32 [batch].
      embedding: makes inputs of ids: a function, or the `params` of
        tf.nn.embedding_lookup.
      sampling_probability: that a sequence is fed what was sampled, a scalar.
      time_major: whether inputs are [time, batch, ...].
      seed: of the samples.
      scheduling_seed: of the choice.
      name: of the operations.

    Raises:
      ValueError: if the probability is no scalar.
    """
    with tf.compat.v1.name_scope(name, "ScheduledEmbeddingSamplingWrapper"):
      self._embedding_fn = embedding_function(embedding)
      self._sampling_probability = _probability(sampling_probability)
      self._seed = seed
      self._scheduling_seed = scheduling_seed
      super().__init__(inputs, sequence_length, time_major, name)

  def sample(
    self,
    time: Any,
    outputs: Any,
    state: Any = None,
    name: str | None = None,
    **unused_kwargs: Any,
  ) -> Any:
    """Returns ids, -1 for the sequences that go on as given.

    Args:
      time: unused.
      outputs: the logits [batch, ids].
      state: unused.
      name: of the operations.
      **unused_kwargs: unused.
    """
    with tf.compat.v1.name_scope(
      name, "ScheduledEmbeddingTrainingHelperSample"
    ):
      chosen = _choose(
        self._sampling_probability, self.batch_size, self._scheduling_seed
      )
      drawn = draw(outputs, self._seed)
      return tf.where(chosen, drawn, tf.fill([self.batch_size], -1))

  def next_inputs(
    self,
    time: Any,
    outputs: Any,
    state: Any,
    sample_ids: Any = None,
    name: str | None = None,
    **unused_kwargs: Any,
  ) -> tuple[Any, Any, Any]:
    """Returns (finished, next inputs, the same state).

    Args:
      time: the number of the step, a scalar.
      outputs: of the step.
      state: after it.
      sample_ids: the ids; -1 for the given inputs.
      name: of the operations.
      **unused_kwargs: unused.
    """
    with tf.compat.v1.name_scope(
      name, "ScheduledEmbeddingTrainingHelperNextInputs"
    ):
      finished, given, state = super().next_inputs(time, outputs, state)

      def mixed() -> Any:
        chosen = sample_ids > -1
        # Only rows that were sampled have a gradient by the embedding.
        embedded = self._embedding_fn(_chosen_rows(sample_ids, chosen))
        return _with_rows(given, chosen, embedded)

      inputs = tf.cond(tf.reduce_all(finished), lambda: given, mixed)
      return finished, inputs, state


class ScheduledOutputTrainingHelper(TrainingHelper):
  """Feeds given vectors, or the outputs of the step before, by chance."""

  def __init__(
    self,
    inputs: Any,
    sequence_length: Any,
    sampling_probability: Any,
    time_major: bool = False,
    seed: int | None = None,
    next_inputs_fn: Callable[[Any], Any] | None = None,
    auxiliary_inputs: Any = None,
    name: str | None = None,
  ):
    """Makes the helper.

    Args:
      inputs: [batch, time, size].
      sequence_length: int32 [batch].
      sampling_probability: that a sequence is fed an output, a scalar.
      time_major: whether inputs are [time, batch, size].
      seed: of the choice.
      next_inputs_fn: makes inputs of outputs; the outputs by default.
      auxiliary_inputs: behind all inputs, given or not; as `inputs`.
      name: of the operations.

    Raises:
      ValueError: if the probability is no scalar.
    """
    with tf.compat.v1.name_scope(name, "ScheduledOutputTrainingHelper"):
      self._sampling_probability = _probability(sampling_probability)
      self._next_inputs_fn = next_inputs_fn
      self._seed = seed
      self._auxiliary_input_tas = None
      if auxiliary_inputs is not None:
        auxiliary = _map(tf.convert_to_tensor, auxiliary_inputs)
        inputs = _map(
          lambda one, more: tf.concat([one, more], -1), inputs, auxiliary
        )
        if not time_major:
          auxiliary = _map(transpose_batch_time, auxiliary)
        self._auxiliary_input_tas = _map(_array, auxiliary)
      super().__init__(inputs, sequence_length, time_major, name)

  def sample(
    self,
    time: Any,
    outputs: Any,
    state: Any = None,
    name: str | None = None,
    **unused_kwargs: Any,
  ) -> Any:
    """Returns 1 for the sequences that are fed an output, else 0.

    Args:
      time: unused.
      outputs: unused.
      state: unused.
      name: of the operations.
      **unused_kwargs: unused.
    """
    with tf.compat.v1.name_scope(name, "ScheduledOutputTrainingHelperSample"):
      chosen = _choose(self._sampling_probability, self.batch_size, self._seed)
      return tf.cast(chosen, tf.int32)

  def next_inputs(
    self,
    time: Any,
    outputs: Any,
    state: Any,
    sample_ids: Any = None,
    name: str | None = None,
    **unused_kwargs: Any,
  ) -> tuple[Any, Any, Any]:
    """Returns (finished, next inputs, the same state).

    Args:
      time: the number of the step, a scalar.
      outputs: of the step.
      state: after it.
      sample_ids: which sequences are fed an output.
      name: of the operations.
      **unused_kwargs: unused.
    """
    with tf.compat.v1.name_scope(
      name, "ScheduledOutputTrainingHelperNextInputs"
    ):
      finished, given, state = super().next_inputs(time, outputs, state)
      chosen = tf.cast(sample_ids, tf.bool)
      as_given = tf.logical_or(
        tf.reduce_all(finished), tf.logical_not(tf.reduce_any(chosen))
      )
      inputs = tf.cond(
        as_given,
        lambda: given,
        lambda: self._mixed(time + 1, outputs, given, chosen),
      )
      return finished, inputs, state

  def _mixed(
    self, time: Any, outputs: Any, given: Any, chosen: tf.Tensor
  ) -> Any:
    sampled = _chosen_rows(outputs, chosen)
    if self._next_inputs_fn is not None:
      sampled = self._next_inputs_fn(sampled)
    if self._auxiliary_input_tas is not None:
      auxiliary = _map(lambda one: one.read(time), self._auxiliary_input_tas)
      sampled = tf.concat([sampled, _chosen_rows(auxiliary, chosen)], -1)
    return _with_rows(given, chosen, sampled)


def _probability(sampling_probability: Any) -> tf.Tensor:
  value = tf.convert_to_tensor(
    sampling_probability, name="sampling_probability"
  )
  if value.shape.rank not in (None, 0):
    raise ValueError(
      f"sampling_probability has the shape {value.shape}; it must be a scalar."
    )
  return value


def _choose(probability: tf.Tensor, count: Any, seed: int | None) -> tf.Tensor:
  """Returns True with that probability, `count` times."""
  drawn = tf.random.uniform([count], dtype=probability.dtype, seed=seed)
  return drawn < probability


def _chosen_rows(values: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
  return tf.dynamic_partition(values, tf.cast(chosen, tf.int32), 2)[1]


def _with_rows(given: Any, chosen: tf.Tensor, values: Any) -> tf.Tensor:
  """Returns `given`, with other values in the rows that were chosen."""
  partitions = tf.cast(chosen, tf.int32)
  rows = tf.dynamic_partition(tf.range(tf.size(chosen)), partitions, 2)
  kept, _ = tf.dynamic_partition(given, partitions, 2)
  return tf.ensure_shape(tf.dynamic_stitch(rows, [kept, values]), given.shape)
