"""What waits for mirrors, and what these wait for: on small graphs."""

from estimator_mp.graph import traversal
from estimator_mp.lower import mirroring
from estimator_mp.replicas import mirrors

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class MirroringTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())
    with v1.device("/device:CPU:0"):
      self._table = self._variable("table")
    with v1.device("/device:CPU:1"):
      self._mirror = self._variable("mirror")
      self._read = tf.raw_ops.ReadVariableOp(
        resource=self._mirror.handle, dtype=tf.float32
      ).op

  def _variable(self, name):
    return v1.get_variable(
      name, [4, 2], initializer=v1.zeros_initializer(), use_resource=True
    )

  def _with_mirrors(self, train_op, forward=(), repeated=None):
    spec = tf.estimator.EstimatorSpec(
      "train", loss=tf.constant(0.0), train_op=train_op
    )
    mirrored = mirrors.Mirrored(self._table.op, [self._mirror.handle])
    spec = mirroring.with_mirrors(spec, [mirrored], forward, repeated or {})
    self._graph.finalize()
    (hook,) = spec.training_hooks
    self.assertIsInstance(hook, mirroring.MirrorHook)
    return getattr(spec.train_op, "op", spec.train_op)

  def _writes_of_mirror(self, ops):
    return [
      op
      for op in ops
      if op.type != "ReadVariableOp"
      and self._mirror.handle.op in traversal.inputs(op)
      and op is not self._mirror.initializer
    ]

  def test_a_step_ends_with_the_copies(self):
    write = self._table.assign(tf.ones([4, 2]), read_value=False)
    train_op = self._with_mirrors(write)
    (copy,) = self._writes_of_mirror(train_op.control_inputs)
    self.assertEqual(copy.device, "/device:CPU:1")
    (value,) = (x for x in traversal.inputs(copy) if x.type == "ReadVariableOp")
    self.assertEqual(value.control_inputs, [write])
    self.assertEqual(value.device, "/device:CPU:0")

  def test_who_waits_for_a_write_waits_for_the_copies(self):
    write = self._table.assign(tf.ones([4, 2]), read_value=False)
    with tf.control_dependencies([write]):
      train_op = tf.no_op("after")
    self.assertIs(self._with_mirrors(train_op), train_op)
    self.assertLen(self._writes_of_mirror(train_op.control_inputs), 1)

  def test_rows(self):
    rows = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 3]))
    update = self._table.scatter_update(rows)
    train_op = self._with_mirrors(tf.group(update))
    (copy,) = self._writes_of_mirror(traversal.ops_run_with(train_op))
    self.assertEqual(copy.type, "ResourceScatterUpdate")

  def test_replicas_own_updates(self):
    own = self._mirror.assign(tf.ones([4, 2]), read_value=False)
    write = self._table.assign(tf.ones([4, 2]), read_value=False)
    train_op = self._with_mirrors(write, repeated={write: [own]})
    self.assertEqual(
      self._writes_of_mirror(traversal.ops_run_with(train_op)), [own]
    )

  def test_what_is_run_alone_writes_the_mirrors_first(self):
    train_op = tf.no_op("train")
    spare = self._table.assign(tf.ones([4, 2]), read_value=False)
    self.assertIs(self._with_mirrors(train_op), train_op)
    for write in (spare, self._table.initializer):
      (first,) = self._writes_of_mirror(write.control_inputs)
      self.assertEqual(first.type, "AssignVariableOp")
      self.assertIs(first.inputs[1].op, write.inputs[1].op)
    self.assertEmpty(self._read.control_inputs)

  def test_what_is_run_alone_waits_for_what_its_write_waits_for(self):
    before, value = tf.no_op("before"), tf.ones([4, 2])
    with tf.control_dependencies([before]):
      write = self._table.assign(value, read_value=False)
    self._with_mirrors(tf.no_op("train"))
    (first,) = self._writes_of_mirror(write.control_inputs)
    self.assertIn(before, first.control_inputs)

  def test_what_cannot_be_made_twice_is_copied_in_each_step(self):
    @tf.function
    def double():
      self._table.assign(self._table * 2)

    double()
    self._with_mirrors(tf.no_op("train"))
    (copy,) = self._writes_of_mirror(self._read.control_inputs)
    self.assertEqual(copy.device, "/device:CPU:1")


if __name__ == "__main__":
  absltest.main()
