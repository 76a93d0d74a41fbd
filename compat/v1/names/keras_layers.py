"""Recurrent layers of tf.keras, with the variables' names of 1.15.

Their variables were "lstm/kernel", and are "lstm/lstm_cell/kernel" today, so a
checkpoint of 1.15 would not be found again.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

_layers: Any = tf.compat.v1.keras.layers


class _CellsWithoutScope:
  """Builds the cells of a layer in the layer's own name scope."""

  def build(self, input_shape: Any) -> None:
    """Makes the variables.

    Args:
      input_shape: of the layer's inputs.
    """
    layer: Any = self
    with contextlib.ExitStack() as stack:
      for cell in _leaves(layer.cell):
        stack.enter_context(_built_in(_scope(), cell))
      super().build(input_shape)  # type: ignore[misc]


class LSTM(_CellsWithoutScope, _layers.LSTM):
  """tf.keras.layers.LSTM of 1.15."""


class GRU(_CellsWithoutScope, _layers.GRU):
  """tf.keras.layers.GRU of 1.15."""


class SimpleRNN(_CellsWithoutScope, _layers.SimpleRNN):
  """tf.keras.layers.SimpleRNN of 1.15."""


class RNN(_CellsWithoutScope, _layers.RNN):
  """tf.keras.layers.RNN of 1.15."""


def _leaves(cell: Any) -> Iterator[Any]:
  """Returns the cells in a stack of cells, or the cell itself."""
  inner = getattr(cell, "cells", None)
  if inner is None:
    yield cell
  for one in inner or ():
    yield from _leaves(one)


def _scope() -> str | None:
  name = tf.compat.v1.get_default_graph().get_name_scope()
  return f"{name}/" if name else None


@contextlib.contextmanager
def _built_in(scope: str | None, cell: Any) -> Iterator[None]:
  """Lets a cell that is built meanwhile forget the scope that is around it."""
  build: Callable[..., Any] | None = getattr(cell, "build", None)
  if build is None:
    yield
    return

  def build_in_scope(*args: Any, **kwargs: Any) -> None:
    with tf.compat.v1.get_default_graph().name_scope(scope):
      build(*args, **kwargs)

  vars(cell)["build"] = build_in_scope
  try:
    yield
  finally:
    del vars(cell)["build"]
