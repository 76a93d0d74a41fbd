"""The exchange of rows: what one table gives, from shards on devices."""

from estimator_mp.collectives import exchange
from estimator_mp.collectives.exchange import Ownership, RowOwners
from tests.estimator_mp.collectives import device_steps

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_LEADER = "/device:CPU:0"
_DIV = RowOwners((4, 3, 3))
_MOD = RowOwners((4, 3, 3), Ownership.MOD)
_OWNERSHIPS = (("div", _DIV), ("mod", _MOD))
_table = np.random.RandomState(5).randn(10, 2).astype(np.float32)


def _rows_of_shard(rows, shard, table):
  """Returns the rows of a table that a shard owns."""
  if rows.ownership is Ownership.MOD:
    return table[shard :: len(rows.sizes)]
  return np.split(table, rows.offsets[1:])[shard]


class _Shards:
  """A table of the default graph, on a device for each shard."""

  def __init__(self, rows, table=_table):
    self.rows = rows
    self.devices = device_steps.devices_of(len(rows.sizes))
    self.variables = []
    for shard, device in enumerate(self.devices):
      with tf.device(device):
        own = _rows_of_shard(rows, shard, table)
        self.variables.append(
          v1.get_variable(
            f"shard_{shard}",
            initializer=own,
            use_resource=True,
          )
        )

  def gathers(self):
    return [
      lambda ids, variable=variable: tf.raw_ops.ResourceGather(
        resource=variable.handle, indices=ids, dtype=variable.dtype
      )
      for variable in self.variables
    ]

  def look_up(self, lookups, leader=_LEADER):
    """Returns rows for all lookups, by one exchange."""
    joined = exchange.joined_ids(lookups, leader)
    route = exchange.route(joined, self.rows, leader)
    distinct = exchange.distinct_rows(
      route, self.gathers(), self.devices, leader
    )
    return [
      exchange.rows_of(order, distinct, leader)
      for order in exchange.cut_like(route.order, lookups, leader)
    ]

  def joined(self, values):
    """Returns the table of the values of shards."""
    if self.rows.ownership is Ownership.DIV:
      return np.concatenate(values)
    table = np.empty([self.rows.size, *values[0].shape[1:]], values[0].dtype)
    for shard, own in enumerate(values):
      table[shard :: len(values)] = own
    return table


class LookUpTest(parameterized.TestCase):
  @parameterized.product(
    rows=[_DIV, _MOD, RowOwners((5, 5)), RowOwners((1, 0, 8, 1))],
    dtype=[tf.int32, tf.int64],
  )
  def test_equals_a_gather_of_the_table(self, rows, dtype):
    """Lookups of any shape: repeated ids, of one shard, none at all."""
    asked = [
      np.array([[3, 3, 9], [0, 7, 3]]),
      np.array(4),
      np.zeros([0], int),
      np.array([[[9]], [[0]]]),
    ]
    for known in (True, False):
      with tf.Graph().as_default():
        shards = _Shards(rows)
        lookups = [
          v1.placeholder(dtype, x.shape if known else [None] * x.ndim)
          for x in asked
        ]
        found = shards.look_up(lookups)
        alone = shards.look_up(lookups[:1])
        whole = tf.constant(_table)
        for tensor, ids in zip(found, lookups, strict=True):
          expected = tf.gather(whole, ids).shape
          self.assertEqual(tensor.shape.as_list(), expected.as_list())
          self.assertEqual(tensor.device, _LEADER)
        feed = dict(zip(lookups, asked, strict=True))
        for values in (
          device_steps.run(found, feed),
          device_steps.run(alone, feed),
        ):
          for value, ids in zip(values, asked, strict=False):
            np.testing.assert_array_equal(value, _table[ids])

  def test_dtypes_of_ids_may_differ_and_their_rank_be_unknown(self):
    with tf.Graph().as_default():
      shards = _Shards(_DIV)
      lookups = [v1.placeholder(tf.int32), v1.placeholder(tf.int64, [None])]
      found = shards.look_up(lookups, shards.devices[2])
      self.assertIsNone(found[0].shape.rank)
      asked = [np.array([[1, 5], [9, 1]]), np.array([9])]
      values = device_steps.run(found, dict(zip(lookups, asked, strict=True)))
      self.assertEqual(found[1].device, shards.devices[2])
    for value, ids in zip(values, asked, strict=True):
      np.testing.assert_array_equal(value, _table[ids])

  def test_rows_of_any_rank(self):
    for shape in ((10,), (10, 2, 3)):
      table = np.random.RandomState(1).randn(*shape)
      with tf.Graph().as_default():
        ids = v1.placeholder(tf.int64, [2, None])
        (found,) = _Shards(_MOD, table).look_up([ids])
        self.assertEqual(found.shape.as_list(), [2, None, *shape[1:]])
        asked = np.array([[9, 0, 9], [4, 5, 6]])
        value = device_steps.run(found, {ids: asked})
      np.testing.assert_array_equal(value, table[asked])

  @parameterized.product(rows=[_DIV, _MOD], bad=[-1, 10, 2**31])
  def test_an_id_without_a_row_fails(self, rows, bad):
    with tf.Graph().as_default():
      ids = v1.placeholder(tf.int64, [None])
      (found,) = _Shards(rows).look_up([ids])
      with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "indices"):
        device_steps.run(found, {ids: [3, bad]})

  @parameterized.named_parameters(*_OWNERSHIPS)
  def test_each_id_is_sent_once_and_only_to_its_owner(self, rows):
    asked = [[7, 7, 1], [1, 9, 7]]
    with tf.Graph().as_default():
      shards = _Shards(rows)
      lookups = [v1.placeholder(tf.int64, [3]) for _ in asked]
      route = exchange.route(
        exchange.joined_ids(lookups, _LEADER), rows, _LEADER
      )
      feed = dict(zip(lookups, asked, strict=True))
      local_ids, counts = device_steps.run(
        [route.local_ids, route.counts], feed
      )
      gathers = [
        op
        for x in shards.look_up(lookups)
        for op in x.graph.get_operations()
        if op.type == "ResourceGather"
      ]
    self.assertLen(set(gathers), 3)  # Both lookups by one exchange.
    self.assertEqual(sum(counts), 3)
    ids = np.arange(10)[:, np.newaxis]
    for shard, own in enumerate(local_ids):
      owned = _rows_of_shard(rows, shard, ids)[:, 0]
      self.assertCountEqual(owned[own], {1, 7, 9} & {*owned})

  @parameterized.named_parameters(*_OWNERSHIPS)
  def test_gradients_flow_to_shards(self, rows):
    asked = [np.array([[3, 3, 9], [0, 7, 3]]), np.array([9, 4])]
    with tf.Graph().as_default():
      shards = _Shards(rows)
      whole = v1.get_variable("whole", initializer=_table, use_resource=True)
      lookups = [v1.placeholder(tf.int64, x.shape) for x in asked]

      def loss(found):
        return tf.add_n([tf.reduce_sum(tf.sin(x) * x) for x in found])

      ours = tf.gradients(loss(shards.look_up(lookups)), shards.variables)
      (plain,) = tf.gradients(
        loss([tf.gather(whole, x) for x in lookups]), [whole]
      )
      ours, plain = device_steps.run(
        [
          [tf.convert_to_tensor(x) for x in ours],
          tf.convert_to_tensor(plain),
        ],
        dict(zip(lookups, asked, strict=True)),
      )
    np.testing.assert_allclose(shards.joined(ours), plain, rtol=1e-6)


if __name__ == "__main__":
  absltest.main()
