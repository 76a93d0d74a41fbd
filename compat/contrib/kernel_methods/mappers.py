"""Features whose products are, nearly, a kernel.

Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", 2007.
"""

import abc
import math
from typing import Any

import numpy as np
import tensorflow as tf


class InvalidShapeError(Exception):
  """Is raised for inputs that a mapper was not made for."""


class DenseKernelMapper(abc.ABC):
  """Maps rows of numbers to others."""

  @abc.abstractmethod
  def map(self, input_tensor: Any) -> tf.Tensor:
    """Returns what rows are mapped to.

    Args:
      input_tensor: [batch, inputs].
    """

  @property
  @abc.abstractmethod
  def name(self) -> str:
    """What the mapper is called."""

  @property
  @abc.abstractmethod
  def output_dim(self) -> int:
    """How many numbers a row is mapped to."""


class RandomFourierFeatureMapper(DenseKernelMapper):
  """Maps rows so that their products are, nearly, a Gaussian kernel of them.

  That of x and y is exp(-|x - y|^2 / (2 stddev^2)).
  """

  def __init__(
    self,
    input_dim: int,
    output_dim: int,
    stddev: float = 1.0,
    seed: int = 1,
    name: str | None = None,
  ):
    """Makes the mapper.

    Args:
      input_dim: how many numbers a row has.
      output_dim: how many it is mapped to; the more, the nearer.
      stddev: of the kernel.
      seed: mappers with the same one map alike.
      name: what it is called; None is a name of its own.
    """
    self._input_dim = input_dim
    self._output_dim = output_dim
    self._stddev = stddev
    self._seed = seed
    self._name = name

  @property
  def name(self) -> str:
    """What the mapper is called."""
    return self._name or str(id(self))

  @property
  def input_dim(self) -> int:
    """How many numbers a row has."""
    return self._input_dim

  @property
  def output_dim(self) -> int:
    """How many numbers a row is mapped to."""
    return self._output_dim

  def map(self, input_tensor: Any) -> tf.Tensor:
    """Returns what rows are mapped to.

    Args:
      input_tensor: [batch, input_dim], of float32.

    Returns:
      [batch, output_dim].

    Raises:
      InvalidShapeError: if the shape is another.
    """
    shape = input_tensor.shape
    if shape.rank != 2 or shape.as_list()[1] != self._input_dim:
      raise InvalidShapeError(
        f"{input_tensor.name} has the shape {shape}; this mapper maps "
        f"[batch, {self._input_dim}]."
      )
    # Drawn as 1.15 does, which seeds NumPy's own generator for it.
    random = np.random.RandomState(self._seed)
    frequencies = random.normal(
      scale=1.0 / self._stddev, size=(self._input_dim, self._output_dim)
    )
    phases = random.uniform(high=2 * math.pi, size=self._output_dim)
    angles = tf.matmul(input_tensor, tf.constant(frequencies, tf.float32))
    angles += tf.constant(phases, tf.float32)
    return math.sqrt(2.0 / self._output_dim) * tf.cos(angles)
