"""Gradient rows: which rows of slices' sparse gradients are one of the batch's.

A lookup's gradient has a row for each id that was looked up. `tf.gather` looks
up an id as often as it is there, so the slices' rows, one after another, are
those of the batch. `embedding_lookup_sparse` and feature columns make the ids
distinct first, and so a word of two slices has two rows where the plain model
has one: their sum. An optimizer adds up repeated rows; a norm, as for clipping,
does not. What makes ids distinct is found here by going back from the numbers
of the rows to the model's inputs.
"""

import dataclasses
from collections.abc import Callable, Iterable

from estimator_mp.graph import functions, op_types, traversal
from estimator_mp.graph.gradient import Repeats
from estimator_mp.pipeline import example_axes, merges
from estimator_mp.pipeline.example_axes import Kind
from estimator_mp.pipeline.merges import Merge

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Origin:
  """Where numbers of rows are from.

  Attributes:
    repeats: How the rows are merged with those of other slices.
    keys: What tells distinct rows apart, before `partition`.
    partition: The op that parts them, if one does, and the number of the part.
  """

  repeats: Repeats
  keys: tf.Tensor | None = None
  partition: tuple[tf.Operation, int] | None = None


@dataclasses.dataclass(frozen=True)
class FoundRows:
  """Some rows of the first slice's gradient.

  Attributes:
    indices: Their numbers in the table.
    origin: Where these are from.
  """

  indices: tf.Tensor
  origin: Origin

  @property
  def has_own_keys(self) -> bool:
    """Whether the numbers of the rows are what tells them apart."""
    keys, partition = self.origin.keys, self.origin.partition
    return (
      keys is not None
      and partition is None
      and _seen_through(self.indices).name == keys.name
    )


@dataclasses.dataclass(frozen=True)
class Group:
  """Rows that one tensor holds.

  Attributes:
    values: The tensor, of the first slice.
    rows: Which rows it holds, one after another.
  """

  values: tf.Tensor
  rows: tuple[FoundRows, ...]


_LISTED = Origin(Repeats.NONE)
_SAME = Origin(Repeats.SAME)
_UNKNOWN = Origin(Repeats.UNKNOWN)


class RowFinder:
  """Finds the rows of the sparse gradients of one graph."""

  def __init__(
    self,
    axes: example_axes.ExampleAxes,
    rules: merges.MergeRules,
    differs: Callable[[tf.Tensor], bool],
  ):
    """Starts without a gradient.

    Args:
      axes: Where tensors have their examples.
      rules: How tensors are merged.
      differs: Whether a tensor differs between slices.
    """
    self._axes = axes
    self._rules = rules
    self._differs = differs
    self._known: dict[str, Origin] = {}

  def groups(self, values: tf.Tensor, indices: tf.Tensor) -> tuple[Group, ...]:
    """Returns the rows of a gradient, lookup by lookup.

    Args:
      values: The rows of the first slice's gradient.
      indices: Their numbers in the table.
    """
    if values.op.type == indices.op.type == "ConcatV2" and (
      len(values.op.inputs) == len(indices.op.inputs)
    ):
      return tuple(
        group
        for pair in zip(
          values.op.inputs[:-1], indices.op.inputs[:-1], strict=True
        )
        for group in self.groups(*pair)
      )
    return (Group(values, tuple(self._rows(indices))),)

  def _rows(self, indices: tf.Tensor) -> list[FoundRows]:
    """Returns numbers of rows, cut where those of several lookups meet."""
    if self._differs(indices):
      self._axes.add([indices])
    source = _seen_through(indices)
    if (
      source.op.type == "ConcatV2"
      and all(x.shape.rank == 1 for x in source.op.inputs[:-1])
      and self._differs(source)
      and self._axes.of(source).kind is not Kind.ROWS
    ):
      return [x for part in source.op.inputs[:-1] for x in self._rows(part)]
    return [FoundRows(indices, self._origin(indices))]

  def _origin(self, tensor: tf.Tensor) -> Origin:
    if tensor.name not in self._known:
      self._known[tensor.name] = _UNKNOWN  # Should it lead to itself.
      self._known[tensor.name] = self._find(tensor)
    return self._known[tensor.name]

  def _find(self, tensor: tf.Tensor) -> Origin:
    op = tensor.op
    if self._rules.of(tensor) is Merge.FIRST:
      return _SAME
    if self._axes.is_input(tensor) or self._axes.of(tensor).kind is Kind.ROWS:
      return _LISTED
    number = [x.name for x in op.outputs].index(tensor.name)
    found = op_types.DISTINCT_OUTPUTS.get(op.type)
    if found is not None:
      return self._of_distinct(tensor, found == number)
    if op.type == "Range":
      return Origin(Repeats.SORTED, tensor)
    if op.type in op_types.VIEWS:
      return self._origin(op.inputs[0])
    if op.type == "DynamicPartition":
      return self._of_partition(op, number)
    if op.type in op_types.GATHERS or op.type == "GatherV2":
      return self._of_gather(op)
    if op.type in op_types.BY_ELEMENT:
      return self._of_elements(op.inputs)
    return self._of_any(tensor)

  def _of_distinct(self, tensor: tf.Tensor, is_distinct: bool) -> Origin:
    """Returns the origin of what an op gives that finds distinct ids."""
    op = tensor.op
    before = self._origin(op.inputs[1 if op.type in op_types.SORTS_IDS else 0])
    if before.repeats is Repeats.UNKNOWN:
      return _UNKNOWN
    if not is_distinct:
      return before
    is_sorted = op.type in op_types.SORTS_IDS
    return Origin(Repeats.SORTED if is_sorted else Repeats.DISTINCT, tensor)

  def _of_partition(self, op: tf.Operation, number: int) -> Origin:
    """Returns the origin of some of the ids that an op parts."""
    before = self._origin(op.inputs[0])
    if before.repeats is Repeats.NONE:
      return before
    if before.keys is None or before.partition is not None:
      return _UNKNOWN
    return dataclasses.replace(before, partition=(op, number))

  def _of_gather(self, op: tf.Operation) -> Origin:
    """Returns the origin of what is looked up: of ids, or some of these."""
    data, ids = (self._origin(x) for x in op.inputs[:2])
    if data.repeats is Repeats.SAME:
      return ids
    is_known = data.repeats is not Repeats.UNKNOWN
    if is_known and ids.repeats is Repeats.NONE:
      return _LISTED
    return _UNKNOWN

  def _of_elements(self, tensors: Iterable[tf.Tensor]) -> Origin:
    """Returns the origin of what is made of other numbers, one by one."""
    found = {
      (x.repeats, x.keys.name if x.keys is not None else "", x.partition): x
      for x in map(self._origin, tensors)
      if x.repeats is not Repeats.SAME
    }
    if len(found) == 1:
      return next(iter(found.values()))
    return _UNKNOWN if found else _SAME

  def _of_any(self, tensor: tf.Tensor) -> Origin:
    """Returns whether something before a tensor may make ids distinct."""

    def is_end(x: tf.Tensor) -> bool:
      return (
        not self._differs(x)
        or x.op.type in op_types.SHAPE_ONLY
        or self._axes.is_input(x)
        or (x is not tensor and self._axes.of(x).kind is Kind.ROWS)
      )

    for x in traversal.tensors_before([tensor], is_end):
      if not is_end(x) and self._may_be_distinct(x.op):
        return _UNKNOWN
    return _LISTED

  def _may_be_distinct(self, op: tf.Operation) -> bool:
    if op.type == "Where":  # Which of all words are there, say.
      return self._axes.of(op.inputs[0]).kind is Kind.NONE
    return functions.any_op(op, op_types.MIXES_IDS.__contains__)


def _seen_through(tensor: tf.Tensor) -> tf.Tensor:
  """Returns what has the same numbers."""
  while tensor.op.type in (*op_types.VIEWS, "Cast"):
    tensor = tensor.op.inputs[0]
  return tensor


def are_unknown(groups: Iterable[Group]) -> bool:
  """Whether it is not known how some rows are merged.

  Args:
    groups: The rows of a gradient.
  """
  return any(
    rows.origin.repeats is Repeats.UNKNOWN
    for group in groups
    for rows in group.rows
  )


def reader_of_list(values: tf.Tensor) -> tf.Operation | None:
  """Returns an op to which it matters how often rows are listed, if any.

  To what adds up repeated rows, as an optimizer does, it does not.

  Args:
    values: The rows of a gradient that model_fn got.
  """

  def after(op: tf.Operation) -> list[tf.Operation]:
    is_passed = op is values.op or op.type in op_types.SCALES
    return traversal.consumers(op) if is_passed else []

  known = (*op_types.SCALES, *op_types.ADDS_ROWS, *op_types.SHAPE_ONLY)
  for op in traversal.walk([values.op], after):
    if op is not values.op and op.type not in known:
      return op
  return None


def unknown_rows(
  variable: str, gradient: tf.IndexedSlices, reader: tf.Operation
) -> str:
  """Returns the text of an error.

  Args:
    variable: The name of the variable.
    gradient: Its gradient.
    reader: What reads its rows as they are listed.
  """
  return (
    f"{reader.name} reads the rows of the gradient of {variable} as they are "
    f"listed in {gradient.values.name}, but it is not known which of the rows "
    "that micro-batches and replicas list are one row of the whole batch's; "
    "find distinct ids by tf.unique, outside of functions, let it read "
    "tf.convert_to_tensor(gradient), or use num_micro_batches=1 and no data "
    "axis"
  )
