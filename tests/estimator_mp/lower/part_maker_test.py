"""Part maker: copies of an op for parts, and single ops, on their devices."""

from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.model_axis.decisions import PerPart, Replicate, Shard
from tests.estimator_mp.lower import split_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class PartMakerTest(split_case.SplitCase):
  def setUp(self):
    super().setUp()
    self._maker = self.tensors.maker
    self._op = tf.no_op("op")

  def _make(self, name, *arguments):
    """Returns what the maker makes for an op of the model."""
    with self._maker.making(self._op):
      return getattr(self._maker, name)(*arguments)

  def _copies(self, op, *inputs, **more):
    with self._maker.making(op):
      return self._maker.copies(op, [[x] for x in inputs], self.devices, **more)

  def test_what_is_made_for_an_op_is_named_after_it(self):
    with (
      tf.name_scope("elsewhere"),
      tf.device(self.devices[1]),
      tf.control_dependencies([self._op]),
      self._maker.making(self._op),
    ):
      made = tf.constant(1.0, name="made").op
    self.assertEqual(made.name, "estimator_mp/split/op/made")
    self.assertEqual((made.device, made.control_inputs), ("", []))
    self.assertEqual(self.ledger.role(made), ledger_lib.Role.PART)
    self.assertIs(self.ledger.made_for[made], self._op)

  def test_a_copy_for_each_part(self):
    parts = [tf.constant([float(i)]) for i in range(2)]
    with tf.device("/device:CPU:7"):
      op = tf.negative(tf.constant([1.0, 2.0]), "negative").op
    copies = self._copies(op, *parts)
    self.assertEqual([x.type for x in copies], ["Neg"] * 2)
    self.assertEqual([x.device for x in copies], self.devices)
    self.assertEqual([x.inputs[0] for x in copies], parts)
    self.assertEqual(
      [x.name for x in copies],
      [f"estimator_mp/split/negative/part_{i}" for i in range(2)],
    )

  def test_attributes_of_parts(self):
    op = tf.raw_ops.Split(axis=0, value=tf.zeros([6]), num_split=3)[0].op
    axis = op.inputs[0]
    counts = [tf.compat.v1.AttrValue(i=count) for count in (1, 2)]
    decision = PerPart(
      (Replicate(), Shard(0, (2, 4))),
      (Shard(0, (1, 2)),),
      tuple({"num_split": x} for x in counts),
    )
    with self._maker.making(op):
      copies = self._maker.copies(
        op,
        [[axis, tf.zeros([2])], [axis, tf.zeros([4])]],
        self.devices,
        decision,
      )
    self.assertEqual([len(x.outputs) for x in copies], [1, 2])

  def test_copies_wait_for_what_stands_for_others(self):
    parted, once = tf.no_op("parted"), tf.no_op("once")
    read = tf.constant(1.0)
    with tf.control_dependencies([parted, once]):
      op = tf.identity(read, "waits").op
    stands = [tf.no_op("stands_0"), tf.no_op("stands_1")]
    self._maker.instead[parted] = stands
    for copy in self._copies(op, tf.constant(1.0), tf.constant(2.0)):
      self.assertCountEqual(copy.control_inputs, [*stands, once])

  def test_parts_are_beside_the_shards_of_their_op_s_variable(self):
    variable = self.split_variable("v", np.ones([4, 3]), Shard(0, (2, 2)))
    with v1.colocate_with(variable.op):
      op = tf.negative(tf.constant([1.0])).op
    copies = self._copies(op, tf.constant([1.0]), tf.constant([2.0]))
    self.assertEqual(
      [x.colocation_groups() for x in copies],
      [[b"loc:@v/part_0"], [b"loc:@v/part_1"]],
    )
    self.assertEqual([x.device for x in copies], self.devices)

  def test_a_write_that_is_of_a_shard_is_beside_it(self):
    variable = self.split_variable("v", np.ones([4, 3]), Shard(0, (2, 2)))
    with v1.colocate_with(variable.op):
      op = tf.negative(tf.constant([1.0])).op
    self._maker.colocate([op], op)
    self.assertEqual(op.colocation_groups(), [b"loc:@v/part_0"])
    self.assertEqual(op.device, self.devices[0])

  def test_one_that_is_beside_nothing_that_is_split_stays(self):
    other = v1.get_variable("other", [2], use_resource=True)
    with v1.colocate_with(other.op):
      op = tf.negative(tf.constant([1.0])).op
    (copy, _) = self._copies(op, tf.constant([1.0]), tf.constant([2.0]))
    self.assertEqual(copy.colocation_groups(), [b"loc:@" + copy.name.encode()])
    self._maker.colocate([op], op)  # Beside nothing that somebody runs.
    self.assertEqual(op.colocation_groups(), [b"loc:@" + op.name.encode()])

  @parameterized.named_parameters(
    ("concat", "concat", (1,), [[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]),
    ("add", "add", (), [[6.0, 8.0], [10.0, 12.0]]),
    ("stack", "stack", (), [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
  )
  def test_joins(self, name, axis, expected):
    parts = [
      tf.constant([[1.0, 2.0], [3.0, 4.0]]),
      tf.constant([[5.0, 6.0], [7.0, 8.0]]),
    ]
    names = ("whole",) if axis else ()
    found = self._make(name, parts, *axis, self.devices[1], *names)
    self.assertEqual(found.device, self.devices[1])
    (value,) = self.run_steps(found)
    np.testing.assert_array_equal(value, expected)

  @parameterized.named_parameters(
    ("largest", "Max", [1.0, 5.0], [4.0, 2.0], [4.0, 5.0]),
    ("smallest", "Min", [1.0, 5.0], [4.0, 2.0], [1.0, 2.0]),
    ("product", "Prod", [1.0, 5.0], [4.0, 2.0], [4.0, 10.0]),
    ("all", "All", [True, True], [False, True], [False, True]),
    ("any", "Any", [False, False], [False, True], [False, True]),
  )
  def test_reductions(self, type_, first, second, expected):
    parts = [tf.constant(first), tf.constant(second)]
    found = self._make("reduce", type_, parts, self.devices[1])
    self.assertEqual(found.device, self.devices[1])
    (value,) = self.run_steps(found)
    self.assertEqual(value.tolist(), expected)

  def test_constants(self):
    for value, dtype in ((3, tf.int32), ([1.5, 2.5], tf.float32)):
      found = self._make("constant", value, dtype, self.devices[0])
      self.assertEqual((found.op.type, found.dtype), ("Const", dtype))
      self.assertEqual(tf.get_static_value(found).tolist(), value)

  def test_reads(self):
    variable = self.split_variable("v", [[1.0], [2.0]], Shard(0, (1, 1)))
    handles = self.tensors.parts[variable.handle.name]
    found = [self._make("read", x, tf.float32) for x in handles]
    self.assertEqual([x.device for x in found], self.devices)
    values = self.run_steps(*found)
    self.assertEqual([x.tolist() for x in values], [[[1.0]], [[2.0]]])

  def test_any_shape(self):
    found = self._make("of_any_shape", tf.constant([1.0, 2.0]))
    self.assertIsNone(found.shape.rank)
    (value,) = self.run_steps(found)
    self.assertEqual(value.tolist(), [1.0, 2.0])


if __name__ == "__main__":
  absltest.main()
