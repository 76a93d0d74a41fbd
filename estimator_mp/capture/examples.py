"""The examples of a batch: how many there are, and who has read them.

Steps check that all inputs have as many, unless the graph says so. If replicas,
or the tasks of a cluster, read batches of their own, the whole batch is the
concatenation of these, and each is cut where it is.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from estimator_mp.capture import batch_size, replica_batches
from estimator_mp.graph import batch_inputs

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Examples:
  """The examples of the batch of one graph.

  Attributes:
    count: Their number, which each step checks; None if there is nothing to
      check.
    pieces: By the name of an input, the pieces that replicas have read of it;
      empty if they share a batch.
    sizes: The number of examples of each of these.
  """

  count: tf.Tensor | None = None
  pieces: Mapping[str, Sequence[tf.Tensor]] = dataclasses.field(
    default_factory=lambda: MappingProxyType({})
  )
  sizes: Sequence[int | tf.Tensor] = ()


# Of a graph whose batch nobody cuts.
UNCHECKED = Examples()


def check(
  inputs: Sequence[batch_inputs.Input],
  num_replicas: int,
  num_micro_batches: int,
  host: str,
) -> Examples:
  """Returns the examples of a batch that is to be cut.

  Args:
    inputs: Features and labels that have examples.
    num_replicas: How many replicas there are.
    num_micro_batches: How many slices each has.
    host: The device that compares numbers in each step.

  Raises:
    ValueError: If no input has examples, or not all have as many.
  """
  if not inputs:
    raise ValueError(
      "features and labels have no tensor with examples, of which slices "
      "could be made; give their axes by batch_axis, or use no data axis and "
      "num_micro_batches=1"
    )
  batches = replica_batches.find(inputs, num_replicas)
  if batches is None:
    return Examples(batch_size.batch_size(inputs, host).checked)
  pieces = {
    x.value.name: [batch[number].value for batch in batches.inputs]
    for number, x in enumerate(inputs)
    if isinstance(x.value, tf.Tensor)
  }
  known = batches.known_size
  if known is not None and known % num_micro_batches == 0:
    return Examples(None, pieces, [known] * num_replicas)
  sizes = replica_batches.checked_sizes(batches, num_micro_batches)
  if known is not None:
    return Examples(None, pieces, sizes)
  with tf.compat.v1.device(host), tf.compat.v1.name_scope("check"):
    return Examples(tf.add_n(sizes), pieces, sizes)
