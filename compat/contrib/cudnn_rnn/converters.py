"""Between cuDNN's parameters and the variables of the compatible cells."""

from collections.abc import Sequence
from typing import Any

from compat.contrib.cudnn_rnn import parameters

import tensorflow as tf


class CudnnParamsFormatConverter:
  """The base class of the converters."""

  _rnn_mode = ""

  def __init__(
    self,
    num_layers: int,
    num_units: int,
    input_size: int,
    num_proj: int | None = None,
    input_mode: str = parameters.LINEAR_INPUT,
    direction: str = parameters.UNIDIRECTIONAL,
  ):
    """Makes the converter of one network.

    Args:
      num_layers: of one direction.
      num_units: the size of a layer's state.
      input_size: of the first layer.
      num_proj: None; compat has no projections.
      input_mode: "linear_input".
      direction: "unidirectional" or "bidirectional".

    Raises:
      ValueError: if an argument has another value.
    """
    parameters.check(direction, input_mode)
    if num_proj:
      raise ValueError(
        f"num_proj={num_proj} is not supported by compat's converters of "
        "cuDNN's parameters; leave it out."
      )
    self.layout = parameters.Layout(
      parameters.GATES[self._rnn_mode],
      num_layers,
      num_units,
      input_size,
      2 if direction == parameters.BIDIRECTIONAL else 1,
    )

  def opaque_to_tf_canonical(
    self, opaque_param: Any
  ) -> tuple[list[Any], list[Any]]:
    """Returns the variables of the compatible cells.

    Args:
      opaque_param: cuDNN's parameters, one vector.

    Returns:
      Kernels and biases: for each layer, and each direction in it, those of one
      cell.
    """
    return self._cu_canonical_to_tf_canonical(*self.layout.split(opaque_param))

  def tf_canonical_to_opaque(
    self, tf_canonicals: Sequence[Any], weights_proj: Any = None
  ) -> Any:
    """Returns cuDNN's parameters.

    Args:
      tf_canonicals: kernels and biases as opaque_to_tf_canonical returns them,
        in one list.
      weights_proj: None; compat has no projections.
    """
    return self.layout.join(
      *self._tf_canonical_to_cu_canonical(tf_canonicals, weights_proj)
    )

  def _cu_canonical_to_tf_canonical(
    self, cu_weights: Sequence[Any], cu_biases: Sequence[Any]
  ) -> tuple[list[Any], list[Any]]:
    kernels, biases = [], []
    parts = self.layout.parts
    for start in range(0, len(cu_weights), parts):
      kernels += self._kernels(cu_weights[start : start + parts])
      biases += self._biases(cu_biases[start : start + parts])
    return kernels, biases

  def _tf_canonical_to_cu_canonical(
    self, tf_canonicals: Sequence[Any], weights_proj: Any
  ) -> tuple[list[Any], list[Any]]:
    if weights_proj:
      raise ValueError("weights_proj is not supported by compat; leave it out.")
    cells = len(self.layout.places)
    # A cell has as many kernels as biases.
    each = len(tf_canonicals) // (2 * cells)
    kernels = tf_canonicals[: cells * each]
    biases = tf_canonicals[cells * each :]
    cu_weights, cu_biases = [], []
    for cell, (layer, _) in enumerate(self.layout.places):
      of_cell = slice(cell * each, (cell + 1) * each)
      cu_weights += self._weights_of(kernels[of_cell], layer)
      cu_biases += self._biases_of(biases[of_cell])
    return cu_weights, cu_biases

  def _kernels(self, weights: Sequence[Any]) -> list[Any]:
    """A cell's kernels, of its weights by gate."""
    raise NotImplementedError

  def _biases(self, biases: Sequence[Any]) -> list[Any]:
    """A cell's biases, of those by gate."""
    raise NotImplementedError

  def _weights_of(self, kernels: Sequence[Any], layer: int) -> list[Any]:
    """A cell's weights by gate, of its kernels."""
    raise NotImplementedError

  def _biases_of(self, biases: Sequence[Any]) -> list[Any]:
    """A cell's biases by gate, of its own."""
    raise NotImplementedError

  def _rows(self, kernel: Any, layer: int) -> list[Any]:
    """The part of a kernel that reads inputs, and that of the state."""
    layout = self.layout
    depth = layout.directions * layout.num_units if layer else layout.input_size
    return list(tf.split(kernel, [depth, layout.num_units], 0))


class _OneKernel(CudnnParamsFormatConverter):
  """Of cells with one kernel and one bias."""

  # cuDNN's gates in the order of the kernel's columns; its own inverse.
  _order: tuple[int, ...] = (0,)

  def _kernels(self, weights: Sequence[Any]) -> list[Any]:
    gates = self.layout.gates
    columns = [
      tf.transpose(tf.concat([weights[gate], weights[gates + gate]], 1))
      for gate in self._order
    ]
    return [tf.concat(columns, 1)]

  def _biases(self, biases: Sequence[Any]) -> list[Any]:
    gates = self.layout.gates
    sums = [biases[gate] + biases[gates + gate] for gate in self._order]
    return [tf.concat(sums, 0)]

  def _weights_of(self, kernels: Sequence[Any], layer: int) -> list[Any]:
    weights = []
    for rows in self._rows(kernels[0], layer):
      columns = tf.split(rows, self.layout.gates, 1)
      weights += [tf.transpose(columns[gate]) for gate in self._order]
    return weights

  def _biases_of(self, biases: Sequence[Any]) -> list[Any]:
    halves = tf.split(0.5 * biases[0], self.layout.gates, 0)
    return [halves[gate] for gate in self._order] * 2


class CudnnParamsFormatConverterLSTM(_OneKernel):
  """For CudnnLSTM and CudnnCompatibleLSTMCell."""

  _rnn_mode = "lstm"
  # cuDNN has input, forget, cell, output; the cell input, cell, forget, output.
  _order = (0, 2, 1, 3)


class CudnnParamsFormatConverterTanh(_OneKernel):
  """For CudnnRNNTanh and BasicRNNCell."""

  _rnn_mode = "rnn_tanh"


class CudnnParamsFormatConverterRelu(_OneKernel):
  """For CudnnRNNRelu and BasicRNNCell with relu."""

  _rnn_mode = "rnn_relu"


class CudnnParamsFormatConverterGRU(CudnnParamsFormatConverter):
  """For CudnnGRU and CudnnCompatibleGRUCell.

  A cell has the kernels of the gates, of the candidate's inputs and of the
  candidate's state, and a bias for each.
  """

  _rnn_mode = "gru"

  def _kernels(self, weights: Sequence[Any]) -> list[Any]:
    gates = [
      tf.transpose(tf.concat([weights[gate], weights[3 + gate]], 1))
      for gate in (0, 1)
    ]
    return [
      tf.concat(gates, 1),
      tf.transpose(weights[2]),
      tf.transpose(weights[5]),
    ]

  def _biases(self, biases: Sequence[Any]) -> list[Any]:
    gates = [biases[gate] + biases[3 + gate] for gate in (0, 1)]
    return [tf.concat(gates, 0), biases[2], biases[5]]

  def _weights_of(self, kernels: Sequence[Any], layer: int) -> list[Any]:
    gates, of_inputs, of_state = kernels
    weights = []
    for rows, candidate in zip(
      self._rows(gates, layer), (of_inputs, of_state), strict=True
    ):
      columns = [*tf.split(rows, 2, 1), candidate]
      weights += [tf.transpose(one) for one in columns]
    return weights

  def _biases_of(self, biases: Sequence[Any]) -> list[Any]:
    gates, of_inputs, of_state = biases
    halves = tf.split(0.5 * gates, 2, 0)
    return [*halves, of_inputs, *halves, of_state]
