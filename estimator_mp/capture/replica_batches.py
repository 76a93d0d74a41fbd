"""Replicas' batches: slices of batches that each replica has of its own.

What each replica has read is cut where it is. Only the numbers of examples go
from task to task, if the graph does not know them: a replica with fewer
examples than others counts less in means.
"""

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

from estimator_mp.capture import batch_size, cutting, input_pieces

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class ReplicaBatches:
  """The batches of all replicas.

  Attributes:
    inputs: What has examples, of each replica.
    sizes: The number of examples of each replica.
    hosts: The device where each replica's batch is.
  """

  inputs: tuple[tuple[batch_size.Input, ...], ...]
  sizes: tuple[batch_size.BatchSize, ...]
  hosts: tuple[str, ...]

  @property
  def whole(self) -> batch_size.BatchSize:
    """The number of examples of all together, where the graph knows it."""
    known = {size.known for size in self.sizes}
    ops = frozenset(op for size in self.sizes for op in size.ops)
    size = known.pop() if len(known) == 1 else None
    if size is not None:
      size *= len(self.sizes)
    return batch_size.BatchSize(size, self.sizes[0].doubtful, ops=ops)


def find(
  inputs: Sequence[batch_size.Input], num_replicas: int
) -> ReplicaBatches | None:
  """Returns the batches of replicas; None if there is only one for all.

  Args:
    inputs: What has examples, at least one.
    num_replicas: How many replicas there are.

  Raises:
    ValueError: If inputs have different numbers of examples, or none.
  """
  found = [input_pieces.pieces_of(entry) for entry in inputs]
  pieces = [x for x in found if x is not None and len(x) == num_replicas]
  if len(pieces) < len(inputs):
    if pieces:
      others = [x.name for x, of in zip(inputs, found, strict=True) if not of]
      tf.compat.v1.logging.warning(
        "Input: %s is not as input_fn made it, so the tasks send their batches "
        "to be cut together; let input_fn do what was done to it",
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
  hosts = [_device(entries[0].value) for entries in of_replicas]
  sizes = [
    batch_size.batch_size(entries, host)
    for entries, host in zip(of_replicas, hosts, strict=True)
  ]
  return ReplicaBatches(tuple(of_replicas), tuple(sizes), tuple(hosts))


def _device(value: Any) -> str:
  device: str = tf.nest.flatten(value, expand_composites=True)[0].device
  return device


@dataclasses.dataclass(frozen=True)
class Cut:
  """Batches that were cut.

  Attributes:
    whole: The number of examples of all replicas' batches. What was made for
      the cut is among its ops.
    slices: The slices of all, replica after replica, without ranges.
    pieces: Those of each input.
  """

  whole: batch_size.BatchSize
  slices: cutting.Slices
  pieces: tuple[tuple[Any, ...], ...]


def cut(
  batches: ReplicaBatches, num_micro_batches: int, cutting_said: str, host: str
) -> Cut:
  """Cuts each replica's batch into micro-batches.

  Args:
    batches: The batches; if the graph knows that all have the same size, the
      number of micro-batches divides it.
    num_micro_batches: How many slices each replica gets.
    cutting_said: What says so in a configuration.
    host: The device that adds up what the graph does not know of sizes.

  Raises:
    ValueError: If a replica has fewer examples than micro-batches.
  """
  graph = tf.compat.v1.get_default_graph()
  num_ops = len(graph.get_operations())
  whole = batches.whole
  if whole.known is None:
    slices, whole = _unequal_slices(
      batches, num_micro_batches, cutting_said, host
    )
  else:
    size = dataclasses.replace(whole, known=whole.known // len(batches.hosts))
    slices = [cutting.slices_of(size, num_micro_batches)] * len(batches.hosts)
  of_replicas = [
    _pieces(*of_replica)
    for of_replica in zip(
      batches.inputs, batches.sizes, batches.hosts, slices, strict=True
    )
  ]
  ops = whole.ops.union(graph.get_operations()[num_ops:])
  return Cut(
    dataclasses.replace(whole, ops=ops),
    _all_slices(slices, whole),
    tuple(
      tuple(piece for of_replica in pieces for piece in of_replica)
      for pieces in zip(*of_replicas, strict=True)
    ),
  )


def _pieces(
  inputs: Sequence[batch_size.Input],
  size: batch_size.BatchSize,
  host: str,
  slices: cutting.Slices,
) -> list[list[Any]]:
  """Returns the pieces of a replica's inputs, made where these are."""
  is_doubtful = size.known is not None and size.checked is not None
  with (
    tf.compat.v1.device(host or None),
    tf.control_dependencies([size.checked] if is_doubtful else []),
  ):
    return [cutting.pieces_of(entry, slices) for entry in inputs]


def _all_slices(
  slices: Sequence[cutting.Slices], whole: batch_size.BatchSize
) -> cutting.Slices:
  """Returns the slices of all replicas, as one."""
  count = sum(x.count for x in slices)
  if whole.known is not None:
    return cutting.slices_of(whole, count)
  mean_weights = tuple(w for x in slices for w in x.mean_weights)
  return cutting.Slices(count, mean_weights, (1.0,) * count, None, None)


def _unequal_slices(
  batches: ReplicaBatches, num_micro_batches: int, cutting_said: str, host: str
) -> tuple[list[cutting.Slices], batch_size.BatchSize]:
  """Returns each replica's slices, if sizes are known in each step only.

  Their mean weights are parts of the examples of all replicas.
  """
  examples = [
    _checked_size(size, num_micro_batches, cutting_said, where)
    for size, where in zip(batches.sizes, batches.hosts, strict=True)
  ]
  with tf.compat.v1.device(host or None):
    total = tf.add_n(examples)
  found = []
  for number, where in zip(examples, batches.hosts, strict=True):
    with tf.compat.v1.device(where or None):
      own = cutting.slices_of(
        batch_size.BatchSize(None, checked=number), num_micro_batches
      )
      part = tf.cast(number, tf.float32) / tf.cast(total, tf.float32)
      weights = tuple(weight * part for weight in own.mean_weights)
    found.append(dataclasses.replace(own, mean_weights=weights))
  whole = dataclasses.replace(batches.whole, doubtful=None, checked=total)
  return found, whole


def _checked_size(
  size: batch_size.BatchSize,
  num_micro_batches: int,
  cutting_said: str,
  host: str,
) -> tf.Tensor:
  """Returns the number of examples of a replica: one for each slice at least.

  A slice without examples gets one that counts nothing. What joins slices
  leaves it out at the end of a batch, and here it would be anywhere.
  """
  with contextlib.ExitStack() as stack:
    stack.enter_context(tf.compat.v1.device(host or None))
    examples = size.checked
    if examples is None:
      examples = tf.constant(size.known)
    if num_micro_batches == 1:
      return examples
    text = (
      f"{cutting_said}, but the batch of a replica has "
      "{} example(s), so it cannot be cut; let input_fn leave out short "
      "batches, as Dataset.batch(size, drop_remainder=True) does"
    )
    if size.known is not None and size.known < num_micro_batches:
      raise ValueError(text.format(size.known))
    before, after = text.split("{}")
    check = tf.raw_ops.Assert(
      condition=examples >= num_micro_batches,
      data=[tf.strings.join([before, tf.strings.as_string(examples), after])],
    )
    stack.enter_context(tf.control_dependencies([check]))
    return tf.identity(examples)
