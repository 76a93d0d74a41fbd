"""A decoder that keeps the best hypotheses: BeamSearchDecoder."""

import collections
from typing import Any

from compat.contrib.seq2seq.attention_wrapper import check_cell
from compat.contrib.seq2seq.basic_decoder import (
  check_output_layer,
  rnn_output_size,
)
from compat.contrib.seq2seq.beam_search import (
  BeamSearchDecoderOutput,
  BeamSearchDecoderState,
  Search,
  attention_probs,
  beam_search_step,
)
from compat.contrib.seq2seq.beams import gather_tree, gather_tree_from_array
from compat.contrib.seq2seq.decoder import Decoder
from compat.contrib.seq2seq.embedding_helpers import (
  check_tokens,
  embedding_function,
)

import tensorflow as tf


class FinalBeamSearchDecoderOutput(
  collections.namedtuple(
    "FinalBeamSearchDecoderOutput",
    ("predicted_ids", "beam_search_decoder_output"),
  )
):
  """The output of dynamic_decode for a BeamSearchDecoder.

  Attributes:
    predicted_ids: the hypotheses, the best first; int32 [batch, time, beam].
    beam_search_decoder_output: what each step gave.
  """


class BeamSearchDecoder(Decoder):
  """Keeps the `beam_width` best hypotheses at each step.

  With an AttentionWrapper the memory, its lengths and the cell's state go
  through tile_batch, and zero_state() gets batch_size * beam_width.
  """

  def __init__(
    self,
    cell: Any,
    embedding: Any,
    start_tokens: Any,
    end_token: Any,
    initial_state: Any,
    beam_width: int,
    output_layer: Any = None,
    length_penalty_weight: Any = 0.0,
    coverage_penalty_weight: Any = 0.0,
    reorder_tensor_arrays: bool = True,
  ):
    """Makes the decoder.

    Args:
      cell: an RNNCell.
      embedding: makes inputs of ids: a function, or the `params` of
        tf.nn.embedding_lookup.
      start_tokens: int32 [batch].
      end_token: int32, a scalar: ends a hypothesis.
      initial_state: of the cell [batch * beam_width, ...], from tile_batch.
      beam_width: how many hypotheses are kept.
      output_layer: a layer for the cell's outputs, or None.
      length_penalty_weight: scores are divided by ((5 + length) / 6) to this.
      coverage_penalty_weight: of the logarithm of what was read of each element
        of the memory; an attention has to be there.
      reorder_tensor_arrays: whether TensorArrays of the final state, such as
        the alignment history, become tensors in the order of the hypotheses.

    Raises:
      TypeError: if the cell or the layer is not what it has to be.
      ValueError: if tokens have other shapes.
    """
    check_cell(cell)
    check_output_layer(output_layer)
    self._cell = cell
    self._output_layer = output_layer
    self._reorder_tensor_arrays = reorder_tensor_arrays
    self._embedding_fn = embedding_function(embedding)
    self._start_tokens, self._end_token = check_tokens(start_tokens, end_token)
    self._batch_size = tf.size(self._start_tokens)
    self._beam_width = beam_width
    self._length_penalty_weight = length_penalty_weight
    self._coverage_penalty_weight = coverage_penalty_weight
    self._initial_cell_state = tf.nest.map_structure(
      self._split, initial_state, cell.state_size
    )
    by_beam = tf.tile(self._start_tokens[:, tf.newaxis], [1, beam_width])
    self._start_inputs = self._embedding_fn(by_beam)
    self._finished = tf.one_hot(
      tf.zeros([self._batch_size], tf.int32),
      beam_width,
      on_value=False,
      off_value=True,
      dtype=tf.bool,
    )

  @property
  def batch_size(self) -> Any:
    """The number of sequences, a scalar."""
    return self._batch_size

  @property
  def tracks_own_finished(self) -> bool:
    """True: a beam may go on with another hypothesis than before."""
    return True

  # Decoders that derive from this one ask it, and have another.
  def _rnn_output_size(self) -> Any:
    return rnn_output_size(self._cell, self._output_layer)

  @property
  def output_size(self) -> BeamSearchDecoderOutput:
    """One number for each beam."""
    beams = tf.TensorShape([self._beam_width])
    return BeamSearchDecoderOutput(beams, beams, beams)

  @property
  def output_dtype(self) -> BeamSearchDecoderOutput:
    """The dtypes of scores and ids."""
    dtype = tf.nest.flatten(self._initial_cell_state)[0].dtype
    return BeamSearchDecoderOutput(
      tf.nest.map_structure(lambda _: dtype, self._rnn_output_size()),
      tf.int32,
      tf.int32,
    )

  def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
    """Returns (finished, first inputs, initial state).

    All beams but the first are finished at first: they are all the same.

    Args:
      name: unused.
    """
    dtype = tf.nest.flatten(self._initial_cell_state)[0].dtype
    read = attention_probs(
      self._initial_cell_state, self._coverage_penalty_weight
    )
    state = BeamSearchDecoderState(
      cell_state=self._initial_cell_state,
      log_probs=tf.one_hot(
        tf.zeros([self._batch_size], tf.int32),
        self._beam_width,
        on_value=tf.constant(0.0, dtype),
        off_value=tf.constant(float("-inf"), dtype),
        dtype=dtype,
      ),
      finished=self._finished,
      lengths=tf.zeros([self._batch_size, self._beam_width], tf.int64),
      accumulated_attention_probs=() if read is None else read,
    )
    return self._finished, self._start_inputs, state

  def step(
    self, time: Any, inputs: Any, state: Any, name: str | None = None
  ) -> tuple[Any, Any, Any, Any]:
    """Returns (outputs, next state, next inputs, finished).

    Args:
      time: the number of the step, a scalar.
      inputs: of the step [batch, beam, ...].
      state: the beams before it.
      name: of the operations.
    """
    search = Search(
      self._beam_width,
      self._end_token,
      self._length_penalty_weight,
      self._coverage_penalty_weight,
    )
    sizes = self._cell.state_size
    with tf.compat.v1.name_scope(name, "BeamSearchDecoderStep"):
      outputs, cell_state = self._cell(
        tf.nest.map_structure(self._merge, inputs),
        tf.nest.map_structure(
          lambda one, _: self._merge(one), state.cell_state, sizes
        ),
      )
      outputs = tf.nest.map_structure(self._split_whole, outputs)
      cell_state = tf.nest.map_structure(self._split, cell_state, sizes)
      if self._output_layer is not None:
        outputs = self._output_layer(outputs)
      result, state = beam_search_step(search, outputs, cell_state, state)
      next_inputs = tf.cond(
        tf.reduce_all(state.finished),
        lambda: self._start_inputs,  # No one reads them.
        lambda: self._embedding_fn(result.predicted_ids),
      )
    return result, state, next_inputs, state.finished

  def finalize(
    self, outputs: Any, final_state: Any, sequence_lengths: Any
  ) -> tuple[FinalBeamSearchDecoderOutput, Any]:
    """Returns the hypotheses, and the state.

    Args:
      outputs: of all steps [time, batch, beam].
      final_state: after the last step.
      sequence_lengths: unused.
    """
    del sequence_lengths
    lengths = tf.cast(tf.reduce_max(final_state.lengths, 1), tf.int32)
    predicted_ids = gather_tree(
      outputs.predicted_ids, outputs.parent_ids, lengths, self._end_token
    )
    if self._reorder_tensor_arrays:
      final_state = final_state._replace(
        cell_state=tf.nest.map_structure(
          lambda one: self._sorted(
            one, outputs.parent_ids, final_state.lengths
          ),
          final_state.cell_state,
        )
      )
    return FinalBeamSearchDecoderOutput(predicted_ids, outputs), final_state

  def _sorted(self, value: Any, parent_ids: Any, lengths: Any) -> Any:
    """Returns a TensorArray as a tensor in the order of the hypotheses."""
    if not isinstance(value, tf.TensorArray):
      return value
    shape = value.element_shape
    if shape.rank in (None, 0):
      tf.compat.v1.logging.warn(
        "A TensorArray in the cell's state has elements of the shape %s: it is "
        "left as it is, not in the order of the hypotheses.",
        shape,
      )
      return value
    if not self._is_by_beam(shape):
      return value
    return gather_tree_from_array(value.stack(), parent_ids, lengths)

  def _is_by_beam(self, shape: tf.TensorShape) -> bool:
    """Whether a shape may be [batch * beam, ...] or [batch, beam, ...]."""
    batch = tf.get_static_value(self._batch_size)
    if batch is None or shape[0] is None:
      return True
    if shape[0] == batch * self._beam_width:
      return True
    second = shape[1] if shape.rank > 1 else None
    return bool(shape[0] == batch and second == self._beam_width)

  def _split(self, value: Any, size: Any) -> Any:
    """Returns a part of the cell's state as [batch, beam, ...]."""
    if isinstance(value, tf.TensorArray):
      return value
    if value.shape.rank is None:
      raise ValueError(f"{value!r} in the cell's state has an unknown rank.")
    del size  # The tensor knows it.
    return self._split_whole(value) if value.shape.rank > 0 else value

  def _split_whole(self, value: Any) -> Any:
    batch = tf.get_static_value(self._batch_size)
    width = self._beam_width
    known = value.shape[0]
    if None not in (batch, known) and known != batch * width:
      raise ValueError(
        f"A tensor has the shape {value.shape}, but the batch of {batch} has "
        f"{width} beams. Did you forget tile_batch with multiplier={width}?"
      )
    shape = tf.concat([[self._batch_size, width], tf.shape(value)[1:]], 0)
    return tf.ensure_shape(
      tf.reshape(value, shape),
      tf.TensorShape([batch, width]).concatenate(value.shape[1:]),
    )

  def _merge(self, value: Any) -> Any:
    """Returns [batch, beam, ...] as [batch * beam, ...]."""
    if isinstance(value, tf.TensorArray):
      return value
    if value.shape.rank is None:
      raise ValueError(f"{value!r} in the cell's state has an unknown rank.")
    if value.shape.rank < 2:
      return value
    batch = tf.get_static_value(self._batch_size)
    width = self._beam_width
    shape = tf.concat([[self._batch_size * width], tf.shape(value)[2:]], 0)
    return tf.ensure_shape(
      tf.reshape(value, shape),
      tf.TensorShape([None if batch is None else batch * width]).concatenate(
        value.shape[2:]
      ),
    )
