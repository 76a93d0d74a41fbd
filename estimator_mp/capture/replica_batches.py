"""Replicas' batches: those that each replica has read for itself.

The batch that a replica has read is cut where it is. Only the numbers of
examples go from task to task, if the graph does not know them.
"""

import dataclasses
from collections.abc import Sequence

from estimator_mp.capture import batch_size, input_pieces
from estimator_mp.graph import batch_inputs

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class ReplicaBatches:
  """The batches of all replicas.

  Attributes:
    inputs: The inputs that have examples, of each replica.
    sizes: The number of examples of each replica.
    hosts: The device where each replica's batch is.
  """

  inputs: tuple[tuple[batch_inputs.Input, ...], ...]
  sizes: tuple[batch_size.BatchSize, ...]
  hosts: tuple[str, ...]

  @property
  def known_size(self) -> int | None:
    """The number of examples of each, if the graph knows that all have it."""
    known = {size.known for size in self.sizes}
    is_known = len(known) == 1 and not any(
      x.checked is not None for x in self.sizes
    )
    return known.pop() if is_known else None


def find(
  inputs: Sequence[batch_inputs.Input], num_replicas: int
) -> ReplicaBatches | None:
  """Returns the batches of replicas; None if there is only one for all.

  Args:
    inputs: The inputs that have examples, at least one.
    num_replicas: How many replicas there are.

  Raises:
    ValueError: If inputs have different numbers of examples, or none.
  """
  joined = [input_pieces.pieces_of(entry) for entry in inputs]
  pieces = [x for x in joined if x is not None and len(x) == num_replicas]
  if len(pieces) < len(inputs):
    if pieces:
      others = [x.name for x, of in zip(inputs, joined, strict=True) if not of]
      tf.compat.v1.logging.warning(
        "Input: %s was changed after input_fn, so the tasks send their batches "
        "to be cut together; make the change in input_fn",
        others[0] if others else inputs[0].name,
      )
    return None
  of_replicas = [
    tuple(
      dataclasses.replace(entry, value=value)
      for entry, value in zip(inputs, values, strict=True)
    )
    for values in zip(*pieces, strict=True)
  ]
  hosts = [
    tf.nest.flatten(entries[0].value, expand_composites=True)[0].device
    for entries in of_replicas
  ]
  sizes = [
    batch_size.batch_size(entries, host)
    for entries, host in zip(of_replicas, hosts, strict=True)
  ]
  return ReplicaBatches(tuple(of_replicas), tuple(sizes), tuple(hosts))


def checked_sizes(batches: ReplicaBatches, count: int) -> list[tf.Tensor]:
  """Returns the numbers of examples of replicas: each has some for each slice.

  A slice without examples would get one that counts nothing. A concatenation
  leaves that out at the end of a batch, and here it would be anywhere.

  Args:
    batches: The batches of all replicas.
    count: How many slices each replica has.

  Raises:
    ValueError: If the graph knows that a replica has fewer examples.
  """
  return [
    _checked_size(size, count, host)
    for size, host in zip(batches.sizes, batches.hosts, strict=True)
  ]


def _checked_size(
  size: batch_size.BatchSize, count: int, host: str
) -> tf.Tensor:
  """Returns the number of examples of one replica; see `checked_sizes`."""
  with tf.compat.v1.device(host or None):
    examples = size.checked
    if examples is None:
      examples = tf.constant(size.known)
    if count == 1:
      return examples
    text = (
      f"num_micro_batches={count}, but the batch of a replica has {{}} "
      "example(s), so it cannot be cut; let input_fn leave out short batches, "
      "as Dataset.batch(size, drop_remainder=True) does"
    )
    if size.known is not None and size.known < count:
      raise ValueError(text.format(size.known))
    before, after = text.split("{}")
    check = tf.raw_ops.Assert(
      condition=examples >= count,
      data=[tf.strings.join([before, tf.strings.as_string(examples), after])],
    )
    with tf.control_dependencies([check]):
      return tf.identity(examples)
