"""Operands: what each part reads, for each way in which it may read."""

from estimator_mp.model_axis.decisions import (
  ByTurns,
  Constants,
  Owned,
  OwnShard,
  Replicate,
  Resized,
  Shard,
  Shifted,
  Turned,
)
from tests.estimator_mp.lower import split_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_COLUMNS = Shard(1, (2, 1))
_VALUE = np.arange(6, dtype=np.float32).reshape(2, 3)


class OperandsTest(split_case.SplitCase):
  def setUp(self):
    super().setUp()
    self._op = tf.no_op("op")

  def _parts(self, tensor, operand):
    with self.tensors.maker.making(self._op):
      return self.tensors.of_parts(tensor, operand, self.devices)

  def _values(self, parts, feed=None):
    (values,) = self.run_steps(parts, feed=feed)
    return [x.tolist() for x in values]

  def _split(self):
    """Returns a tensor that is split by columns, and what feeds it."""
    whole = self.split_placeholder("x", [2, 3], _COLUMNS)
    return whole, self.feed(whole, _VALUE)

  def test_parts_that_are_there(self):
    x, _ = self._split()
    self.assertIs(self._parts(x, _COLUMNS), self.tensors.parts[x.name])

  def test_parts_of_a_tensor_that_is_whole(self):
    """They are cut where it is, once for all that read them."""
    with tf.device(self.devices[1]):
      whole = v1.placeholder_with_default(_VALUE, [2, 3])
    parts = self._parts(whole, _COLUMNS)
    self.assertEqual([x.op.type for x in parts], ["SplitV"] * 2)
    self.assertEqual([x.device for x in parts], [self.devices[1]] * 2)
    self.assertIs(self._parts(whole, _COLUMNS), parts)
    self.assertEqual(
      self._values(parts), [_VALUE[:, :2].tolist(), _VALUE[:, 2:].tolist()]
    )

  def test_parts_of_a_tensor_that_is_split_otherwise(self):
    x, feed = self._split()
    parts = self._parts(x, Shard(0, (1, 1)))
    self.assertEqual(
      self._values(parts, feed), [_VALUE[:1].tolist(), _VALUE[1:].tolist()]
    )

  def test_zeros_are_made_where_they_are_read(self):
    parts = self._parts(
      tf.zeros_like(v1.placeholder(tf.float32, [2, 3])), _COLUMNS
    )
    self.assertNotIn("SplitV", [x.op.type for x in parts])
    fills = self._parts(tf.fill([2, 3], 4.0), _COLUMNS)
    self.assertEqual([x.op.type for x in fills], ["Fill"] * 2)
    self.assertEqual([x.device for x in fills], self.devices)
    self.assertEqual(self._values(fills), [[[4.0, 4.0]] * 2, [[4.0]] * 2])

  def test_each_part_gathers_what_it_reads_whole(self):
    """So that no part is sent to the first device and back."""
    x, feed = self._split()
    wholes = self._parts(x, Replicate())
    self.assertEqual([y.op.type for y in wholes], ["ConcatV2"] * 2)
    self.assertEqual([y.device for y in wholes], self.devices)
    self.assertIs(self.tensors.whole(x), wholes[0])
    self.assertEqual(self._parts(x, Replicate()), wholes)
    self.assertEqual(self._values(wholes, feed), [_VALUE.tolist()] * 2)

  def test_all_read_one_whole_tensor(self):
    whole = v1.placeholder_with_default(_VALUE, [2, 3])
    self.assertEqual(self._parts(whole, Replicate()), [whole] * 2)

  def test_a_small_constant_is_on_each_device(self):
    constant = tf.constant([1, 2])
    first, other = self._parts(constant, Replicate())
    self.assertIs(first, constant)
    self.assertEqual((other.op.type, other.device), ("Const", self.devices[1]))
    self.assertEqual(tf.get_static_value(other).tolist(), [1, 2])
    self.assertIs(self._parts(constant, Replicate())[1], other)

  def test_a_handle_s_shards(self):
    variable = self.split_variable("v", _VALUE, _COLUMNS)
    handles = self._parts(variable.handle, OwnShard())
    self.assertEqual([x.op.name for x in handles], ["v/part_0", "v/part_1"])

  def test_constants_of_parts(self):
    values = (np.array([1, 0]), np.array([0, 2]))
    parts = self._parts(tf.constant([1, 2]), Constants(values))
    self.assertEqual([x.device for x in parts], self.devices)
    self.assertEqual(
      [tf.get_static_value(x).tolist() for x in parts], [[1, 0], [0, 2]]
    )

  def test_a_shape_that_names_the_size_of_a_part(self):
    rows = v1.placeholder(tf.int32, [])
    parts = self._parts(tf.stack([rows, 3]), Resized(1, (2, 1)))
    self.assertEqual(self._values(parts, {rows: 7}), [[7, 2], [7, 1]])
    self.assertEqual(
      [tf.get_static_value(x, partial=True)[1] for x in parts], [2, 1]
    )

  def test_indices_count_from_the_first_of_a_part(self):
    indices = tf.constant([0, 4, 2])
    first, second = self._parts(indices, Shifted((0, 2)))
    self.assertIs(first, indices)
    self.assertEqual(second.device, self.devices[1])
    self.assertEqual(self._values([second]), [[-2, 2, 0]])

  def test_rows_that_take_turns(self):
    whole = v1.placeholder_with_default(_VALUE, [2, 3])
    parts = self._parts(whole, Turned(ByTurns(0, (1, 1))))
    self.assertEqual(
      self._values(parts), [_VALUE[::2].tolist(), _VALUE[1::2].tolist()]
    )

  def test_rows_that_are_all_the_same_take_no_turns(self):
    parts = self._parts(tf.fill([3, 2], 1.0), Turned(ByTurns(0, (2, 1))))
    self.assertEqual([x.op.type for x in parts], ["Fill"] * 2)
    self.assertEqual([len(x) for x in self._values(parts)], [2, 1])

  def test_inputs_of_a_sparse_update(self):
    """Those that shards own are asked of the tables, others are not."""
    variable = self.split_variable("v", _VALUE.T, Shard(0, (2, 1)))
    update = tf.raw_ops.ResourceScatterUpdate(
      resource=variable.handle,
      indices=tf.constant([2, 0]),
      updates=tf.constant([[20.0, 21.0], [0.0, 1.0]]),
    )
    owned = Owned(Shard(0, (2, 1)).rows, indices=1)
    handles, ids, values = self.tensors.inputs(
      update, [OwnShard(), owned, owned], self.devices
    )
    self.assertEqual(handles, self.tensors.parts[variable.handle.name])
    self.assertEqual(self._values(ids), [[0], [0]])
    self.assertEqual(self._values(values), [[[0.0, 1.0]], [[20.0, 21.0]]])


if __name__ == "__main__":
  absltest.main()
