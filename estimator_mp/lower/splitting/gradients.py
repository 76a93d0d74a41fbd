"""Gradients: with respect to shards, in place of variables that are split."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from estimator_mp.lower.splitting import operands
from estimator_mp.lower.splitting import tables as tables_lib
from estimator_mp.model_axis.decisions import ByTurns, Shard
from estimator_mp.model_axis.rules.variables import turns

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Sources:
  """The sources of requested gradients, with shards in place of variables.

  Attributes:
    tensors: The sources that TensorFlow is asked for.
    groups: For each source that model_fn asked for, the numbers of those of
      `tensors` that stand for it.
    splits: How each source is split; None for those that are not.
    wholes: The sources that model_fn asked for.
    lookups: How many of each group are rows that were looked up in a table,
      which come first; its shards follow.
  """

  tensors: list[Any]
  groups: list[list[int]]
  splits: list[Shard | None]
  wholes: list[Any]
  lookups: list[int]

  def add(
    self, tensors: Sequence[Any], split: Shard | None, num_lookups: int = 0
  ) -> None:
    """Adds the tensors that stand for one more source.

    Args:
      tensors: The sources that stand for it.
      split: How the source is split.
      num_lookups: How many of the tensors are rows that were looked up.
    """
    start = len(self.tensors)
    self.tensors.extend(tensors)
    self.groups.append(list(range(start, len(self.tensors))))
    self.splits.append(split)
    self.lookups.append(num_lookups)

  def each(self) -> Iterator[tuple[Any, list[int], Shard | None, int]]:
    """Yields each source, its group, its split, and its number of lookups."""
    return zip(self.wholes, self.groups, self.splits, self.lookups, strict=True)

  @classmethod
  def of(cls, sources: list[Any]) -> "Sources":
    """Returns sources none of which is split.

    Args:
      sources: The sources that model_fn asks for; TensorFlow is asked for this
        same list.
    """
    count = len(sources)
    groups = [[i] for i in range(count)]
    return cls(sources, groups, [None] * count, sources, [0] * count)


class Gradients:
  """The gradients that model_fn requests, and the results.

  Attributes:
    joined: How the gradients are split that it got as concats, by their names.
  """

  def __init__(self, tensors: operands.Operands, tables: tables_lib.Tables):
    """Starts without a request.

    Args:
      tensors: The split tensors, and their parts.
      tables: The lookups and sparse updates of variables split by rows.
    """
    self._tensors = tensors
    self._tables = tables
    self.joined: dict[str, Shard] = {}

  def expand(self, sources: list[Any]) -> Sources:
    """Returns shards in place of variables, and parts in place of tensors.

    Args:
      sources: With respect to what model_fn asks for gradients.
    """
    found = Sources([], [], [], list(sources), [])
    for source in sources:
      tensor = getattr(source, "handle", source)
      name = getattr(tensor, "name", "")
      parts = self._tensors.parts.get(name)
      standing = [source] if parts is None else parts
      if parts is None and name in self._tensors.wholes:
        standing = [self._tensors.wholes[name]]
      rows = self._tables.sources(name)
      found.add([*rows, *standing], self._tensors.splits.get(name), len(rows))
    is_other = [id(x) for x in found.tensors] != [id(x) for x in sources]
    return found if is_other else Sources.of(sources)

  def without_lookups(
    self, sources: Sources, gradients: Sequence[Any]
  ) -> tuple[Sources, list[Any]]:
    """Returns gradients of tables in place of those of what was looked up.

    Args:
      sources: The result of `expand`.
      gradients: One for each of its tensors.

    Returns:
      Sources in which a table that is only looked up is whole, and gradients
      with respect to their tensors.
    """
    found = Sources([], [], [], sources.wholes, [])
    kept: list[Any] = []
    for source, group, split, count in sources.each():
      tensors = [sources.tensors[i] for i in group[count:]]
      own = [gradients[i] for i in group[count:]]
      rows: Any = None
      if count and split is not None:
        handle = getattr(source, "handle", source)
        tables = self._tables
        with self._tensors.maker.making(handle.op):
          rows = tables.gradient(handle, [gradients[i] for i in group[:count]])
          if rows is not None and any(x is not None for x in own):
            devices = self._tensors.maker.devices_of(handle.op)
            own = tables.to_shards(rows, split.rows, own, devices)
            rows = None
      if rows is None:
        found.add(tensors, split)
        kept += own
      else:
        found.add([source], split, count)
        kept.append(rows)
    return found, kept

  def contract(self, sources: Sources, gradients: Sequence[Any]) -> list[Any]:
    """Returns the gradients that model_fn gets: concats of those of shards.

    Args:
      sources: The result of `without_lookups`.
      gradients: One for each of its tensors: a tensor, `IndexedSlices` or None.
    """
    found: list[Any] = []
    for source, group, split, count in sources.each():
      if split is None:
        found.append(gradients[group[0]])
      elif count:
        found.append(gradients[group[0]])
        self._tables.add_gradient(found[-1], split.rows)
      else:
        own = [gradients[i] for i in group]
        found.append(self._joined(source, split, own))
    return found

  def _joined(self, source: Any, split: Shard, gradients: Sequence[Any]) -> Any:
    """Returns the gradient of a split source from those of its parts."""
    found = next((x for x in gradients if x is not None), None)
    if found is None:
      return None
    tensor = getattr(source, "handle", source)
    devices = self._tensors.maker.devices_of(tensor.op)
    with self._tensors.maker.making(tensor.op):
      if isinstance(found, tf.IndexedSlices) and split.axis == 0:
        with tf.compat.v1.device(devices[0]):
          return _joined_rows(source.shape.as_list(), split, gradients)
      values = []
      for part, gradient, device in zip(
        self._tensors.parts[tensor.name], gradients, devices, strict=True
      ):
        with tf.compat.v1.device(device):
          own = _zeros(part, found) if gradient is None else gradient
        values.append(getattr(own, "values", own))
      with tf.compat.v1.device(devices[0]):
        if isinstance(split, ByTurns):
          return tf.dynamic_stitch(turns(split), values)
        whole = tf.concat(values, split.axis, name="gradient")
    self._tensors.add(whole, split, values)
    self.joined[whole.name] = split
    if not isinstance(found, tf.IndexedSlices):
      return whole
    shape = tf.constant(source.shape.as_list(), tf.int32)
    return tf.IndexedSlices(whole, found.indices, shape)


def _joined_rows(
  shape: Sequence[int],
  split: Shard,
  gradients: Sequence[tf.IndexedSlices | None],
) -> tf.IndexedSlices:
  """Returns the gradient of some rows of parts, which are rows of the whole.

  Args:
    shape: That of the whole.
    split: How its rows are split.
    gradients: Those of parts; None for one that nothing depends on.
  """
  found = [x for x in gradients if x is not None]
  indices = [
    split.rows.whole(gradient.indices, shard)
    for shard, gradient in enumerate(gradients)
    if gradient is not None
  ]
  return tf.IndexedSlices(
    tf.concat([gradient.values for gradient in found], 0, name="gradient"),
    tf.concat(indices, 0),
    tf.constant(shape, tf.int32),
  )


def _zeros(part: tf.Tensor, other: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
  """Returns the gradient of a part that nothing depends on.

  Args:
    part: The part, or the handle of a shard.
    other: The gradient of another part.

  Returns:
    Zeros of the part's shape; where the other has some rows only, as many.
  """
  if part.dtype != tf.resource:
    return tf.zeros_like(part)
  shape = tf.TensorShape(part.op.get_attr("shape")).as_list()
  if isinstance(other, tf.IndexedSlices):
    num_rows = tf.shape(other.indices)
    return tf.zeros(tf.concat([num_rows, shape[1:]], 0), other.dtype)
  return tf.zeros(shape, other.dtype)
