"""Tables that are split by rows: what is looked up, and the way back."""

from estimator_mp.model_axis.decisions import ByTurns, LookUp, Owned, Shard
from tests.estimator_mp.lower import split_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_TABLE = np.arange(10, dtype=np.float32).reshape(5, 2)
_IDS = [[4, 0], [1, 4]]
_SPLITS = (
  ("in_order", Shard(0, (3, 2))),
  ("by_turns", ByTurns(0, (3, 2))),
  ("on_one_device", Shard(0, (0, 5))),
)


class TablesTest(split_case.SplitCase):
  def setUp(self):
    super().setUp()
    self._tables = self.tensors.tables

  def _start_with(self, split):
    """Makes the table, and returns its shards."""
    self._variable = self.split_variable("table", _TABLE, split)
    self._handle = self._variable.handle
    return self.tensors.parts[self._handle.name]

  def _gather(self, ids, dtype=tf.int32):
    """Returns a lookup of the whole table, which no session runs."""
    return tf.raw_ops.ResourceGather(
      resource=self._handle, indices=tf.constant(ids, dtype), dtype=tf.float32
    ).op

  def _look_up(self, split, *lookups):
    handles = self._start_with(split)
    ops = [self._gather(*lookup) for lookup in lookups]
    return self._tables.look_up(
      ops, LookUp(split.rows), handles, self.devices[0]
    )

  @parameterized.named_parameters(*_SPLITS)
  def test_lookups_get_rows_of_all_shards(self, split):
    found = self._look_up(split, (_IDS,), ([3, 3, 3], tf.int64))
    self.assertEqual([x.shape.as_list() for x in found], [[2, 2, 2], [3, 2]])
    self.assertEqual([x.device for x in found], [self.devices[0]] * 2)
    (values,) = self.run_steps(found)
    np.testing.assert_array_equal(values[0], _TABLE[np.array(_IDS)])
    np.testing.assert_array_equal(values[1], _TABLE[[3, 3, 3]])
    self.assertEqual(self._tables.sources(self._handle.name), found)

  def test_each_shard_gathers_once_for_all_lookups(self):
    self._look_up(Shard(0, (3, 2)), ([4, 0],), ([1, 4],))
    gathers = [
      op.device
      for op in self.ops()
      if op.type == "ResourceGather" and op.inputs[0] is not self._handle
    ]
    self.assertEqual(gathers, self.devices)

  def test_no_device_without_rows_is_asked(self):
    self._look_up(Shard(0, (0, 5)), (_IDS,))
    reads = [
      op.inputs[0].op.name
      for op in self.ops()
      if op.type == "ResourceGather" and op.inputs[0] is not self._handle
    ]
    self.assertEqual(reads, ["table/part_1"])

  @parameterized.named_parameters(*_SPLITS)
  def test_the_gradient_is_that_of_the_plain_table(self, split):
    rows, others = self._look_up(split, (_IDS,), ([2],))
    del others  # Nothing depends on these.
    weights = np.random.RandomState(2).randn(2, 2, 2).astype(np.float32)
    found = self._tables.gradient(self._handle, [rows * 0.0 + weights, None])
    (value,) = self.run_steps(found)
    dense = np.zeros([5, 2], np.float32)
    np.add.at(dense, value.indices, value.values)
    expected = np.zeros([5, 2], np.float32)
    np.add.at(expected, np.array(_IDS), weights)
    np.testing.assert_allclose(dense, expected)
    self.assertEqual(value.dense_shape.tolist(), [5, 2])

  def test_there_may_be_no_gradient(self):
    self._look_up(Shard(0, (3, 2)), (_IDS,))
    self.assertIsNone(self._tables.gradient(self._handle, [None]))

  @parameterized.named_parameters(*_SPLITS)
  def test_gradients_of_shards(self, split):
    """A table that is read whole, too, has dense gradients."""
    self._start_with(split)
    ids = [4, 1, 4]
    values = np.random.RandomState(2).randn(3, 2).astype(np.float32)
    found = self._tables.to_shards(
      tf.IndexedSlices(tf.constant(values), tf.constant(ids)),
      split.rows,
      [None, tf.ones([split.sizes[1], 2])],
      self.devices,
    )
    expected = np.zeros([5, 2], np.float32)
    np.add.at(expected, ids, values)
    parts = [expected[x] for x in self._rows(split)]
    parts[1] = parts[1] + 1.0
    (made,) = self.run_steps(found)
    for ours, theirs in zip(made, parts, strict=True):
      np.testing.assert_allclose(ours, theirs, 1e-6)

  def _rows(self, split):
    """Returns which rows of the table each shard has."""
    if isinstance(split, ByTurns):
      return [[*range(i, 5, 2)] for i in range(2)]
    return [
      [*range(start, start + size)]
      for start, size in zip(split.offsets, split.sizes, strict=True)
    ]

  def _check_update(self, split, update, expected):
    """Runs a write of rows on each shard, and compares what these have then."""
    operand = Owned(split.rows, indices=1)
    shards = self.tensors.parts[self._handle.name]
    ids, values = (
      self._tables.owned(update, index, operand, self.devices)
      for index in (1, 2)
    )
    writes = [
      tf.raw_ops.ResourceScatterUpdate(resource=x, indices=i, updates=u)
      for x, i, u in zip(shards, ids, values, strict=True)
    ]
    _, found = self.run_steps(writes, [self.read(x) for x in shards])
    for part, rows in zip(found, self._rows(split), strict=True):
      np.testing.assert_array_equal(part, expected[rows])

  def _update(self, ids, values):
    """Returns a write of the whole table, which no session runs."""
    return tf.raw_ops.ResourceScatterUpdate(
      resource=self._handle, indices=ids, updates=values
    )

  @parameterized.named_parameters(*_SPLITS)
  def test_an_update_of_rows_is_one_of_each_shard(self, split):
    self._start_with(split)
    ids, values = [4, 1, 3], [[40.0, 41.0], [10.0, 11.0], [30.0, 31.0]]
    expected = _TABLE.copy()
    expected[ids] = values
    update = self._update(tf.constant(ids), tf.constant(values))
    self._check_update(split, update, expected)

  @parameterized.named_parameters(*_SPLITS)
  def test_distinct_ids_are_sorted_by_owner(self, split):
    """An optimizer sums the rows of each, and a shard's are a slice of them."""
    (rows,) = self._look_up(split, (_IDS,))
    gradient = self._tables.gradient(self._handle, [tf.ones_like(rows)])
    self._tables.add_gradient(gradient, split.rows)
    unique = tf.raw_ops.Unique(x=gradient.indices)
    sums = tf.math.unsorted_segment_sum(
      gradient.values, unique.idx, tf.shape(unique.y)[0]
    )
    update = self._update(unique.y, sums)
    self.assertTrue(self._tables.finds_distinct_ids(unique.y.op))
    ids, order = self._tables.sorted_by_owner(unique.y.op, self.devices[0])
    self.tensors.wholes[unique.y.name] = ids
    count = len(self.ops())
    operand = Owned(split.rows, indices=1)
    self._tables.owned(update, 1, operand, self.devices)
    made = {op.type for op in self.ops()[count:]}
    self.assertContainsSubset(made, {"Const", "Fill"})  # None is sorted again.
    self.tensors.wholes[sums.name] = tf.math.unsorted_segment_sum(
      gradient.values, order, tf.size(ids)
    )
    expected = _TABLE.copy()
    expected[[0, 1]], expected[4] = 1.0, 2.0  # How often each is asked for.
    self._check_update(split, update, expected)

  def test_whoever_depends_on_the_order_finds_them_as_they_were(self):
    (rows,) = self._look_up(Shard(0, (3, 2)), (_IDS,))
    gradient = self._tables.gradient(self._handle, [tf.ones_like(rows)])
    other = tf.raw_ops.Unique(x=gradient.indices)
    self.assertFalse(self._tables.finds_distinct_ids(other.y.op))  # Unknown.
    self._tables.add_gradient(gradient, Shard(0, (3, 2)).rows)
    self.assertTrue(self._tables.finds_distinct_ids(other.y.op))
    tf.negative(other.y)
    self.assertFalse(self._tables.finds_distinct_ids(other.y.op))


if __name__ == "__main__":
  absltest.main()
