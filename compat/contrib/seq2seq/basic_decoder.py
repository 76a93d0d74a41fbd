"""A cell and a helper that feeds it: BasicDecoder."""

import collections
from typing import Any

from compat.contrib.seq2seq.attention_wrapper import check_cell
from compat.contrib.seq2seq.decoder import Decoder
from compat.contrib.seq2seq.helper import Helper

import tensorflow as tf


class BasicDecoderOutput(
  collections.namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))
):
  """The output of a BasicDecoder.

  Attributes:
    rnn_output: of the cell and the output layer.
    sample_id: of the helper.
  """


class BasicDecoder(Decoder):
  """Samples from a cell's outputs, and feeds what a helper makes of them."""

  def __init__(
    self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None
  ):
    """Makes the decoder.

    Args:
      cell: an RNNCell.
      helper: a Helper.
      initial_state: of the cell.
      output_layer: a layer for the cell's outputs, or None.

    Raises:
      TypeError: if one of them is not what it has to be.
    """
    check_cell(cell)
    if not isinstance(helper, Helper):
      raise TypeError(f"helper={helper!r} must be a Helper.")
    check_output_layer(output_layer)
    self._cell = cell
    self._helper = helper
    self._initial_state = initial_state
    self._output_layer = output_layer

  @property
  def batch_size(self) -> Any:
    """That of the helper."""
    return self._helper.batch_size

  # Decoders that derive from this one ask it, and have another.
  def _rnn_output_size(self) -> Any:
    return rnn_output_size(self._cell, self._output_layer)

  @property
  def output_size(self) -> BasicDecoderOutput:
    """The sizes of the output and of a sample."""
    return BasicDecoderOutput(
      rnn_output=self._rnn_output_size(),
      sample_id=self._helper.sample_ids_shape,
    )

  @property
  def output_dtype(self) -> BasicDecoderOutput:
    """The dtypes of the state and of a sample."""
    dtype = tf.nest.flatten(self._initial_state)[0].dtype
    return BasicDecoderOutput(
      tf.nest.map_structure(lambda _: dtype, self.output_size.rnn_output),
      self._helper.sample_ids_dtype,
    )

  def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
    """Returns (finished, first inputs, initial state).

    Args:
      name: unused.
    """
    finished, inputs = self._helper.initialize()
    return finished, inputs, self._initial_state

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
    with tf.compat.v1.name_scope(name, "BasicDecoderStep"):
      outputs, state = self._cell(inputs, state)
      if self._output_layer is not None:
        outputs = self._output_layer(outputs)
      sample_ids = self._helper.sample(time=time, outputs=outputs, state=state)
      finished, next_inputs, next_state = self._helper.next_inputs(
        time=time, outputs=outputs, state=state, sample_ids=sample_ids
      )
    result = BasicDecoderOutput(outputs, sample_ids)
    return result, next_state, next_inputs, finished


def check_output_layer(layer: Any) -> None:
  """Raises TypeError unless it is a layer or None.

  Args:
    layer: the argument output_layer.
  """
  kinds = (tf.compat.v1.layers.Layer, tf.compat.v1.keras.layers.Layer)
  if layer is not None and not isinstance(layer, kinds):
    raise TypeError(f"output_layer={layer!r} must be a layer or None.")


def rnn_output_size(cell: Any, output_layer: Any) -> Any:
  """Returns the shape of the outputs without the batch.

  Args:
    cell: an RNNCell.
    output_layer: a layer for the cell's outputs, or None.
  """
  size = cell.output_size
  if output_layer is None:
    return size
  # The layer sees outputs with a batch in front.
  inputs = tf.nest.map_structure(
    lambda one: tf.TensorShape([None]).concatenate(one), size
  )
  outputs = output_layer.compute_output_shape(inputs)
  return tf.nest.map_structure(lambda shape: shape[1:], outputs)
