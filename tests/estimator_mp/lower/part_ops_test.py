"""Part ops: the graph that decisions make, which are written down."""

import estimator_mp  # noqa: F401, before TensorFlow
from compat.private import graph_edits
from estimator_mp.lower.splitting import part_ops
from estimator_mp.model_axis import inference
from estimator_mp.model_axis.decisions import (
  Composite,
  LookUp,
  OwnShard,
  Partial,
  PerPart,
  Reduction,
  Replicate,
  Shard,
)
from tests.estimator_mp.lower import split_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_COLUMNS = Shard(1, (2, 1))
_ROWS = Shard(0, (2, 1))
_X = np.arange(6, dtype=np.float32).reshape(2, 3)


class PartOpsTest(split_case.SplitCase):
  def setUp(self):
    super().setUp()
    self._parts = part_ops.PartOps(self.tensors)

  def _apply(self, ops, decisions):
    """Makes parts; `decisions` are those of tensors' ops, or of ops."""
    by_op = {getattr(x, "op", x): how for x, how in decisions.items()}
    self._parts.apply(
      ops, inference.Inferred(self.tensors.splits, by_op, (), {})
    )

  def _split(self):
    x = self.split_placeholder("x", [2, 3], _COLUMNS)
    return x, self.feed(x, _X)

  def test_a_chain_of_parts_is_never_whole(self):
    x, feed = self._split()
    y = tf.negative(x, "y")
    z = tf.square(y, "z")
    along = PerPart((_COLUMNS,), (_COLUMNS,))
    self._apply([y.op, z.op], {y: along, z: along})
    y_parts, z_parts = (self.tensors.parts[t.name] for t in (y, z))
    self.assertEqual([p.op.inputs[0] for p in z_parts], y_parts)
    self.assertEqual([p.device for p in z_parts], self.devices)
    self.assertEmpty(self.tensors.wholes)
    self.assertTrue(self._parts.is_replaced(y.op))
    self.assertFalse(self._parts.is_replaced(x.op))
    (values,) = self.run_steps(z_parts, feed=feed)
    np.testing.assert_array_equal(np.concatenate(values, 1), _X**2)

  @parameterized.parameters(
    ("Sum", Reduction.SUM, [3.0, 12.0]),
    ("Max", Reduction.MAXIMUM, [2.0, 5.0]),
  )
  def test_partial_results_are_joined_on_the_first_device(
    self, type_, reduction, expected
  ):
    x, feed = self._split()
    op = {"Sum": tf.reduce_sum, "Max": tf.reduce_max}[type_]
    total = op(x, axis=1, name="total")
    reader = tf.negative(total)
    decision = PerPart((_COLUMNS, Replicate()), (Partial(reduction),))
    self._apply([total.op, reader.op], {total: decision})
    whole = self.tensors.whole(total)
    self.assertIs(reader.op.inputs[0], whole)
    self.assertEqual(whole.device, self.devices[0])
    self.assertEqual(whole.shape.as_list(), [2])
    (value,) = self.run_steps(whole, feed=feed)
    self.assertEqual(value.tolist(), expected)

  def test_what_all_parts_make_alike_is_the_first_one_s(self):
    x, _ = self._split()
    rank = tf.raw_ops.Rank(input=x)
    reader = tf.identity(rank)
    self._apply(
      [rank.op, reader.op], {rank: PerPart((_COLUMNS,), (Replicate(),))}
    )
    self.assertEqual(reader.op.inputs[0].device, self.devices[0])

  def test_what_is_whole_reads_a_gather_and_waits_for_parts(self):
    x, feed = self._split()
    y = tf.negative(x, "y")
    with tf.control_dependencies([y]):
      reader = tf.square(x, "reader")
    self._apply([y.op, reader.op], {y: PerPart((_COLUMNS,), (_COLUMNS,))})
    self.assertEqual(reader.op.inputs[0].op.type, "ConcatV2")
    self.assertEqual(
      reader.op.control_inputs, [p.op for p in self.tensors.parts[y.name]]
    )
    (value,) = self.run_steps(reader, feed=feed)
    np.testing.assert_array_equal(value, _X**2)

  def test_other_ops_stand_for_a_composite(self):
    x, feed = self._split()
    y = tf.nn.softmax(x, name="y")

    def build(op, inputs, on_part):
      self.assertIs(op, y.op)
      found = []
      for part, (own,) in enumerate(inputs):
        with on_part(part):
          found.append(tf.exp(own))
      return [found]

    before = tf.no_op("before")
    graph_edits.add_control_inputs(y.op, [before])
    self._apply([y.op], {y: Composite((_COLUMNS,), (_COLUMNS,), build)})
    parts = self.tensors.parts[y.name]
    self.assertEqual([p.device for p in parts], self.devices)
    for part in parts:
      self.assertEqual(part.op.control_inputs, [before])
    (values,) = self.run_steps(parts, feed=feed)
    np.testing.assert_allclose(np.concatenate(values, 1), np.exp(_X), 1e-6)

  def _variable(self, split=_ROWS):
    return self.split_variable("v", _X.T, split)

  def _read(self, variable):
    return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=tf.float32)

  def test_a_write_is_that_of_all_shards(self):
    variable = self._variable()
    value = tf.constant(10 * _X.T)
    write = tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
    self._apply([write], {write: PerPart((OwnShard(), _ROWS), ())})
    first, other = self._parts.writes[write]
    self.assertIs(first, write)
    self.assertEqual(write.control_inputs, [other])
    shards = self.tensors.parts[variable.handle.name]
    self.assertEqual([op.inputs[0] for op in (first, other)], shards)
    self.assertEqual(other.device, self.devices[1])
    _, values = self.run_steps(write, [self.read(x) for x in shards])
    np.testing.assert_array_equal(np.concatenate(values), 10 * _X.T)

  def test_lookups_of_a_table_share_an_exchange(self):
    variable = self._variable()
    found = [
      tf.raw_ops.ResourceGather(
        resource=variable.handle, indices=ids, dtype=tf.float32
      )
      for ids in ([2, 0], [1])
    ]
    reader = tf.concat(found, 0)
    how = LookUp(_ROWS.rows)
    self._apply([*(x.op for x in found), reader.op], dict.fromkeys(found, how))
    self.assertEqual([*reader.op.inputs[:2]], [*map(self.tensors.whole, found)])
    self.assertTrue(self._parts.is_replaced(found[1].op))
    (value,) = self.run_steps(reader)
    np.testing.assert_array_equal(value, _X.T[[2, 0, 1]])

  def test_gradients_of_the_program_s_own_read_shards(self):
    """As that of a recomputation, which reads a variable once more."""
    variable = self._variable()
    read = self._read(variable)
    product = tf.negative(read)
    self.assertTrue(self._parts.read_wholes([read.op, product.op]))
    self.assertFalse(self._parts.read_wholes([product.op]))
    (value,) = self.run_steps(product)
    np.testing.assert_array_equal(value, -_X.T)

  def test_no_gradient_may_write_what_is_split(self):
    variable = self._variable()
    write = tf.raw_ops.AssignVariableOp(
      resource=variable.handle, value=tf.zeros([3, 2]), name="write"
    )
    with self.assertRaisesRegex(
      inference.Unsplittable,
      r"v cannot be split over the model axis: write works on it, and there is "
      r"no rule for such an op \(AssignVariableOp\); keep it whole by the rule "
      r"\('v', None\) before others",
    ):
      self._parts.read_wholes([write])

  def test_a_variable_is_fetched_by_its_name(self):
    variable = self._variable()
    read = self._read(variable)
    self._apply([read.op], {read: PerPart((OwnShard(),), (_ROWS,))})
    is_there = tf.raw_ops.VarIsInitializedOp(resource=variable.handle)
    for op in (read.op, is_there.op):
      self._parts.let_be_fetched(op)
    shard = self.tensors.parts[variable.handle.name][0]
    self.assertIs(is_there.op.inputs[0], shard)
    value, initialized = self.run_steps(read, is_there)
    np.testing.assert_array_equal(value, _X.T)
    self.assertTrue(initialized)

  def test_what_is_made_of_a_phantom_can_be_fetched(self):
    """An op in parts whose own inputs are reads of a variable's handle."""
    variable = self._variable()
    read = self._read(variable)
    y = tf.negative(read, "y")
    self._apply(
      [read.op, y.op],
      {
        read: PerPart((OwnShard(),), (_ROWS,)),
        y: PerPart((_ROWS,), (_ROWS,)),
      },
    )
    (value,) = self.run_steps(y)
    np.testing.assert_array_equal(value, -_X.T)


if __name__ == "__main__":
  absltest.main()
