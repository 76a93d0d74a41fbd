"""Which plain ops would read a variable after the step has written it."""

import estimator_mp  # noqa: F401, before TensorFlow
from estimator_mp.plan import late_reads
from estimator_mp.plan.batch_plan import Rows
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_ROWS = Rows(0, 1)


class LateReadsTest(graph_case.GraphCase):
  """A table that a step updates, one that it does not, and ids."""

  def setUp(self):
    super().setUp()
    self._ids = v1.placeholder(tf.int64, [None], "ids")
    self._table, self._frozen = (
      v1.get_variable(name, [5, 2], use_resource=True)
      for name in ("table", "frozen")
    )
    self._step = [v1.scatter_sub(self._table, [0], [[1.0, 1.0]]).op]

  def _find(self, *tensors, rows=None):
    """Returns what is found of ops, each of which is its own copy."""
    ops = {x.op: x.op for x in tensors}
    if rows is None:
      rows = {y.name: _ROWS for op in ops for y in op.outputs}
    found = late_reads.find(ops, rows, self._step)
    return [*found.ops], [(x.name, y.name) for x, y in found.joined]

  def _lookup(self, table):
    return tf.raw_ops.ResourceGather(
      resource=table.handle, indices=self._ids, dtype=tf.float32
    )

  def test_a_lookup(self):
    rows = self._lookup(self._table)
    after = tf.square(rows)
    self.assertEqual(
      self._find(rows, after), ([rows.op], [(rows.name, rows.name)])
    )

  def test_what_a_step_runs(self):
    """Slices read a shape of it, so it comes before they do."""
    rows = self._lookup(self._table)
    self._step.append(rows.op)
    self.assertEqual(self._find(rows), ([], []))

  def test_rows_of_an_unknown_rank(self):
    ids = v1.placeholder(tf.int64, None)
    rows = tf.gather(self._table, ids)
    after = tf.reshape(rows, [-1, 2])
    ops, joined = self._find(rows, after)
    self.assertEqual(ops, [rows.op, after.op])
    self.assertEqual(joined, [(after.name, after.name)])

  def test_a_variable_that_is_not_updated(self):
    self.assertEqual(self._find(self._lookup(self._frozen)), ([], []))

  def test_a_value_that_slices_read_too(self):
    value = tf.raw_ops.ReadVariableOp(
      resource=self._table.handle, dtype=tf.float32
    )
    rows = tf.gather(value, self._ids)
    self.assertEqual(self._find(value, rows), ([], []))

  def test_what_is_no_rows_is_read_by_what_makes_some(self):
    rows = self._lookup(self._table)
    items = tf.raw_ops.TensorListFromTensor(tensor=rows, element_shape=[2])
    stacked = tf.raw_ops.TensorListStack(
      input_handle=items, element_shape=[2], element_dtype=tf.float32
    )
    ops, joined = self._find(
      rows, items, stacked, rows={items.name: _ROWS, stacked.name: _ROWS}
    )
    self.assertEqual(ops, [rows.op, items.op, stacked.op])
    self.assertEqual(joined, [(stacked.name, stacked.name)])

  def test_a_loop_that_reads_it(self):
    def body(i, total):
      return i + 1, total + tf.reduce_sum(self._table)

    start = tf.zeros_like(self._ids, tf.float32)
    _, total = tf.while_loop(lambda i, _: i < 2, body, [0, start])
    loop = total.op.inputs[0].op if total.op.type == "Identity" else total.op
    made = {x.name: _ROWS for x in (total, total.op.inputs[0])}
    ops, joined = self._find(loop.outputs[0], total, rows=made)
    self.assertEqual(ops, [loop])
    self.assertIn((total.op.inputs[0].name,) * 2, joined)


if __name__ == "__main__":
  absltest.main()
