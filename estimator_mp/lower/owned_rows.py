"""Rows by owner: updates of a table whose rows are split.

Each part gets the rows of an update that it owns. Of a result as large as the
table, such as the sum of a gradient's rows, each makes its own part, and leaves
out the rows of others.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from estimator_mp.graph.definitions import Definitions

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class OwnedRows:
  """The rows of an update that a part owns.

  Attributes:
    places: The places of rows in the part; any for those of others.
    are_owned: Whether it owns them.
  """

  places: str
  are_owned: str


class Owners:
  """Adds the ops of one update to definitions."""

  def __init__(self, definitions: Definitions, scope: str):
    """Starts with none.

    Args:
      definitions: Where ops are added.
      scope: The beginning of their names.
    """
    self._definitions = definitions
    self._scope = scope

  def owned(
    self, rows: str, part: int, sizes: Sequence[int], dtype: tf.DType
  ) -> OwnedRows:
    """Returns the rows that a part owns.

    A row that nobody has is the first part's, or the last one's, which will
    complain of it.

    Args:
      rows: The numbers of rows.
      part: The number of the part.
      sizes: How many each part has.
      dtype: The type of these numbers.
    """
    begin, places = sum(sizes[:part]), rows
    if begin:
      places = self._add("Sub", rows, self._constant(begin, dtype), T=dtype)
    tests = []
    if part:
      zero = self._constant(0, dtype)
      tests.append(self._add("GreaterEqual", places, zero, T=dtype))
    if part + 1 < len(sizes):
      size = self._constant(sizes[part], dtype)
      tests.append(self._add("Less", places, size, T=dtype))
    first, *others = tests
    are_owned = self._add("LogicalAnd", first, *others) if others else first
    return OwnedRows(places, are_owned)

  def owned_cyclic(
    self, rows: str, part: int, sizes: Sequence[int], dtype: tf.DType
  ) -> OwnedRows:
    """Returns the rows that a part owns if they go to parts by turns.

    Args:
      rows: As for `owned`, and so are the other arguments.
      part: As there.
      sizes: As there.
      dtype: As there.
    """
    of_all = self._constant(len(sizes), dtype)
    turn = self._add("FloorMod", rows, of_all, T=dtype)
    are_owned = self._add("Equal", turn, self._constant(part, dtype), T=dtype)
    return OwnedRows(self._add("FloorDiv", rows, of_all, T=dtype), are_owned)

  def or_none(self, rows: OwnedRows, dtype: tf.DType) -> str:
    """Returns places that a part owns, and for those of others one of nobody.

    Args:
      rows: The rows that it owns.
      dtype: The type of places.
    """
    nobody = dtype.max if dtype.is_unsigned else -1
    other = self._constant(nobody, dtype)
    return self._add("SelectV2", rows.are_owned, rows.places, other, T=dtype)

  def numbers(self, rows: OwnedRows) -> str:
    """Returns the numbers, among all rows of an update, of those of a part.

    Args:
      rows: The rows that it owns.
    """
    vector = self._constant([-1], tf.int32)
    are_owned = self._add(
      "Reshape", rows.are_owned, vector, T=tf.bool, Tshape=tf.int32
    )
    positions = self._add("Where", are_owned, T=tf.bool)
    return self._add("Reshape", positions, vector, T=tf.int64, Tshape=tf.int32)

  def taken(self, numbers: str, values: str, dtype: tf.DType) -> str:
    """Returns entries of the first dimension.

    Args:
      numbers: The result of `numbers`.
      values: A tensor with an entry for each row.
      dtype: Its type.
    """
    dim = self._constant(0, tf.int32)
    return self._add(
      "GatherV2",
      *(values, numbers, dim),
      Tparams=dtype,
      Tindices=tf.int64,
      Taxis=tf.int32,
      batch_dims=0,
    )

  def _add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
    name = f"{self._scope}/{op_type}"
    return self._definitions.add(op_type, name, inputs, **attributes)

  def _constant(self, value: Any, dtype: tf.DType) -> str:
    return self._definitions.constant(f"{self._scope}/constant", value, dtype)
