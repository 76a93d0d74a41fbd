"""Calls in the place of groups of ops, and sums that calls add up."""

import estimator_mp  # noqa: F401, before TensorFlow
from compat.private import graph_edits
from estimator_mp.graph.calls import contraction, sums
from tests.estimator_mp import graph_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class ContractionTest(graph_case.GraphCase):
  """z = (x w + 1)^2; z and the product are read elsewhere."""

  def setUp(self):
    super().setUp()
    # Numbers of "product" and "y", by their names.
    self._x = tf.constant([[1.0, 2.0]], name="product/a")
    one = tf.constant(1.0, name="y/y")
    self._w = v1.placeholder_with_default([[3.0], [4.0]], [2, 1], "w")
    with tf.device("/device:CPU:0"):
      self._product = tf.raw_ops.MatMul(a=self._x, b=self._w, name="product")
      before = tf.negative(self._w, "before")
      with tf.control_dependencies([before]):
        y = tf.raw_ops.AddV2(x=self._product, y=one, name="y")
      self._z = tf.square(y, "z")
    self._ops = [x.op for x in (self._product, before, y, self._z)]

  def _call(self, refer=lambda x: x.name):
    return contraction.call_of(
      "call",
      "/device:CPU:0",
      self._ops,
      [op.node_def for op in self._ops],
      [self._product, self._z],
      refer,
    )

  def _defined(self, call, device_of=lambda x: x):
    """Returns the results of a call in the graph."""
    function = call.on(device_of)
    library = tf.compat.v1.GraphDef().library
    library.function.append(function)
    contraction.define(library)
    definition = tf.compat.v1.GraphDef()
    definition.versions.CopyFrom(self.graph.graph_def_versions)
    node = definition.node.add()
    node.CopyFrom(call.node)
    node.attr["f"].func.name = function.signature.name
    made = graph_edits.import_ops(definition, {self._w.name: self._w}, "made")
    return made["call"].outputs

  def test_a_call_reads_what_its_ops_read_of_elsewhere(self):
    """A small constant is in the function instead."""
    call = self._call()
    self.assertEqual([*call.node.input], [self._w.name])
    self.assertEqual(call.results, ["product:0", "z:0"])
    self.assertEqual(
      (call.node.op, call.node.device), ("PartitionedCall", "/device:CPU:0")
    )
    inside = {node.name for node in call.function.node_def}
    self.assertContainsSubset(
      {"cell/product/a", "cell/product", "cell/z"}, inside
    )

  def test_what_ops_wait_for_inside(self):
    nodes = {node.name: node for node in self._call().function.node_def}
    self.assertIn("^cell/before", nodes["cell/y"].input)

  def test_it_computes_the_same(self):
    found = self._defined(self._call())
    with v1.Session() as session:
      ours, theirs = session.run([found, [self._product, self._z]])
    np.testing.assert_array_equal(ours, theirs)

  def test_functions_on_other_devices(self):
    """Each is made once, and named by what is in it."""
    call = self._call()
    own = call.on(lambda x: x)
    other = call.on(lambda x: x.replace("CPU:0", "CPU:1"))
    self.assertIs(call.on(lambda x: x), own)
    self.assertNotEqual(own.signature.name, other.signature.name)
    self.assertEqual(
      self._call().on(lambda x: x).signature.name, own.signature.name
    )
    self.assertEqual({x.device for x in other.node_def}, {"/device:CPU:1"})

  def test_a_large_constant_is_read(self):
    large = tf.constant(np.ones([1000], np.float32), name="large")
    self._ops = [tf.negative(large).op]
    call = contraction.call_of(
      "call", "", self._ops, [self._ops[0].node_def], [], lambda x: x.name
    )
    self.assertEqual([*call.node.input], ["large:0"])

  def test_what_is_read_of_a_group_elsewhere(self):
    groups = dict.fromkeys(self._ops, "group")
    found = contraction.results_of(self._ops, groups, ())
    self.assertEmpty(found)
    tf.negative(self._z)
    found = contraction.results_of(self._ops, groups, {self._product.op})
    self.assertEqual(found, [self._product, self._z])

  def test_ops_with_other_names(self):
    part = tf.compat.v1.GraphDef()
    for name, *read in (("a", "x"), ("b", "a", "^a")):
      part.node.add(name=name, op="Neg", input=read)
      part.node[-1].attr["_class"].list.s[:] = [b"loc:@a", b"loc:@w"]
    whole = tf.compat.v1.GraphDef()
    contraction.add_with_prefix(whole, part, "micro_batch_1/", {"x:0": self._w})
    first, second = whole.node
    self.assertEqual((first.name, [*first.input]), ("micro_batch_1/a", ["w:0"]))
    self.assertEqual([*second.input], ["micro_batch_1/a", "^micro_batch_1/a"])
    self.assertEqual(
      [*second.attr["_class"].list.s], [b"loc:@micro_batch_1/a", b"loc:@w"]
    )

  def test_lists_are_added_one_after_the_other(self):
    lists = [
      [
        v1.placeholder_with_default(float(n), []),
        v1.placeholder_with_default([n, 10 * n], [2]),
      ]
      for n in (1, 2, 3)
    ]
    totals, calls = sums.add_up(lists, "/device:CPU:0")
    self.assertLen(calls, 2)
    self.assertEqual([*calls[1].inputs[:2]], [*calls[0].outputs])
    self.assertEqual(totals, [*calls[1].outputs])
    self.assertEqual({op.device for op in calls}, {"/device:CPU:0"})
    self.assertEqual(calls[0].get_attr("f").name, calls[1].get_attr("f").name)
    with v1.Session() as session:
      scalar, vector = session.run(totals)
    self.assertEqual((scalar, vector.tolist()), (6.0, [6, 60]))


if __name__ == "__main__":
  absltest.main()
