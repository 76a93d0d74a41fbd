"""What replicas mirror, and how mirrors follow a write: as data, on graphs."""

from estimator_mp.replicas import mirrors
from estimator_mp.replicas.mirrors import Way
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class _GraphTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self.use_v1_control_flow()


class FindMirroredTest(_GraphTest):
  def _names(self, known=frozenset()):
    return [op.name for op in mirrors.find_mirrored(self.ops(), known)]

  def test_variables_and_what_is_made_of_them_alone(self):
    weights = self.variable("weights")
    start = set(self.ops())
    batch = v1.placeholder(tf.float32, [None, 4], name="batch")
    norm = tf.nn.l2_loss(weights.read_value(), name="norm")
    tf.multiply(norm, 0.1, name="penalty")
    tf.matmul(batch, batch, transpose_b=True, name="of_the_batch")
    tf.constant(1.0, name="constant")
    found = mirrors.find_mirrored(
      [weights.op, *(op for op in self.ops() if op not in start)], set()
    )
    names = [op.name for op in found if op.type != "ReadVariableOp"]
    self.assertEqual(names[0], "weights")
    self.assertContainsSubset(["norm", "penalty"], names)
    self.assertNoCommonElements(["batch", "of_the_batch", "constant"], names)

  def test_writes_are_for_all(self):
    counter = self.variable("counter", ())
    counter.assign_add(1.0, name="count")
    names = self._names()
    self.assertIn("counter", names)
    self.assertNotIn("count", names)

  def test_a_generator_moves_once(self):
    state = v1.get_variable(
      "state", [3], tf.int64, v1.zeros_initializer(), use_resource=True
    )
    tf.raw_ops.RngReadAndSkip(
      resource=state.handle, alg=1, delta=tf.constant(1, tf.uint64), name="skip"
    )
    self.assertNotIn("skip", self._names())

  def test_what_is_known_is_left_out(self):
    weights = self.variable("weights")
    known = set(mirrors.find_mirrored(self.ops(), set()))
    tf.nn.l2_loss(weights.read_value(), name="norm")
    names = self._names(known)
    self.assertIn("norm", names)
    self.assertNotIn("weights", names)

  def test_a_loop_is_mirrored_as_a_whole(self):
    weights = self.variable("weights", ())
    value = weights.read_value()
    tf.while_loop(
      lambda i, x: i < 3, lambda i, x: (i + 1, x * value), (0, 1.0), name="loop"
    )
    loop = {op for op in self.ops() if op.name.startswith("loop")}
    entries = {op for op in loop if op.type == "Enter"}
    found = mirrors.find_mirrored(self.ops(), set())
    self.assertContainsSubset(entries, found)
    self.assertContainsSubset({op for op in loop if op.type == "Exit"}, found)


class FindWritesTest(_GraphTest):
  def _mirrored(self, *variables):
    return [mirrors.Mirrored(v.op, [v.op.outputs[0]]) for v in variables]

  def _ways(self, *variables, **kwargs):
    writes = mirrors.find_writes(
      self.ops(), self._mirrored(*variables), **kwargs
    )
    return {write.op.name: write.way for write in writes}

  def test_ways_of_a_dense_write(self):
    """In a step mirrors follow; alone, they come first."""
    weights = self.variable("weights")
    write = weights.assign(tf.ones([4, 2]), name="write", read_value=False)
    self.assertEqual(self._ways(weights)["write"], Way.FIRST)
    self.assertEqual(self._ways(weights, step={write})["write"], Way.AFTER)

  def test_first_values_may_be_loaded_alone(self):
    """`variable.load` feeds an initializer."""
    weights = self.variable("weights")
    self.assertEqual(self._ways(weights), {"weights/Assign": Way.FIRST})

  def test_the_train_op_may_be_run_alone(self):
    """It writes the global step, which hooks count by."""
    step = v1.train.create_global_step()
    counted = step.assign_add(1, name="train", read_value=False)
    ways = self._ways(step, step={counted})
    self.assertEqual(ways["train"], Way.FIRST)

  def test_a_write_with_slots_cannot_be_made_twice(self):
    weights, slot = self.variable("weights"), self.variable("slot")
    update = tf.raw_ops.ResourceApplyMomentum(
      var=weights.handle,
      accum=slot.handle,
      lr=0.1,
      grad=tf.ones([4, 2]),
      momentum=0.9,
      name="update",
    )
    self.assertEqual(self._ways(weights)["update"], Way.EACH_STEP)
    self.assertEqual(self._ways(weights, step={update})["update"], Way.AFTER)
    # But each replica may have made it itself.
    ways = self._ways(weights, repeated={update})
    self.assertEqual(ways["update"], Way.FIRST)

  def test_reads_are_no_writes(self):
    weights = self.variable("weights")
    weights.read_value()
    tf.raw_ops.VarIsInitializedOp(resource=weights.handle)
    self.assertEqual(self._ways(weights).keys(), {"weights/Assign"})

  def test_what_a_function_writes(self):
    weights = self.variable("weights")
    other = self.variable("other")

    @tf.function
    def write():
      weights.assign_add(tf.ones([4, 2]) * other.read_value())

    write()
    (call,) = (op for op in self.ops() if op.type.endswith("PartitionedCall"))
    ways = self._ways(weights, other)
    self.assertEqual(ways[call.name], Way.EACH_STEP)
    writes = mirrors.find_writes([call], self._mirrored(weights, other))
    self.assertEqual([x.variable for x in writes[0].variables], [weights.op])
    # In a forward pass a call is taken to read.
    self.assertNotIn(call.name, self._ways(weights, forward={call}))

  def test_others_variables_are_left_out(self):
    weights = self.variable("weights")
    weights.assign(tf.ones([4, 2]), name="write")
    mirrored = self.variable("mirrored")
    self.assertEqual(self._ways(mirrored).keys(), {"mirrored/Assign"})

  def test_rows(self):
    table = self.variable("table")
    rows = tf.constant([1, 3])
    table.scatter_update(tf.IndexedSlices(tf.ones([2, 2]), rows))
    dense = table.assign(tf.ones([4, 2]), name="dense", read_value=False)
    writes = mirrors.find_writes(
      self.ops(), self._mirrored(table), step=set(self.ops())
    )
    (by_rows,) = (w for w in writes if w.op.type == "ResourceScatterUpdate")
    self.assertEqual(by_rows.rows.name, rows.name)
    (whole,) = (w for w in writes if w.op is dense)
    self.assertIsNone(whole.rows)

  def test_a_write_in_a_loop_is_refused(self):
    weights = self.variable("weights", ())

    def body(i):
      with tf.control_dependencies([weights.assign_add(1.0, name="write")]):
        return i + 1

    tf.while_loop(lambda i: i < 3, body, [0])
    with self.assertRaisesRegex(
      ValueError, "^while/write writes weights in a loop of TensorFlow 1, "
    ):
      self._ways(weights)


if __name__ == "__main__":
  absltest.main()
