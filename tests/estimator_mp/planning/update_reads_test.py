"""What updates of mirrored variables read of slices."""

from estimator_mp.graph import traversal
from estimator_mp.planning import update_reads
from estimator_mp.propagate.layouts import ONCE, Partial, Partition, Shard

import tensorflow as tf
from absl.testing import absltest

_v1 = tf.compat.v1
_ROWS = Shard(0, Partition(6, (3, 3)))


class UpdateReadsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = self.enter_context(tf.Graph().as_default())
    self.layouts = {}

  def _gradient(self, name, shape=(2,), layout=None, dtype=tf.float32):
    tensor = _v1.placeholder(dtype, shape, name)
    self.layouts[tensor.name] = layout or Partial()
    return tensor

  def _variable(self, name, shape=(2,)):
    return _v1.get_variable(
      name, shape, initializer=tf.zeros_initializer(), use_resource=True
    )

  def _find(self, *train_ops, mirrored=("w",)):
    live = traversal.ops_run_with(*train_ops)
    ops = [op for op in self.graph.get_operations() if op in live]
    found = update_reads.find(
      ops,
      {op for op in ops if not any(x.name in self.layouts for x in op.outputs)},
      {self.graph.get_operation_by_name(name) for name in mirrored},
      lambda tensor: self.layouts.get(tensor.name, ONCE),
    )
    return [(x.tensor.op.name, x.variable.name, x.round) for x in found]

  def test_clipped_gradients(self):
    """Their norm is a scalar, and computed once."""
    names = ("v", "w")
    variables = [self._variable(name) for name in names]
    gradients = [self._gradient(f"d{name}") for name in names]
    clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
    adam = _v1.train.AdamOptimizer(0.1)
    train_op = adam.apply_gradients(zip(clipped, variables, strict=True))
    self.assertEqual(
      self._find(train_op, mirrored=names), [("dv", "v", 0), ("dw", "w", 0)]
    )
    self.assertEqual(self._find(train_op), [("dw", "w", 0)])

  def test_rows_of_a_table(self):
    rows = self._gradient("rows", (6, 2), _ROWS)
    ids = self._gradient("ids", (6,), _ROWS, tf.int64)
    table = self._variable("w", (9, 2))
    adam = _v1.train.AdamOptimizer(0.1)
    slices = tf.IndexedSlices(rows, ids, tf.constant([9, 2]))
    train_op = adam.apply_gradients([(slices, table)])
    self.assertEqual(self._find(train_op), [("rows", "w", 0), ("ids", "w", 0)])

  def test_what_a_slot_is_written_by(self):
    weight, slot = self._variable("w"), self._variable("slot")
    added = slot.assign_add(self._gradient("dw"), read_value=False)
    with tf.control_dependencies([added]):
      train_op = weight.assign_sub(0.1 * slot.read_value(), read_value=False)
    self.assertEqual(self._find(train_op), [("dw", "w", 0)])

  def test_scalars_are_read_by_their_own_updates_alone(self):
    scalar, weight = self._variable("s", ()), self._variable("w")
    own, loss = self._gradient("ds", ()), self._gradient("loss", ())
    train_op = tf.group(
      scalar.assign_sub(own), weight.assign(weight.read_value() * loss)
    )
    self.assertEqual(self._find(train_op, mirrored="sw"), [("ds", "s", 0)])

  def test_one_update_after_the_other(self):
    first, second = self._variable("v"), self._variable("w")
    before = first.assign_sub(self._gradient("dv"), read_value=False)
    with tf.control_dependencies([before]):
      after = tf.identity(self._gradient("x"))
    self.layouts[after.name] = Partial()
    train_op = second.assign_sub(after, read_value=False)
    self.assertEqual(
      self._find(train_op, mirrored="vw"),
      [("dv", "v", 0), (after.op.name, "w", 1)],
    )

  def test_what_replicas_cannot_aggregate(self):
    weight = self._variable("w", (2,))
    whole = self._gradient("largest", layout=ONCE)
    counts = self._gradient("counts", dtype=tf.int32)
    train_op = weight.assign_sub(whole * tf.cast(counts, tf.float32))
    self.assertEmpty(self._find(train_op))


if __name__ == "__main__":
  absltest.main()
