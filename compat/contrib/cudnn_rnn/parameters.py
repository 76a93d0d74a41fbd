"""How cuDNN keeps the parameters of a recurrent network in one vector.

First come the weights of all layers (of two directions, forward and backward in
turn): for each gate the matrix [units, inputs] that reads the inputs, then for
each gate the one that reads the state. Then come the biases in the same order.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

UNIDIRECTIONAL = "unidirectional"
BIDIRECTIONAL = "bidirectional"
LINEAR_INPUT = "linear_input"
_INPUT_MODES = (LINEAR_INPUT, "skip_input", "auto_select")

# Of each kind of network, how many gates it has.
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def check(direction: str, input_mode: str) -> None:
  """Checks what a network is asked to be.

  Args:
    direction: "unidirectional" or "bidirectional".
    input_mode: "linear_input".

  Raises:
    ValueError: if a value is unknown, or cannot be run without cuDNN.
  """
  if direction not in (UNIDIRECTIONAL, BIDIRECTIONAL):
    raise ValueError(
      f"direction={direction!r} must be {UNIDIRECTIONAL!r} or "
      f"{BIDIRECTIONAL!r}."
    )
  if input_mode not in _INPUT_MODES:
    raise ValueError(
      f"input_mode={input_mode!r} must be one of {', '.join(_INPUT_MODES)}."
    )
  if input_mode != LINEAR_INPUT:
    raise ValueError(
      f"input_mode={input_mode!r} is not supported by compat, which runs "
      f"without cuDNN; use {LINEAR_INPUT!r}."
    )


@dataclasses.dataclass(frozen=True)
class Layout:
  """The sizes of a network, and where its parameters are.

  Attributes:
    gates: how many gates a layer has.
    num_layers: of one direction.
    num_units: the size of a layer's state.
    input_size: of the first layer.
    directions: 1 or 2.
  """

  gates: int
  num_layers: int
  num_units: int
  input_size: int
  directions: int

  @property
  def parts(self) -> int:
    """How many matrices, and how many biases, a layer has in a direction."""
    return 2 * self.gates

  @property
  def places(self) -> list[tuple[int, int]]:
    """(layer, direction) in the order of the parameters."""
    return list(
      itertools.product(range(self.num_layers), range(self.directions))
    )

  @property
  def weight_shapes(self) -> list[tuple[int, int]]:
    """Of all matrices."""
    units = self.num_units
    shapes = []
    for layer, _ in self.places:
      depth = self.directions * units if layer else self.input_size
      shapes += [(units, depth)] * self.gates + [(units, units)] * self.gates
    return shapes

  @property
  def bias_shapes(self) -> list[list[int]]:
    """Of all biases."""
    return [[self.num_units]] * (self.parts * len(self.places))

  @property
  def size(self) -> int:
    """How many parameters there are."""
    return sum(map(math.prod, [*self.weight_shapes, *self.bias_shapes]))

  def split(self, opaque: Any) -> tuple[list[Any], list[Any]]:
    """Returns the weights and the biases.

    Args:
      opaque: all parameters, [size].
    """
    shapes = [*self.weight_shapes, *self.bias_shapes]
    opaque = tf.reshape(opaque, [self.size])
    flat = tf.split(opaque, [math.prod(shape) for shape in shapes])
    found = [
      tf.reshape(part, shape) for part, shape in zip(flat, shapes, strict=True)
    ]
    count = len(self.weight_shapes)
    return found[:count], found[count:]

  def join(self, weights: Sequence[Any], biases: Sequence[Any]) -> Any:
    """Returns all parameters as `split` takes them.

    Args:
      weights: as split returns them.
      biases: as split returns them.
    """
    return tf.concat([tf.reshape(one, [-1]) for one in (*weights, *biases)], 0)
