"""How cuDNN's parameters are stored: as the variables of compatible cells.

A network of compatible cells restores the checkpoint, and the layer restores
that of the cells.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from compat.contrib.cudnn_rnn import converters, parameters
from compat.private.contrib import saveables

import tensorflow as tf

_KERNEL = ("kernel",)
_BIAS = ("bias",)


class CudnnOpaqueParamsSaveable(saveables.SaveableObject):
  """The base class of the saveables."""

  _converter: ClassVar[Any] = None
  _cell_name = ""
  _kernels: ClassVar[tuple[str, ...]] = _KERNEL
  _biases: ClassVar[tuple[str, ...]] = _BIAS

  def __init__(
    self,
    opaque_params: Any,
    num_layers: int,
    num_units: int,
    input_size: int,
    input_mode: str = parameters.LINEAR_INPUT,
    direction: str = parameters.UNIDIRECTIONAL,
    scope: Any = None,
    name: str = "cudnn_rnn_saveable",
  ):
    """Makes the saveable; put it into tf.GraphKeys.SAVEABLE_OBJECTS.

    Args:
      opaque_params: the variable with cuDNN's parameters.
      num_layers: of one direction.
      num_units: the size of a layer's state.
      input_size: of the first layer.
      input_mode: "linear_input".
      direction: "unidirectional" or "bidirectional".
      scope: of the names in the checkpoint, a scope or its name; the current
        one by default.
      name: of the saveable, below the scope.
    """
    self._variable = opaque_params
    self._format_converter = self._converter(
      num_layers,
      num_units,
      input_size,
      input_mode=input_mode,
      direction=direction,
    )
    if scope is None:
      scope = tf.compat.v1.get_variable_scope()
    scope = getattr(scope, "name", scope)
    below = f"{scope}/" if scope else ""
    kernels, biases = self._format_converter.opaque_to_tf_canonical(
      opaque_params
    )
    names = [below + one for one in self._names()]
    self._spec_names = names
    specs = [
      saveables.SaveSpec(tensor, "", one)
      for tensor, one in zip([*kernels, *biases], names, strict=True)
    ]
    super().__init__(tf.identity(opaque_params), specs, below + name)

  @property
  def format_converter(self) -> converters.CudnnParamsFormatConverter:
    """Converts between the variable and what is stored."""
    found: converters.CudnnParamsFormatConverter = self._format_converter
    return found

  def _names(self) -> list[str]:
    """Names below the scope: all kernels, then all biases."""
    layout = self._format_converter.layout
    cells = []
    for layer, direction in layout.places:
      if layout.directions == 1:
        cells.append(f"rnn/multi_rnn_cell/cell_{layer}")
      else:
        where = ("fw", "bw")[direction]
        cells.append(
          f"stack_bidirectional_rnn/cell_{layer}/bidirectional_rnn/{where}"
        )
    return [
      f"{cell}/{self._cell_name}/{name}"
      for names in (self._kernels, self._biases)
      for cell in cells
      for name in names
    ]

  def restore(
    self, restored_tensors: Sequence[Any], restored_shapes: Any
  ) -> Any:
    """Returns the operation that sets the variable.

    Args:
      restored_tensors: kernels and biases as they were stored.
      restored_shapes: unused.
    """
    del restored_shapes
    layout = self._format_converter.layout
    opaque = self._format_converter.tf_canonical_to_opaque(restored_tensors)
    opaque = tf.reshape(opaque, [layout.size])
    return tf.compat.v1.assign(self._variable, opaque)


class CudnnLSTMSaveable(CudnnOpaqueParamsSaveable):
  """Stores CudnnLSTM as CudnnCompatibleLSTMCell."""

  _converter: ClassVar[Any] = converters.CudnnParamsFormatConverterLSTM
  _cell_name = "cudnn_compatible_lstm_cell"


class CudnnGRUSaveable(CudnnOpaqueParamsSaveable):
  """Stores CudnnGRU as CudnnCompatibleGRUCell."""

  _converter = converters.CudnnParamsFormatConverterGRU
  _cell_name = "cudnn_compatible_gru_cell"
  _kernels = (
    "gates/kernel",
    "candidate/input_projection/kernel",
    "candidate/hidden_projection/kernel",
  )
  _biases = (
    "gates/bias",
    "candidate/input_projection/bias",
    "candidate/hidden_projection/bias",
  )


class CudnnRNNTanhSaveable(CudnnLSTMSaveable):
  """Stores CudnnRNNTanh as BasicRNNCell."""

  _converter: ClassVar[Any] = converters.CudnnParamsFormatConverterTanh
  _cell_name = "basic_rnn_cell"


class CudnnRNNReluSaveable(CudnnLSTMSaveable):
  """Stores CudnnRNNRelu as BasicRNNCell."""

  _converter: ClassVar[Any] = converters.CudnnParamsFormatConverterRelu
  _cell_name = "basic_rnn_cell"
