"""Slices: what each micro-batch needs its own copy of, in small graphs."""

import estimator_mp  # noqa: F401
from estimator_mp.graph import traversal
from estimator_mp.lower import ordering
from estimator_mp.pipeline import slices

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _names(ops):
  return [op.name for op in ops]


class SlicesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self._graph = self.enterContext(tf.Graph().as_default())
    self._x = v1.placeholder(tf.float32, [4, 3], "x")
    self._weights = v1.get_variable("weights", [3, 1], use_resource=True)
    self._average = v1.get_variable("average", [], use_resource=True)
    self._made = len(self._graph.get_operations())
    self._finder = slices.SliceFinder([self._x])

  def _find(self, *targets, done=()):
    ops = self._graph.get_operations()[self._made :]
    self._made += len(ops)
    self._finder.add(ops)
    return self._finder.find([x.op for x in targets], set(done))

  def _weights_read(self):
    return tf.raw_ops.ReadVariableOp(
      resource=self._weights.handle, dtype=tf.float32, name="read"
    )

  def test_what_reads_features_differs_and_the_rest_is_shared(self):
    net = tf.matmul(self._x, self._weights_read(), name="net")
    penalty = tf.nn.l2_loss(self._weights, name="penalty")
    loss = tf.add(tf.nn.l2_loss(net, name="error"), penalty, name="loss")
    found = self._find(loss)
    self.assertEqual(_names(found.ops), ["net", "error", "loss"])
    self.assertIn("read", _names(found.shared))
    self.assertIn("penalty", _names(found.shared))
    self.assertTrue(self._finder.differs(loss))
    self.assertFalse(self._finder.differs(penalty))
    self.assertFalse(found.reads_sums)
    self.assertEqual(found.late, {})

  def test_the_next_slice_leaves_out_what_is_done(self):
    first = self._find(tf.exp(self._x, name="one"))
    more = tf.sin(self._graph.get_tensor_by_name("one:0"), name="two")
    self.assertEqual(_names(self._find(more, done=first.ops).ops), ["two"])

  def test_what_reads_the_sum_of_a_slice_is_of_another(self):
    first = self._find(tf.exp(self._x, name="part"))
    total = tf.ones([], name="total")
    self._made += 1
    self._finder.add_sums([total.op])
    second = tf.multiply(self._x, total, name="second")
    found = self._find(second, done=first.ops)
    self.assertEqual(_names(found.ops), ["second"])
    self.assertTrue(found.reads_sums)

  def test_a_random_op_for_examples_differs(self):
    mask = tf.random.uniform([4, 3], name="mask", seed=1)
    self._find(mask)
    self.assertTrue(self._finder.differs(mask))

  def test_what_waits_for_an_update_is_told_and_nothing_is_edited(self):
    update = self._average.assign(tf.reduce_mean(self._x), read_value=False)
    with tf.control_dependencies([update]):
      loss = tf.nn.l2_loss(self._x, name="loss")
    found = self._find(loss)
    self.assertEqual(_names(found.ops), ["loss"])
    self.assertEqual(found.late, {loss.op: [update]})
    self.assertEqual(list(loss.op.control_inputs), [update])
    ordering.stop_waiting(found.late)
    self.assertEqual(list(loss.op.control_inputs), [])
    self.assertEqual(self._finder.find([loss.op], set()).late, {})
    gradient = tf.ones([], name="gradient")
    ordering.wait_for_updates([gradient], list(found.late[loss.op]))
    self.assertEqual(list(gradient.op.control_inputs), [update])

  def test_an_update_that_all_share_is_waited_for(self):
    update = self._average.assign(1.0, read_value=False)
    with tf.control_dependencies([update]):
      loss = tf.nn.l2_loss(self._x, name="loss")
    self.assertEqual(self._find(loss).late, {})

  def test_reading_a_variable_after_its_update_is_refused(self):
    with tf.control_dependencies(
      [self._average.assign(tf.reduce_mean(self._x), read_value=False)]
    ):
      value = tf.raw_ops.ReadVariableOp(
        resource=self._average.handle, dtype=tf.float32, name="after"
      )
    with self.assertRaisesRegex(
      ValueError,
      "^after reads a variable after AssignVariableOp has updated it from the "
      "batch, so micro-batches cannot pass one after the other; use "
      "num_micro_batches=1$",
    ):
      self._find(value)

  def _rows_after_an_update_of(self, updated, rows=None):
    """Returns rows of `weights`, read after a variable was updated."""
    with tf.control_dependencies(
      [updated.assign_add(tf.reduce_mean(self._x) * updated, read_value=False)]
    ):
      return tf.raw_ops.ResourceGatherNd(
        resource=self._weights.handle,
        indices=[[0, 0]] if rows is None else rows,
        dtype=tf.float32,
        name="after",
      )

  def test_rows_of_a_variable_after_its_update_are_refused(self):
    rows = tf.constant([[0, 0]])
    with self.assertRaisesRegex(ValueError, "^after reads a variable after"):
      self._find(self._rows_after_an_update_of(self._weights, rows))

  def test_rows_that_wait_for_the_update_themselves_are_refused(self):
    """The read then does not wait: TensorFlow leaves that to its input."""
    after = self._rows_after_an_update_of(self._weights)
    self.assertEmpty(after.op.control_inputs)
    with self.assertRaisesRegex(ValueError, "^after reads a variable after"):
      self._find(after)

  def test_rows_that_wait_for_another_update_are_read(self):
    after = self._rows_after_an_update_of(self._average)
    self.assertIn(after.op, self._find(after).shared)

  def test_a_write_on_the_way_to_the_loss_is_refused(self):
    table = v1.get_variable("table", [4], use_resource=False)
    written = v1.scatter_add(table, [0], tf.reduce_mean(self._x, 1)[:1])
    with self.assertRaisesRegex(ValueError, "^ScatterAdd writes a variable"):
      self._find(tf.nn.l2_loss(written))

  def test_what_an_op_runs_with(self):
    one = tf.ones([], name="one")
    with tf.control_dependencies([tf.no_op("first")]):
      two = tf.add(one, one, name="two")
    tf.no_op("other")
    self.assertEqual(
      set(_names(traversal.ops_run_with(two.op))), {"one", "first", "two"}
    )


if __name__ == "__main__":
  absltest.main()
