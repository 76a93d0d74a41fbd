"""Clones of a few ops, as a graph has them."""

import estimator_mp  # noqa: F401, before TensorFlow
from compat.private import graph_edits
from estimator_mp.graph import clones as clones_lib

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _homes(count):
  return [
    clones_lib.Home(f"micro_batch_{m}", number=m) for m in range(1, count + 1)
  ]


class ClonesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    graph = tf.Graph()
    self.enter_context(graph.as_default())
    self._parts = [tf.constant([float(m)], name=f"part_{m}") for m in range(3)]
    self._clones = clones_lib.Clones(_homes(2))
    self._clones.pair(self._parts[0], self._parts[1:])

  def _add(self, *tensors):
    self._clones.add([tensor.op for tensor in tensors])

  def test_a_clone_reads_what_stands_for_the_inputs(self):
    weight = tf.constant([10.0], name="weight")
    product = tf.multiply(self._parts[0], weight, name="product")
    total = tf.add(product, weight, name="total")
    self._add(product, total)
    found = self._clones.of(total)
    self.assertEqual(
      [x.op.name for x in found],
      ["micro_batch_1/total", "micro_batch_2/total"],
    )
    for tensor, part in zip(found, self._parts[1:], strict=True):
      copy, shared = tensor.op.inputs
      self.assertIs(shared.op, weight.op)
      self.assertEqual(
        [x.name for x in copy.op.inputs], [part.name, weight.name]
      )
    with v1.Session() as session:
      self.assertEqual(
        [*session.run([total, *found])], [[10.0], [20.0], [30.0]]
      )

  def test_what_is_no_clone_stands_for_itself(self):
    weight = tf.constant([10.0], name="weight")
    self.assertEqual(
      [x.name for x in self._clones.of(weight)], ["weight:0"] * 2
    )
    self.assertNotIn(weight, self._clones)
    self.assertIn(self._parts[0], self._clones)

  def test_what_is_beside_an_op_that_has_no_clone(self):
    with tf.device("/device:CPU:1"):
      weight = tf.constant([10.0], name="weight")
    with v1.colocate_with(weight.op):
      total = tf.add(self._parts[0], weight, name="total")
    with v1.colocate_with(total.op):
      twice = tf.add(total, total, name="twice")
    for tensor in (total, twice):
      graph_edits.set_device(tensor.op, "")  # As what no pass has placed.
    self._add(total, twice)
    of_total, of_twice = (self._clones.of(x)[0].op for x in (total, twice))
    self.assertEqual(of_total.device, "/device:CPU:1")
    self.assertEqual(
      of_total.colocation_groups(), [b"loc:@" + of_total.name.encode()]
    )
    self.assertEqual(of_twice.type, "AddV2")

  def test_names_of_copies(self):
    double = tf.multiply(self._parts[0], 2.0, name="double")
    self._add(double)
    copy = self._clones.op(1, double.op)
    self.assertEqual(copy.name, "micro_batch_2/double")

  def test_later_clones_read_earlier_ones(self):
    first = tf.negative(self._parts[0], name="first")
    self._add(first)
    second = tf.negative(first, name="second")
    self._add(second)
    for first_copy, second_copy in zip(
      self._clones.of(first), self._clones.of(second), strict=True
    ):
      self.assertEqual(second_copy.op.inputs[0].name, first_copy.name)

  def test_a_clone_waits_for_its_own(self):
    update = tf.no_op("shared")
    with tf.control_dependencies([update]):
      first = tf.negative(self._parts[0], name="first")
    with tf.control_dependencies([first, update]):
      second = tf.identity(self._parts[0], name="second")
    self._add(first, second)
    waits = [x.name for x in self._clones.op(0, second.op).control_inputs]
    self.assertCountEqual(waits, ["micro_batch_1/first", "shared"])

  def test_devices_of_homes(self):
    def device_of(device):
      return device.replace("CPU:0", "CPU:1")

    clones = clones_lib.Clones([clones_lib.Home("replica_1", device_of)])
    with tf.device("/device:CPU:0"):
      placed = tf.negative(self._parts[0], name="placed")
    free = tf.negative(self._parts[0], name="free")
    clones.add([placed.op, free.op])
    self.assertEqual(clones.op(0, placed.op).device, "/device:CPU:1")
    self.assertEqual(clones.op(0, free.op).device, "")

  def test_a_home_in_clones(self):
    """Micro-batches of a replica read the replica's mirrors."""
    replica = clones_lib.Clones([clones_lib.Home("replica_1")])
    v = v1.get_variable("v", [], use_resource=True)
    replica.add([v.op])
    home = replica.home(0, "replica_1/micro_batch_0", lambda x: x)
    clones = clones_lib.Clones([home])
    read = v.read_value().op.inputs[0].op
    clones.add([read])
    (copy,) = clones.of(read.outputs[0])
    self.assertEqual(copy.op.inputs[0].op.name, "replica_1/v")
    self.assertNotEqual(
      copy.op.inputs[0].op.get_attr("shared_name"),
      v.op.get_attr("shared_name"),
    )

  def test_random_numbers_of_its_own(self):
    drawn = tf.random.uniform([1], seed=3, name="drawn")
    self._add(drawn)
    ops = [drawn.op, *(self._clones.op(i, drawn.op) for i in range(2))]
    seeds = [op.get_attr("seed2") for op in ops]
    self.assertLen(set(seeds), 3)

  def test_number_0_draws_what_the_original_draws(self):
    clones = clones_lib.Clones([clones_lib.Home("again")])
    drawn = tf.random.uniform([1], seed=3, name="drawn")
    clones.add([drawn.op])
    copy = clones.op(0, drawn.op)
    self.assertEqual(copy.get_attr("seed2"), drawn.op.get_attr("seed2"))

  def test_nothing_to_clone(self):
    num_ops = len(v1.get_default_graph().get_operations())
    self._clones.add([])
    self.assertLen(v1.get_default_graph().get_operations(), num_ops)


if __name__ == "__main__":
  absltest.main()
