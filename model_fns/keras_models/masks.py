"""Masks: the steps of an output that count, by `mask_zero=True`."""

import tensorflow as tf


class _Mask(tf.keras.layers.Layer):
  """Tells the mask of what it is called with."""

  def __init__(self) -> None:
    super().__init__(name="mask_of_output")
    self.supports_masking = True
    self.found: tf.Tensor | None = None

  def call(self, inputs: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
    """Returns its input, and keeps the mask."""
    self.found = mask
    return tf.identity(inputs)


def mask_of(output: tf.Tensor) -> tf.Tensor | None:
  """Returns which steps of a model's output count, of bool; None for all.

  Args:
    output: The tensor that a Keras layer returned.
  """
  layer = _Mask()
  layer(output)
  return layer.found


def like(weights: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
  """Returns weights that multiply values, as Keras lets them.

  Args:
    weights: As many dimensions as `values`, or a last one of 1 too many, or the
      last one missing.
    values: The tensor to be weighted.
  """
  if weights.shape.rank == values.shape.rank + 1:
    return tf.squeeze(weights, axis=-1)
  if weights.shape.rank == values.shape.rank - 1:
    return tf.expand_dims(weights, axis=-1)
  return weights
