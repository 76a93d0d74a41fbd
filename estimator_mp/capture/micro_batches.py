"""The batch: which features and labels have examples, and along which axis."""

import contextlib
from collections.abc import Sequence
from typing import Any

from estimator_mp.capture import nested_inputs
from estimator_mp.config.sharding_options import BatchAxis
from estimator_mp.graph.batch_inputs import Input

import tensorflow as tf


def inputs_with_examples(
  inputs: Any, batch_axis: Sequence[BatchAxis] = ()
) -> list[Input]:
  """Returns those of features and labels that have examples, whole.

  Args:
    inputs: Features and labels, nested.
    batch_axis: The axes of the examples, by names such as "features/x"; the
      first expression that is found in a name counts. Axis 0 for others, and
      none for scalars.

  Raises:
    ValueError: If an axis is none of a tensor's.
  """
  return [
    Input(name, leaf, axis)
    for name, leaf in nested_inputs.leaves(inputs)
    if tf.is_tensor(leaf)
    and (axis := nested_inputs.axis_of(name, leaf, batch_axis)) is not None
  ]


def whole_inputs(
  inputs: Any, batch_axis: Sequence[BatchAxis] = ()
) -> list[Input]:
  """Returns the inputs that surely have examples, where nothing cuts them.

  Args:
    inputs: As for `inputs_with_examples`; there may be anything among them.
    batch_axis: As for it.
  """
  with_examples: list[Input] = []
  for name, leaf in nested_inputs.leaves(inputs):
    with contextlib.suppress(ValueError):  # It could not be cut.
      with_examples += inputs_with_examples({name: leaf}, batch_axis)
  return with_examples
